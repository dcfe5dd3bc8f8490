//! A connection, read and written without blocking.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sys::watch::{Interest, Watched, watch};

/// Our side of a connection to a server behind this one.
#[derive(Debug)]
pub struct Stream {
    fd: Arc<OwnedFd>,
    watched: Option<Watched>,
    /// Whether the reactor reports when it can be written to.
    writes: bool,
}

impl Stream {
    /// Takes a non-blocking socket. The reactor watches it once there is something to wait for.
    pub fn new(fd: Arc<OwnedFd>) -> Stream {
        Stream { fd, watched: None, writes: false }
    }

    /// The connection for the next request, with the reactor's state of it.
    pub fn hand_on(&mut self) -> Stream {
        Stream { fd: self.fd.clone(), watched: self.watched.take(), writes: self.writes }
    }

    /// Whether nothing has come over it, and it has not ended.
    pub fn is_quiet(&self) -> bool {
        is_quiet(&self.fd)
    }

    fn watched(&mut self, writes: bool) -> io::Result<&Watched> {
        if writes && !self.writes {
            // A reactor accepts a descriptor only once.
            self.watched = None;
            self.writes = true;
        }
        match &mut self.watched {
            Some(watched) => Ok(watched),
            none => {
                let interest = if self.writes { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
                Ok(none.insert(watch(self.fd.clone(), interest)?))
            }
        }
    }

    /// Reads into the spare room of `into`. `Ok(0)` is the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let watched = self.watched(false)?;
        loop {
            let mut ready = ready!(watched.poll_read_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| sys::socket::receive_into(fd, into)) {
                return Poll::Ready(result);
            }
        }
    }

    /// Sends as much as possible.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if !self.writes {
            match sys::socket::send(&self.fd, from, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
        let watched = self.watched(true)?;
        loop {
            let mut ready = ready!(watched.poll_write_ready(cx))?;
            if let Some(result) = ready.try_io(|fd| sys::socket::send(fd, from, false)) {
                return Poll::Ready(result);
            }
        }
    }
}

/// Whether nothing has come over a connection, and it has not ended. Unsolicited output of a backend belongs to no
/// response.
pub fn is_quiet(connection: &OwnedFd) -> bool {
    sys::socket::peek(connection, &mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
