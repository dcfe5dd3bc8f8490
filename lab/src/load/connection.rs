//! A connection of the generator. It never waits, and goes as far as the kernel lets it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send, socket_with,
};

use super::plan::Request;
use super::record::{Failures, Times};
use super::response::{Answer, Malformed, Reader};

/// How much is received at a time, in bytes.
const BUFFER: usize = 64 * 1024;
/// How much of a body that nobody looks at is thrown away at a time: the kernel does not even copy it.
const SKIP: usize = 1024 * 1024;

/// Each event is told once, when it happens: a kernel that looks again at every connection that it has told of takes longer, and
/// nothing has to be asked for again when there is something to send.
const EVENTS: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// What is received is read from here.
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new() -> Self {
        // The kernel never writes to what is beyond BUFFER.
        Self(vec![0; SKIP])
    }
}

/// What failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    /// Where it is counted.
    pub(super) count: fn(&mut Failures) -> &mut u64,
    /// The server may have closed the connection before it saw the request.
    pub(super) was_idle: bool,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) began: Instant,
    pub(super) sent: Instant,
    pub(super) first: Option<Instant>,
    /// Which of the plan's requests it is.
    pub(super) number: usize,
}

/// What has come over a connection.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Answers, and when.
    pub(super) answers: Vec<(Answer, Times)>,
    /// The connection is over, as it should be.
    pub(super) is_over: bool,
}

#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    token: u64,
    pub(super) began: Instant,
    /// When it was established, once it is.
    connected: Cell<Option<Instant>>,
    /// The requests that are under way, in the order of their answers.
    pub(super) asked: VecDeque<Asked>,
    /// What the kernel did not take at once.
    unsent: VecDeque<u8>,
    /// Its events are asked for.
    is_watched: bool,
    reader: Reader,
    /// Requests that were sent over it, and those that were answered.
    pub(super) carried: u64,
    pub(super) answered: u64,
}

impl Connection {
    /// Begins to connect. Its events carry `token`.
    pub(super) fn open(
        server: SocketAddr,
        source: Option<IpAddr>,
        token: u64,
        body: Option<&Arc<[u8]>>,
        began: Instant,
    ) -> Result<Self, Broken> {
        let dial = || {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::STREAM, flags, None)?;
            if let Some(source) = source {
                // A port may be used again whose last connection has ended.
                set_socket_reuseaddr(&socket, true)?;
                bind(&socket, &SocketAddr::from((source, 0)))?;
            }
            match connect(&socket, &server) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                Err(error) => Err(error),
            }
        };
        let socket = dial().map_err(|error| Broken { count: unconnected(error), was_idle: false })?;
        let mut reader = Reader::default();
        if let Some(body) = body {
            reader.expect(body.clone());
        }
        Ok(Self {
            socket,
            token,
            began,
            connected: Cell::new(None),
            asked: VecDeque::with_capacity(1),
            unsent: VecDeque::new(),
            is_watched: false,
            reader,
            carried: 0,
            answered: 0,
        })
    }

    /// Sends the next `count` of the plan's requests, or what the kernel takes of them; `number` is that of the first. Returns their
    /// bytes.
    pub(super) fn ask(
        &mut self,
        epoll: &OwnedFd,
        requests: &[Request],
        number: &mut usize,
        count: u64,
        began: Instant,
        now: Instant,
    ) -> Result<u64, Broken> {
        if self.carried == 1 {
            // From now on small writes may follow each other without an answer between them.
            let _ = set_tcp_nodelay(&self.socket, true);
        }
        let mut bytes = 0;
        for _ in 0..count {
            let request = &requests[*number % requests.len()];
            self.asked.push_back(Asked { began, sent: now, first: None, number: *number % requests.len() });
            self.carried += 1;
            *number += 1;
            bytes += request.bytes.len() as u64;
            let sent = if count == 1 && self.unsent.is_empty() { self.send(&request.bytes)? } else { 0 };
            self.unsent.extend(&request.bytes[sent..]);
        }
        self.flush(epoll)?;
        Ok(bytes)
    }

    /// Goes on where the kernel has room: the connection is there, or what is left can be sent.
    pub(super) fn flush(&mut self, epoll: &OwnedFd) -> Result<(), Broken> {
        while !self.unsent.is_empty() {
            self.unsent.make_contiguous();
            let sent = self.send(self.unsent.as_slices().0)?;
            if sent == 0 {
                break;
            }
            self.unsent.drain(..sent);
        }
        if std::mem::replace(&mut self.is_watched, true) {
            return Ok(());
        }
        let added = epoll::add(epoll, &self.socket, EventData::new_u64(self.token), EVENTS);
        added.map_err(|error| self.broken(error, |failures| &mut failures.write))
    }

    /// How much the kernel takes. A connection that takes something is established: on the loopback it is at once.
    fn send(&self, bytes: &[u8]) -> Result<usize, Broken> {
        match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                if self.connected.get().is_none() {
                    self.connected.set(Some(Instant::now()));
                }
                Ok(sent)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) if self.connected.get().is_none() => Err(Broken { count: unconnected(error), was_idle: false }),
            Err(error) => Err(self.broken(error, |failures| &mut failures.write)),
        }
    }

    /// When it was established.
    pub(super) fn connected(&self) -> Option<Instant> {
        self.connected.get()
    }

    /// What the first answer says of its server is wanted.
    pub(super) fn note_server(&mut self) {
        self.reader.note_server();
    }

    /// What an answer has said of its server.
    pub(super) fn server(&mut self) -> Option<String> {
        self.reader.server()
    }

    /// Goes on after an event. An error counts where no answer came before it; otherwise the connection is over.
    pub(super) fn advance(
        &mut self,
        epoll: &OwnedFd,
        event: EventFlags,
        buffer: &mut Buffer,
        requests: &[Request],
        came: &mut Came,
    ) -> Result<(), Broken> {
        if !self.unsent.is_empty() {
            self.flush(epoll)?;
        }
        if event == EventFlags::OUT {
            return Ok(());
        }
        let ends = event.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let read = self.read(ends, buffer, requests, came);
        if read.is_err() && !came.answers.is_empty() {
            came.is_over = true;
            return Ok(());
        }
        read
    }

    /// Receives what is there: `ends` says that its end is, too, and will not be told again.
    fn read(&mut self, ends: bool, buffer: &mut Buffer, requests: &[Request], came: &mut Came) -> Result<(), Broken> {
        loop {
            let unread = self.reader.unread();
            let skips = unread > BUFFER;
            let (room, flags) = match skips {
                true => (unread.min(SKIP), RecvFlags::TRUNC),
                false => (BUFFER, RecvFlags::empty()),
            };
            let length = match recv(&self.socket, &mut buffer.0[..room], flags) {
                Ok((length, _)) => length,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(self.broken(error, |failures| &mut failures.read)),
            };
            let now = Instant::now();
            if length == 0 {
                return self.ended(came, now);
            }
            if let Some(asked) = self.asked.front_mut() {
                asked.first.get_or_insert(now);
            }
            if skips {
                let answer = self.reader.skip(length);
                answer.into_iter().for_each(|answer| self.answered(came, answer, now));
            } else {
                self.parse(&buffer.0[..length], requests, came, now)?;
            }
            if came.is_over || (length < room && !ends) {
                return Ok(());
            }
        }
    }

    fn parse(&mut self, mut bytes: &[u8], requests: &[Request], came: &mut Came, now: Instant) -> Result<(), Broken> {
        while !bytes.is_empty() && !came.is_over {
            let read = match self.asked.front_mut() {
                Some(asked) => {
                    asked.first.get_or_insert(now);
                    self.reader.read(bytes, requests[asked.number].bodiless)
                }
                None => Err(Malformed("nobody has asked for it")),
            };
            let (taken, answer) =
                read.map_err(|_| Broken { count: |failures| &mut failures.malformed, was_idle: false })?;
            bytes = &bytes[taken..];
            answer.into_iter().for_each(|answer| self.answered(came, answer, now));
        }
        Ok(())
    }

    /// The server has closed the connection.
    fn ended(&mut self, came: &mut Came, now: Instant) -> Result<(), Broken> {
        came.is_over = true;
        match self.reader.close() {
            Ok(Some(answer)) => self.answered(came, answer, now),
            Ok(None) if self.asked.is_empty() => {}
            _ => return Err(Broken { count: |failures| &mut failures.read, was_idle: self.was_idle() }),
        }
        Ok(())
    }

    fn answered(&mut self, came: &mut Came, answer: Answer, now: Instant) {
        let Some(Asked { began, sent, first, .. }) = self.asked.pop_front() else { return };
        let connected = self.connected.get().filter(|_| self.answered == 0).unwrap_or(began).max(began);
        self.answered += 1;
        came.answers.push((
            answer,
            Times { began, connected, sent: sent.max(connected), first: first.unwrap_or(now), done: now },
        ));
        came.is_over |= !answer.keeps;
    }

    /// Whether the server may have closed an idle connection before it saw the request: it has answered others on it, and
    /// nothing of this answer has come. A client asks again on another connection (RFC 9112 section 9.3.1).
    fn was_idle(&self) -> bool {
        self.answered > 0 && self.reader.is_idle()
    }

    fn broken(&self, error: Errno, otherwise: fn(&mut Failures) -> &mut u64) -> Broken {
        let count: fn(&mut Failures) -> &mut u64 = match error {
            Errno::CONNRESET | Errno::PIPE => |failures| &mut failures.reset,
            _ => otherwise,
        };
        Broken { count, was_idle: self.was_idle() }
    }
}

/// Where it is counted that there is no connection.
fn unconnected(error: Errno) -> fn(&mut Failures) -> &mut u64 {
    match error {
        Errno::CONNREFUSED => |failures| &mut failures.refused,
        Errno::MFILE | Errno::NFILE => |failures| &mut failures.no_descriptor,
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => |failures| &mut failures.no_port,
        Errno::TIMEDOUT => |failures| &mut failures.timeout,
        _ => |failures| &mut failures.connect,
    }
}
