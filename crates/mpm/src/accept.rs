//! Accepting connections, and what to do when the system has none left to give.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use sys::errno::TOO_MANY_FILES;
use sys::rlimit::{self, Limit};
use sys::time::monotonic;

use crate::listen::Listener;

/// The result of an attempt to accept.
#[derive(Debug)]
pub(crate) enum Accept {
    /// A connection, and the address of its client.
    Taken(OwnedFd, SocketAddr),
    /// No connection is waiting.
    Nothing,
    /// This one was gone before we took it; there may be others.
    Gone,
    /// The system cannot give us one: too many descriptors, no memory. An immediate retry would spin.
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

/// Limits connections to the descriptors below this number. The system always gives the lowest free one; the rest are
/// for files, scripts and logs, without which a connection is useless.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling(i32);

/// The share of a process's descriptors that is left to files and scripts: one in so many, but at most this many, and
/// at most half of those that are free at the start.
const LEFT: (i32, i32) = (8, 64);

impl Ceiling {
    /// From the limit of this process, which has no connection yet.
    pub(crate) fn here() -> io::Result<Ceiling> {
        let limit = rlimit::get(Limit::Descriptors).soft.and_then(|limit| i32::try_from(limit).ok());
        let limit = limit.unwrap_or(i32::MAX);
        let free = limit - sys::file::next_number()?;
        Ok(Ceiling(limit - (limit / LEFT.0).min(LEFT.1).min(free / 2)))
    }

    /// Returns an error if this connection has reached the ceiling: accept no further one until
    /// [`has_room`](Ceiling::has_room).
    pub(crate) fn check(self, socket: &OwnedFd) -> io::Result<()> {
        if socket.as_raw_fd() < self.0 { Ok(()) } else { Err(io::Error::from_raw_os_error(TOO_MANY_FILES)) }
    }

    /// Whether the next connection would get a descriptor below the ceiling.
    pub(crate) fn has_room(self) -> bool {
        sys::file::next_number().is_ok_and(|number| number < self.0)
    }
}

/// How long to leave a listener alone that gives only errors: 10 ms at first, doubling up to a second. Logged at once,
/// then every ten seconds.
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
        self.log(error);
        let wait = self.wait;
        self.wait = (wait * 2).min(WAIT_MAX);
        wait
    }

    pub(crate) fn log(&mut self, error: &io::Error) {
        let now = monotonic();
        if self.said.is_none_or(|said| now - said >= SAY_AGAIN) {
            self.said = Some(now);
            let advice = "connections wait in the listen queue; raise the limit of open files, or lower the number of \
                          connections";
            runtime::log!(self.module, Error, "{}: cannot accept a connection: {advice}", sys::describe(error));
        }
    }
}
