//! One connection of the generator: never waits, and goes as far as the kernel lets it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use crate::client::parse_head;

/// More than any answer that is asked for at a fixed rate.
const READ_BYTES: usize = 16 * 1024;

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing yet.
    Pending,
    /// The answer is complete.
    Answered {
        /// Its status code.
        status: u16,
        /// Its length with the head.
        bytes: usize,
        /// Whether the server will close the connection.
        close: bool,
    },
    /// It was not established.
    NoConnection,
    /// It broke before the request was sent.
    BrokenWrite,
    /// It ended before the answer did, or what came is no answer.
    BrokenRead,
    /// The answer took too long.
    TooLate,
}

/// A connection with at most one request under way.
#[derive(Debug)]
pub(super) struct Line {
    socket: OwnedFd,
    /// Bytes of the request still to be sent; `None` when there is no request under way.
    unsent: Option<usize>,
    received: Vec<u8>,
    /// Answers received.
    pub(super) served: u32,
}

impl Line {
    /// Whether the server may have closed an idle connection before it saw the request: it has answered others on it, and
    /// nothing of this answer has come. A client asks again on another connection (RFC 9112 section 9.3.1).
    pub(super) fn was_perhaps_idle(&self) -> bool {
        self.served > 0 && self.received.is_empty()
    }

    /// Begins to connect. Events come once for each change, with `token`.
    pub(super) fn open(epoll: &OwnedFd, address: SocketAddr, token: u64) -> rustix::io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        set_tcp_nodelay(&socket, true)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let changes = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(epoll, &socket, EventData::new_u64(token), changes)?;
        Ok(Self { socket, unsent: None, received: Vec::with_capacity(1024), served: 0 })
    }

    /// A request is to be sent by [`Line::advance`].
    pub(super) fn ask(&mut self) {
        self.unsent = Some(usize::MAX);
        self.received.clear();
    }

    /// Sends and receives until the answer is complete or the kernel asks for patience.
    pub(super) fn advance(&mut self, request: &[u8]) -> Outcome {
        if let Err(broken) = self.send(request) {
            return broken;
        }
        if self.unsent.is_some_and(|unsent| unsent > 0) {
            return Outcome::Pending;
        }
        self.receive()
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Outcome> {
        while let Some(unsent) = self.unsent.map(|unsent| unsent.min(request.len())).filter(|unsent| *unsent > 0) {
            match rustix::io::write(&self.socket, &request[request.len() - unsent..]) {
                Ok(sent) => self.unsent = Some(unsent - sent),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(_) if self.served == 0 && unsent == request.len() => return Err(Outcome::NoConnection),
                Err(_) => return Err(Outcome::BrokenWrite),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Outcome {
        let mut buffer = [0; READ_BYTES];
        loop {
            match rustix::io::read(&self.socket, &mut buffer) {
                Ok(0) => return Outcome::BrokenRead,
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
                Err(Errno::AGAIN) => return Outcome::Pending,
                Err(Errno::INTR) => continue,
                Err(_) => return Outcome::BrokenRead,
            }
            match self.answer() {
                Outcome::Pending => {}
                Outcome::Answered { status, bytes, close } => {
                    return Outcome::Answered { status, bytes, close: close || self.has_ended() };
                }
                outcome => return outcome,
            }
        }
    }

    /// An end that came together with the answer is not announced again.
    fn has_ended(&self) -> bool {
        !matches!(rustix::io::read(&self.socket, &mut [0; 1]), Err(Errno::AGAIN))
    }

    fn answer(&mut self) -> Outcome {
        let head = match parse_head(&self.received) {
            Ok(Some(head)) => head,
            Ok(None) => return Outcome::Pending,
            Err(_) => return Outcome::BrokenRead,
        };
        let bytes = self.received.len();
        // What nobody asked for is no answer, and neither is more than was announced.
        if self.unsent.is_none() || bytes > head.end() {
            return Outcome::BrokenRead;
        }
        if bytes < head.end() {
            return Outcome::Pending;
        }
        self.unsent = None;
        self.served += 1;
        Outcome::Answered { status: head.status, bytes, close: head.close }
    }
}
