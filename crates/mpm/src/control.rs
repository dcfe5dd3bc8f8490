//! The control socket: its own user and root, and nobody else, ask and command the running server here.
//!
//! The parent accepts connections and reads nothing: each conversation is a process of its own, run by the binary
//! ([`ParentCallbacks::converse`](crate::ParentCallbacks)). It tells the parent what to do with the same signals as
//! everybody else, so the kernel makes sure that a conversation that has given up its rights can order nothing.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use conf::error::Phase;
use conf::{Error, SettingsMap};
use sys::cred::Identity;
use sys::process::Pid;

use crate::plan::Fixed;
use crate::settings::MpmSettings;

/// The context of a conversation, which runs in a process of its own: a copy of the parent with all its rights.
#[derive(Debug)]
pub struct Conversation<'a> {
    /// The connection to the client; non-blocking.
    pub connection: OwnedFd,
    /// The parent.
    pub parent: Pid,
    /// The user that serves requests, if it is a different one.
    pub children: Option<&'a Identity>,
    /// The numbers that a restart cannot change.
    pub fixed: Fixed,
}

/// The path of the socket under these settings: beside the pid file unless `ControlSocket` says otherwise. `None`:
/// there is no socket.
pub fn path(settings: &SettingsMap) -> Option<PathBuf> {
    let settings = settings.get::<MpmSettings>();
    match settings.control_socket.get() {
        Some(configured) => configured.as_ref().map(PathBuf::from),
        None => settings.pid_file.get().map(|pid_file| beside(Path::new(pid_file))),
    }
}

/// The socket that belongs to a pid file: the file's whole name plus `.ctl`, so that two pid files never share one.
pub fn beside(pid_file: &Path) -> PathBuf {
    let mut name = pid_file.as_os_str().to_owned();
    name.push(".ctl");
    name.into()
}

/// Refuses a socket in the place of the pid file.
pub fn check(settings: &SettingsMap) -> Result<(), Error> {
    let settings = settings.get::<MpmSettings>();
    let (Some(Some(socket)), Some(pid_file)) = (settings.control_socket.get(), settings.pid_file.get()) else {
        return Ok(());
    };
    if Path::new(socket) != Path::new(pid_file) {
        return Ok(());
    }
    let message = format!("ControlSocket {socket} is the PidFile too: give one of them another name");
    Err(Error { origin: settings.control_socket.origin().cloned(), ..Error::new(Phase::Apply, message) })
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
