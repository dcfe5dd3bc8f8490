//! Accepting connections, and what to do when the system has none left to give.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use sys::rlimit::{self, Limit};
use sys::socket::TOO_MANY_FILES;
use sys::time::monotonic;

use crate::listen::Listener;

/// What a try to accept gave.
#[derive(Debug)]
pub(crate) enum Accept {
    /// A connection.
    Taken(OwnedFd, SocketAddr),
    /// None is waiting.
    Nothing,
    /// This one was gone before we took it; there may be others.
    Gone,
    /// The system cannot give us one: too many descriptors, no memory. Trying again at once would spin.
    Shortage(io::Error),
}

/// Tries to accept a connection without waiting.
pub(crate) fn accept(listener: &Listener) -> Accept {
    match sys::socket::accept(listener) {
        Ok((socket, peer)) => Accept::Taken(socket, peer),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Accept::Nothing,
            io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::InvalidData
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => Accept::Gone,
            _ => Accept::Shortage(error),
        },
    }
}

/// Which descriptors connections may have: those below this number. The system gives the lowest that is free; the rest is for
/// files, scripts and logs, without which a connection is of no use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling(i32);

/// Of the descriptors a process may have, one in so many is left to files and scripts, but not more than this many, nor more
/// than half of those that are free when it begins.
const LEFT: (i32, i32) = (8, 64);

impl Ceiling {
    /// By the limit of this process, which has no connection yet.
    pub(crate) fn here() -> io::Result<Ceiling> {
        let limit = rlimit::get(Limit::Descriptors).soft.and_then(|limit| i32::try_from(limit).ok());
        let limit = limit.unwrap_or(i32::MAX);
        let free = limit - sys::file::next_number()?;
        Ok(Ceiling(limit - (limit / LEFT.0).min(LEFT.1).min(free / 2)))
    }

    /// An error where this connection has reached it: no further one is to be accepted until [`has_room`](Ceiling::has_room).
    pub(crate) fn check(self, socket: &OwnedFd) -> io::Result<()> {
        if socket.as_raw_fd() < self.0 { Ok(()) } else { Err(io::Error::from_raw_os_error(TOO_MANY_FILES)) }
    }

    /// Whether the next connection would get a descriptor below it.
    pub(crate) fn has_room(self) -> bool {
        sys::file::next_number().is_ok_and(|number| number < self.0)
    }
}

/// How long to let go of a listener that gives only errors: 10 ms at first, doubling up to a second. Said in the log at
/// once, then every ten seconds.
#[derive(Debug)]
pub(crate) struct Shortage {
    module: &'static str,
    wait: Duration,
    said: Option<Duration>,
}

const WAIT_FIRST: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(1);
const SAY_AGAIN: Duration = Duration::from_secs(10);

impl Shortage {
    pub(crate) fn new(module: &'static str) -> Shortage {
        Shortage { module, wait: WAIT_FIRST, said: None }
    }

    /// A connection was accepted.
    pub(crate) fn over(&mut self) {
        self.wait = WAIT_FIRST;
    }

    /// An error came; returns how long to wait.
    pub(crate) fn wait(&mut self, error: &io::Error) -> Duration {
        self.say(error);
        let wait = self.wait;
        self.wait = (wait * 2).min(WAIT_MAX);
        wait
    }

    pub(crate) fn say(&mut self, error: &io::Error) {
        let now = monotonic();
        if self.said.is_none_or(|said| now - said >= SAY_AGAIN) {
            self.said = Some(now);
            let advice = "connections wait in the listen queue; raise the limit of open files, or lower the number of \
                          connections";
            seam::log!(self.module, Error, "{}: cannot accept a connection: {advice}", sys::describe(error));
        }
    }
}
