//! The input of a connection: bytes or records of TLS, and the responses in them.

use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::super::http2::Event;
use super::super::record::Times;
use super::super::response::{Malformed, Response};
use super::super::tls_session::{BROKEN, TlsSession};
use super::{BUFFER, Buffer, Connection, Pending, Protocol, Received, SKIP};
use crate::load::failure::Failure;

impl Connection {
    /// Receives available bytes; `ends`: they are followed by the end, which is not reported again.
    pub(super) fn read(&mut self, ends: bool, buffer: &mut Buffer, received: &mut Received) -> Result<(), Failure> {
        loop {
            let unread = match &self.protocol {
                Protocol::Http1(reader) => reader.unread(),
                Protocol::Http2(_) => 0,
            };
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
                return self.ended(received, now);
            }
            match &mut self.protocol {
                Protocol::Http1(reader) if skips => {
                    let response = reader.skip(length);
                    response.into_iter().for_each(|response| self.answered(received, 0, response, now));
                }
                _ => self.parse(&buffer.0[..length], received, now)?,
            }
            if received.is_over || (length < room && !ends) {
                return Ok(());
            }
        }
    }

    /// The same for records of TLS.
    pub(super) fn read_records(
        &mut self,
        session: &mut TlsSession,
        ends: bool,
        buffer: &mut Buffer,
        received: &mut Received,
    ) -> Result<(), Failure> {
        loop {
            let kept = session.kept();
            let length = match recv(&self.socket, &mut buffer.0[kept..][..BUFFER], RecvFlags::empty()) {
                Ok((length, _)) => length,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(self.broken(error, |failures| &mut failures.read)),
            };
            let now = Instant::now();
            if length == 0 {
                // An end without a closing alert may be a truncation (RFC 8446 section 6.1).
                return match session.is_ready {
                    false => Err(BROKEN),
                    true if self.is_idle() => self.ended(received, now),
                    true => Err(Failure { count: |failures| &mut failures.read, was_idle: false }),
                };
            }
            let records = &mut buffer.0[..kept + length];
            session.read(records, &mut |content| self.parse(content, received, now))?;
            if session.is_ready && self.secured.is_none() {
                self.check_protocol(session)?;
                self.secured = Some(now);
            }
            if session.is_ended && !received.is_over {
                return self.ended(received, now);
            }
            if received.is_over || (length < BUFFER && !ends) {
                return Ok(());
            }
        }
    }

    /// A client that wants HTTP/2 speaks nothing else.
    fn check_protocol(&self, session: &mut TlsSession) -> Result<(), Failure> {
        if matches!(self.protocol, Protocol::Http1(_)) || session.protocol() == Some(b"h2") {
            return Ok(());
        }
        session.complaint = Some("the server does not offer HTTP/2 (ALPN)".to_owned());
        Err(BROKEN)
    }

    /// Whether anything waits to be encrypted or sent.
    pub(super) fn has_to_say(&self) -> bool {
        let is_ready = || self.tls.as_ref().is_none_or(|session| session.is_ready);
        let of_tls = self.tls.as_ref().is_some_and(|session| !session.out.is_empty());
        of_tls || (!self.ahead.is_empty() && is_ready())
    }

    fn parse(&mut self, bytes: &[u8], received: &mut Received, now: Instant) -> Result<(), Failure> {
        let read = match &self.protocol {
            Protocol::Http1(_) => self.parse_responses(bytes, received, now),
            Protocol::Http2(_) => self.parse_frames(bytes, received, now),
        };
        read.map_err(|why| {
            self.malformed = Some(why);
            Failure { count: |failures| &mut failures.malformed, was_idle: false }
        })
    }

    fn parse_responses(&mut self, mut bytes: &[u8], received: &mut Received, now: Instant) -> Result<(), Malformed> {
        if let Some(log) = &mut self.log {
            log.show(bytes);
        }
        while !bytes.is_empty() {
            let Protocol::Http1(reader) = &mut self.protocol else { break };
            let Some(asked) = self.asked.front_mut().filter(|_| !received.is_over) else {
                return Err(self.too_long(received));
            };
            asked.first.get_or_insert(now);
            let (taken, response) = reader.read(bytes, asked.bodiless)?;
            bytes = &bytes[taken..];
            response.into_iter().for_each(|response| self.answered(received, 0, response, now));
        }
        Ok(())
    }

    /// More has arrived than was requested: the response before it is longer than it claims, and thus invalid.
    fn too_long(&mut self, received: &mut Received) -> Malformed {
        if let Some((_, Times { began, sent, first, .. })) = received.responses.pop() {
            self.asked.push_front(Pending { began, sent, first: Some(first), bodiless: false });
        }
        Malformed("it is longer than it says")
    }

    fn parse_frames(&mut self, bytes: &[u8], received: &mut Received, now: Instant) -> Result<(), Malformed> {
        let Protocol::Http2(streams) = &mut self.protocol else { return Ok(()) };
        let mut events = Vec::new();
        let read = streams.read(bytes, &mut self.ahead, &mut |event| events.push(event));
        let is_over = streams.is_over();
        for event in events {
            match event {
                Event::Began(at) => self.asked.get_mut(at).into_iter().for_each(|asked| {
                    asked.first.get_or_insert(now);
                }),
                Event::Answered(at, response) => self.answered(received, at, response, now),
                Event::Refused(at) => {
                    self.asked.remove(at);
                    received.refused += 1;
                }
                Event::Room => received.has_room = true,
            }
        }
        received.is_over |= is_over;
        read
    }

    /// The server has closed the connection.
    fn ended(&mut self, received: &mut Received, now: Instant) -> Result<(), Failure> {
        received.is_over = true;
        let last = match &mut self.protocol {
            Protocol::Http1(reader) if self.takes_broken => match reader.break_off() {
                Some(response) => Ok(Some(Response { keeps: false, ..response })),
                None => reader.close(),
            },
            Protocol::Http1(reader) => reader.close(),
            Protocol::Http2(_) => Ok(None),
        };
        match last {
            Ok(Some(response)) => self.answered(received, 0, response, now),
            Ok(None) if self.asked.is_empty() => {}
            _ => return Err(Failure { count: |failures| &mut failures.read, was_idle: self.was_idle() }),
        }
        Ok(())
    }

    /// Takes a response to the request in this place among those in progress.
    fn answered(&mut self, received: &mut Received, at: usize, response: Response, now: Instant) {
        let Some(Pending { began, sent, first, .. }) = self.asked.remove(at) else { return };
        let connected =
            self.secured.or(self.connected.get()).filter(|_| self.answered == 0).unwrap_or(began).max(began);
        self.answered += 1;
        if let Some(log) = &mut self.log {
            log.end();
        }
        received.responses.push((
            response,
            Times { began, connected, sent: sent.max(connected), first: first.unwrap_or(now), done: now },
        ));
        received.is_over |= !response.keeps;
    }
}
