//! The control socket: where the running server is asked and told, by its own user and by root only.
//!
//! The parent accepts and reads nothing: each conversation is a process of its own, which the binary leads
//! ([`Hooks::converse`](crate::Hooks)). What it is to do for the client it says with its exit status ([`Request`]).

use std::path::PathBuf;

use conf::Slots;

use crate::settings::MpmSettings;

/// Where the socket is, with these settings: beside the pid file where `ControlSocket` does not say otherwise. `None`: there
/// is none.
pub fn path(settings: &Slots) -> Option<PathBuf> {
    let settings = settings.get::<MpmSettings>();
    match settings.control_socket.get() {
        Some(configured) => configured.as_ref().map(PathBuf::from),
        None => settings.pid_file.get().map(|pid_file| PathBuf::from(pid_file).with_extension("ctl")),
    }
}

/// What a conversation asks the parent to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing.
    Nothing,
    /// A graceful restart.
    Graceful,
    /// A hard restart.
    Restart,
    /// A graceful stop.
    GracefulStop,
    /// A stop.
    Stop,
}

impl Request {
    const ALL: [Request; 5] =
        [Request::Nothing, Request::Graceful, Request::Restart, Request::GracefulStop, Request::Stop];
    /// Statuses below are those of programs that fail.
    const FIRST: i32 = 100;

    /// The exit status that says so.
    pub(crate) fn status(self) -> i32 {
        if self == Request::Nothing { 0 } else { Request::FIRST + self as i32 }
    }

    /// What an exit status says.
    pub(crate) fn of_status(status: i32) -> Request {
        Request::ALL.into_iter().find(|request| request.status() == status).unwrap_or(Request::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_go_both_ways() {
        assert!(Request::ALL.into_iter().all(|request| Request::of_status(request.status()) == request));
        assert!([1, 42, 100, 105].into_iter().all(|status| Request::of_status(status) == Request::Nothing));
    }
}
