//! A connection of the generator. It never waits, and goes as far as the kernel lets it.

mod log;
mod reading;

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_nodelay};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, connect, send, socket_with};

use super::failure::Failure;
use super::http2::{Http2, Message};
use super::plan::Request;
use super::record::{Failures, Times};
use super::response::{Malformed, Reader, Response, ResponseText};
use super::tls_session::TlsSession;
use crate::load::tls::Client;
use log::Log;

/// The size of a receive, in bytes.
const BUFFER: usize = 64 * 1024;
/// How much of an uninteresting body is discarded at a time: the kernel does not even copy it.
const SKIP: usize = 1024 * 1024;

/// Edge-triggered events: a kernel that checks all reported connections again takes longer, and this way events need
/// not be requested again before sending.
const EVENTS: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Memory for received bytes.
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new() -> Self {
        // The kernel hardly ever writes beyond BUFFER.
        Self(vec![0; SKIP])
    }
}

/// A request in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) began: Instant,
    pub(super) sent: Instant,
    pub(super) first: Option<Instant>,
    /// Whether its response has no body, whatever the head says.
    pub(super) bodiless: bool,
}

/// The results from a connection.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Responses, with their times.
    pub(super) responses: Vec<(Response, Times)>,
    /// Requests that the server does not answer, though it answers others.
    pub(super) refused: u64,
    /// The connection may carry more requests than before.
    pub(super) has_room: bool,
    /// The connection has ended in good order.
    pub(super) is_over: bool,
}

/// The way connections are made.
#[derive(Debug)]
pub(super) struct Connector<'p> {
    /// Their encryption, if any.
    pub(super) tls: Option<Client>,
    /// The requests as streams, for HTTP/2.
    pub(super) messages: Option<Arc<[Message]>>,
    /// The body of a good response, if it matters.
    pub(super) body: Option<&'p Arc<[u8]>>,
    /// Whether a truncated response counts as one.
    pub(super) takes_broken: bool,
    /// Whether responses are kept, and at most how many bytes of each body.
    pub(super) keeps: Option<usize>,
    /// How much of responses is shown as they arrive, as in [`Plan`](super::Plan).
    pub(super) shows: Option<u32>,
}

/// The protocol.
#[derive(Debug)]
enum Protocol {
    Http1(Reader),
    Http2(Box<Http2>),
}

#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    token: u64,
    pub(super) began: Instant,
    /// When it was established, once it is.
    connected: Cell<Option<Instant>>,
    /// When its handshake was complete, once it is.
    secured: Option<Instant>,
    /// The requests in progress, in the order of their responses.
    pub(super) asked: VecDeque<Pending>,
    /// Bytes to send that are not encrypted yet; always empty for a plain connection.
    ahead: Vec<u8>,
    /// Bytes that the kernel did not take at once.
    unsent: VecDeque<u8>,
    /// Whether its events are requested.
    is_watched: bool,
    tls: Option<Box<TlsSession>>,
    protocol: Protocol,
    takes_broken: bool,
    log: Option<Log>,
    /// The fault in the received bytes.
    malformed: Option<Malformed>,
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
        how: &Connector<'_>,
        began: Instant,
    ) -> Result<Self, Failure> {
        let dial = || {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::STREAM, flags, None)?;
            if let Some(source) = source {
                // The port of a connection that has ended may be reused. It is chosen when the server's address is
                // known: finding a port that is free for all servers takes long among thousands.
                set_socket_reuseaddr(&socket, true)?;
                let _ = setsockopt(&socket, IpBindAddressNoPort, &true);
                bind(&socket, &SocketAddr::from((source, 0)))?;
            }
            match connect(&socket, &server) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                Err(error) => Err(error),
            }
        };
        let socket = dial().map_err(|error| Failure { count: unconnected(error), was_idle: false })?;
        let mut ahead = Vec::new();
        let protocol = match &how.messages {
            Some(messages) => Protocol::Http2(Box::new(Http2::open(messages.clone(), how.body.cloned(), &mut ahead))),
            None => {
                let mut reader = Reader::default();
                how.body.into_iter().for_each(|body| reader.expect(body.clone()));
                how.keeps.into_iter().for_each(|most| reader.keep(most));
                Protocol::Http1(reader)
            }
        };
        Ok(Self {
            socket,
            token,
            began,
            connected: Cell::new(None),
            secured: None,
            asked: VecDeque::with_capacity(1),
            ahead,
            unsent: VecDeque::new(),
            is_watched: false,
            tls: how.tls.as_ref().map(|client| TlsSession::open(client).map(Box::new)).transpose()?,
            protocol,
            takes_broken: how.takes_broken,
            log: how.shows.map(Log::new),
            malformed: None,
            carried: 0,
            answered: 0,
        })
    }

    /// Sends the next `count` of the plan's requests, or as many as the kernel takes; `number` is that of the first.
    /// Returns their length in bytes.
    pub(super) fn send_request(
        &mut self,
        epoll: &OwnedFd,
        requests: &[Request],
        number: &mut usize,
        count: u64,
        began: Instant,
        now: Instant,
    ) -> Result<u64, Failure> {
        if self.carried == 1 {
            // From now on small writes may follow each other without a response in between.
            let _ = set_tcp_nodelay(&self.socket, true);
        }
        let mut bytes = 0;
        for _ in 0..count {
            let index = *number % requests.len();
            let request = &requests[index];
            self.asked.push_back(Pending { began, sent: now, first: None, bodiless: request.bodiless });
            self.carried += 1;
            *number += 1;
            match &mut self.protocol {
                Protocol::Http1(_) if self.tls.is_none() => {
                    let sent = if count == 1 && self.unsent.is_empty() { self.send(&request.bytes)? } else { 0 };
                    self.unsent.extend(&request.bytes[sent..]);
                    bytes += request.bytes.len() as u64;
                }
                Protocol::Http1(_) => {
                    self.ahead.extend_from_slice(&request.bytes);
                    bytes += request.bytes.len() as u64;
                }
                Protocol::Http2(streams) => {
                    let before = self.ahead.len();
                    streams.send_request(index, &mut self.ahead);
                    bytes += (self.ahead.len() - before) as u64;
                }
            }
        }
        self.pass_on()?;
        self.flush(epoll)?;
        Ok(bytes)
    }

    /// Passes pending bytes to the encryption, if there is any and it is ready, and to the kernel.
    fn pass_on(&mut self) -> Result<(), Failure> {
        let Some(session) = &mut self.tls else {
            if !self.ahead.is_empty() {
                self.unsent.extend(self.ahead.drain(..));
            }
            return Ok(());
        };
        if session.is_ready && !self.ahead.is_empty() {
            session.write(&self.ahead)?;
            self.ahead.clear();
        }
        let out = std::mem::take(&mut session.out);
        let sent = if self.unsent.is_empty() && !out.is_empty() { self.send(&out)? } else { 0 };
        self.unsent.extend(&out[sent..]);
        if let Some(session) = &mut self.tls {
            session.out = out;
            session.out.clear();
        }
        Ok(())
    }

    /// Continues when the kernel has room: the connection is established, or the rest can be sent.
    pub(super) fn flush(&mut self, epoll: &OwnedFd) -> Result<(), Failure> {
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

    /// Sends as much as the kernel takes. A connection that takes something is established: on the loopback it is at
    /// once.
    fn send(&self, bytes: &[u8]) -> Result<usize, Failure> {
        match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                if self.connected.get().is_none() {
                    self.connected.set(Some(Instant::now()));
                }
                Ok(sent)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) if self.connected.get().is_none() => Err(Failure { count: unconnected(error), was_idle: false }),
            Err(error) => Err(self.broken(error, |failures| &mut failures.write)),
        }
    }

    /// When it was established.
    pub(super) fn connected(&self) -> Option<Instant> {
        self.connected.get()
    }

    /// When its handshake was complete, if it had one.
    pub(super) fn secured(&self) -> Option<Instant> {
        self.secured
    }

    /// Its TLS, if it has any.
    pub(super) fn tls(&self) -> Option<&TlsSession> {
        self.tls.as_deref()
    }

    /// The fault in the received bytes.
    pub(super) fn complaint(&self) -> Option<String> {
        let of_tls = self.tls.as_ref().and_then(|session| session.complaint.as_ref()).map(|why| format!("TLS: {why}"));
        of_tls.or_else(|| self.malformed.map(|why| format!("a malformed response: {why}")))
    }

    /// How many of `wanted` requests may be in progress over it.
    pub(super) fn most(&self, wanted: usize) -> usize {
        match &self.protocol {
            Protocol::Http1(_) => wanted,
            Protocol::Http2(streams) => streams.most(wanted),
        }
    }

    /// Remembers the `Server` field of the first response.
    pub(super) fn note_server(&mut self) {
        match &mut self.protocol {
            Protocol::Http1(reader) => reader.note_server(),
            Protocol::Http2(streams) => streams.note_server(),
        }
    }

    /// The `Server` field of a response.
    pub(super) fn server(&mut self) -> Option<String> {
        match &mut self.protocol {
            Protocol::Http1(reader) => reader.server(),
            Protocol::Http2(streams) => streams.server(),
        }
    }

    /// The oldest response that was kept.
    pub(super) fn kept(&mut self) -> Option<ResponseText> {
        match &mut self.protocol {
            Protocol::Http1(reader) => reader.kept(),
            Protocol::Http2(_) => None,
        }
    }

    /// Ends it, with a goodbye if that is wanted and usual, whether or not it arrives. Returns the requests in
    /// progress.
    pub(super) fn close(mut self, is_polite: bool) -> VecDeque<Pending> {
        if let Some(session) = &mut self.tls
            && is_polite
            && session.is_ready
            && self.unsent.is_empty()
        {
            session.end();
            let out = std::mem::take(&mut session.out);
            let _ = self.send(&out);
        }
        self.asked
    }

    /// Continues after an event. An error counts if no response came before it; otherwise the connection is over.
    pub(super) fn advance(
        &mut self,
        epoll: &OwnedFd,
        event: EventFlags,
        buffer: &mut Buffer,
        received: &mut Received,
    ) -> Result<(), Failure> {
        if !self.unsent.is_empty() {
            self.flush(epoll)?;
        }
        if event == EventFlags::OUT {
            return Ok(());
        }
        let ends = event.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let read = match self.tls.take() {
            None => self.read(ends, buffer, received),
            Some(mut session) => {
                let read = self.read_records(&mut session, ends, buffer, received);
                self.tls = Some(session);
                read
            }
        };
        let read = match read {
            Ok(()) if !received.is_over && self.has_to_say() => self.pass_on().and_then(|()| self.flush(epoll)),
            read => read,
        };
        if read.is_err() && !received.responses.is_empty() && self.malformed.is_none() {
            received.is_over = true;
            return Ok(());
        }
        read
    }

    /// Whether the server may have closed an idle connection before it saw the request: it has answered others on it,
    /// and nothing of this response has arrived. A client then asks again on another connection (RFC 9112 section 9.3.1).
    fn was_idle(&self) -> bool {
        self.answered > 0 && self.is_idle()
    }

    /// Whether nothing of a response has arrived, if that is known.
    fn is_idle(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(reader) => reader.is_idle(),
            Protocol::Http2(_) => self.asked.is_empty(),
        }
    }

    fn broken(&self, error: Errno, otherwise: fn(&mut Failures) -> &mut u64) -> Failure {
        let count: fn(&mut Failures) -> &mut u64 = match error {
            Errno::CONNRESET | Errno::PIPE => |failures| &mut failures.reset,
            _ => otherwise,
        };
        Failure { count, was_idle: self.was_idle() }
    }
}

/// The counter for a failure to connect.
fn unconnected(error: Errno) -> fn(&mut Failures) -> &mut u64 {
    match error {
        Errno::CONNREFUSED => |failures| &mut failures.refused,
        Errno::MFILE | Errno::NFILE => |failures| &mut failures.no_descriptor,
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => |failures| &mut failures.no_port,
        Errno::TIMEDOUT => |failures| &mut failures.timeout,
        _ => |failures| &mut failures.connect,
    }
}
