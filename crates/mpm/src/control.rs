//! The control socket: where the running server is asked and told, by its own user and by root only.
//!
//! The parent accepts and reads nothing: each conversation is a process of its own, which the binary leads
//! ([`ParentCallbacks::converse`](crate::ParentCallbacks)). What the parent is to do it learns by the same signals as from everybody else, so
//! that the kernel sees to it that no conversation orders anything after it gave up its rights.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use conf::error::Phase;
use conf::{Error, SettingsMap};
use sys::cred::Identity;
use sys::process::Pid;

use crate::limits::Fixed;
use crate::settings::MpmSettings;

/// What a conversation has to work with, in a process of its own that is a copy of the parent with all its rights.
#[derive(Debug)]
pub struct Conversation<'a> {
    /// To the client; does not block.
    pub connection: OwnedFd,
    /// The parent.
    pub parent: Pid,
    /// As whom requests are served, if that is somebody else.
    pub children: Option<&'a Identity>,
    /// What stays as it is when the server is restarted.
    pub fixed: Fixed,
}

/// Where the socket is, with these settings: beside the pid file where `ControlSocket` does not say otherwise. `None`: there
/// is none.
pub fn path(settings: &SettingsMap) -> Option<PathBuf> {
    let settings = settings.get::<MpmSettings>();
    match settings.control_socket.get() {
        Some(configured) => configured.as_ref().map(PathBuf::from),
        None => settings.pid_file.get().map(|pid_file| beside(Path::new(pid_file))),
    }
}

/// The socket that belongs to a pid file: its whole name, and `.ctl`. Two pid files never have the same.
pub fn beside(pid_file: &Path) -> PathBuf {
    let mut name = pid_file.as_os_str().to_owned();
    name.push(".ctl");
    name.into()
}

/// Refuses what cannot be: a socket at the place of the pid file.
pub fn check(settings: &SettingsMap) -> Result<(), Error> {
    let settings = settings.get::<MpmSettings>();
    let (Some(Some(socket)), Some(pid_file)) = (settings.control_socket.get(), settings.pid_file.get()) else {
        return Ok(());
    };
    if Path::new(socket) != Path::new(pid_file) {
        return Ok(());
    }
    let message = format!("ControlSocket {socket} is the PidFile too: give one of them another name");
    Err(Error { phase: Phase::Apply, message, origin: settings.control_socket.origin().cloned(), unknown: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pid_file_has_its_own_socket() {
        for (pid_file, socket) in
            [("run/site.a", "run/site.a.ctl"), ("run/site.b", "run/site.b.ctl"), ("a.ctl", "a.ctl.ctl")]
        {
            assert_eq!(beside(Path::new(pid_file)), Path::new(socket));
        }
    }
}
