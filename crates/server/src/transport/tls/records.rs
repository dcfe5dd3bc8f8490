//! The records of a connection after its handshake: application data in both directions, alerts, and new keys.
//!
//! rustls makes the handshake and hands over the keys; from then on records are opened and sealed here, in the buffers
//! in which they arrive and leave. A waiting connection has no buffers.

use std::io;
use std::os::fd::OwnedFd;

use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::{AlertDescription, ContentType, HandshakeType, SupportedCipherSuite};

use super::protection::{Fault, HEADER, MOST_CONTENT, Protection};
use crate::message::buffers;

/// Room for the largest record, in bytes.
const RECORD: usize = HEADER + MOST_CONTENT + 2048;
/// After this many records in succession without application data, the client only makes work.
const MOST_EMPTY: u32 = 32;
/// How many warnings a client may send, as during a handshake.
const MOST_WARNINGS: u32 = 4;
/// This many records less than a cipher allows are sealed: alerts and the announcement of new keys follow.
const RESERVED: u64 = 1 << 16;
/// The body of a message KeyUpdate that requests nothing, and of one that requests an update in return (RFC 8446
/// section 4.6.3).
const UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const UPDATE_BOTH: [u8; 5] = [24, 0, 0, 1, 1];
/// The alerts that end our side, and that refuse a new handshake.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
const NO_RENEGOTIATION: [u8; 2] = [1, 100];

pub(super) struct Records {
    opener: Protection,
    sealer: Protection,
    /// Derives the next keys; TLS 1.2 has none.
    next: Option<Box<KernelConnection<ServerConnectionData>>>,
    /// After this many records, new keys are due; a few more messages may follow first.
    pub(super) most_sealed: u64,
    /// Received, but not opened: incomplete records, except just after a handshake.
    pub(super) wire: Vec<u8>,
    /// Sealed records from `sent` on are yet to be sent.
    unsent: Vec<u8>,
    sent: usize,
    /// Bytes of the response that are sealed, but whose records have not been sent completely.
    pub(super) sealed: usize,
    /// Records received since the last one with application data.
    empty: u32,
    /// Warnings received.
    warnings: u32,
    /// A reply to one of the client's messages is unsent; others like it need none.
    is_replying: bool,
    /// The client has announced its end.
    is_at_end: bool,
    /// We have announced ours.
    is_closed: bool,
}

/// What a handshake leaves.
#[derive(Default)]
pub(super) struct Left {
    /// Received, but not parsed.
    pub(super) wire: Vec<u8>,
    /// Its last messages, to be sent.
    pub(super) unsent: Vec<u8>,
}

impl Records {
    /// The memory of its buffers, in bytes.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.wire.capacity() + self.unsent.capacity()
    }

    /// Continues after a handshake.
    pub(super) fn new(connection: UnbufferedServerConnection, left: Left) -> Result<Records, rustls::Error> {
        let limit = match connection.negotiated_cipher_suite() {
            Some(SupportedCipherSuite::Tls13(suite)) => suite.common.confidentiality_limit,
            Some(SupportedCipherSuite::Tls12(suite)) => suite.common.confidentiality_limit,
            None => return Err(rustls::Error::HandshakeNotComplete),
        };
        let (secrets, next) = connection.dangerous_into_kernel_connection()?;
        let version = next.protocol_version();
        let protection = |of| Protection::new(version, of).map_err(|error| rustls::Error::General(error.to_string()));
        Ok(Records {
            opener: protection(secrets.rx)?,
            sealer: protection(secrets.tx)?,
            next: (version == rustls::ProtocolVersion::TLSv1_3).then(|| Box::new(next)),
            most_sealed: limit.saturating_sub(RESERVED),
            wire: left.wire,
            unsent: left.unsent,
            sent: 0,
            sealed: 0,
            empty: 0,
            warnings: 0,
            is_replying: false,
            is_at_end: false,
            is_closed: false,
        })
    }

    /// The client has announced its end.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Whether [`open`](Records::open) would find something without receiving more.
    pub(super) fn has_input(&self) -> bool {
        !self.is_at_end && !matches!(self.opener.length(&self.wire), Ok(None))
    }

    /// Receives once. Returns the number of bytes, and whether the socket is empty now.
    pub(super) fn receive(&mut self, socket: &OwnedFd) -> io::Result<(usize, bool)> {
        if self.wire.capacity() < RECORD {
            let part = std::mem::replace(&mut self.wire, buffers::take());
            self.wire.reserve(RECORD);
            self.wire.extend_from_slice(&part);
        }
        let spare = self.wire.capacity() - self.wire.len();
        let filled = sys::socket::receive_into(socket, &mut self.wire)?;
        Ok((filled, filled < spare))
    }

    /// Before a wait: holds nothing but the bytes of an incomplete record.
    pub(super) fn rest(&mut self) {
        if self.wire.capacity() >= RECORD {
            let part = self.wire.as_slice().to_vec();
            buffers::give(std::mem::replace(&mut self.wire, part));
        }
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
    }

    /// Opens all complete records; appends their application data to `into`.
    pub(super) fn open(&mut self, into: &mut Vec<u8>) -> Result<(), Fault> {
        let mut wire = std::mem::take(&mut self.wire);
        let mut used = 0;
        let opened = loop {
            let length = match self.opener.length(&wire[used..]) {
                Ok(Some(length)) if !self.is_at_end => length,
                Ok(_) => break Ok(()),
                Err(fault) => break Err(fault),
            };
            let record = &mut wire[used..used + length];
            used += length;
            if let Err(fault) = self.open_record(record, into) {
                break Err(fault);
            }
        };
        if used == wire.len() || self.is_at_end {
            buffers::give(wire);
        } else {
            wire.drain(..used);
            self.wire = wire;
        }
        opened
    }

    fn open_record(&mut self, record: &mut [u8], into: &mut Vec<u8>) -> Result<(), Fault> {
        let (kind, content) = self.opener.open(record)?;
        if kind == ContentType::ApplicationData && !content.is_empty() {
            self.empty = 0;
            if into.capacity() == 0 {
                *into = buffers::take();
            }
            into.extend_from_slice(content);
            return Ok(());
        }
        self.empty += 1;
        if self.empty > MOST_EMPTY {
            return Err(Fault(AlertDescription::UnexpectedMessage, "too many records without data"));
        }
        match kind {
            ContentType::ApplicationData => Ok(()),
            ContentType::Alert => self.hear_alert(content),
            ContentType::Handshake => self.hear_handshake(content),
            _ => Err(Fault(AlertDescription::UnexpectedMessage, "a record of an unexpected type")),
        }
    }

    fn hear_alert(&mut self, alert: &[u8]) -> Result<(), Fault> {
        let &[_, description] = alert else {
            return Err(Fault(AlertDescription::DecodeError, "an alert that is not one"));
        };
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify => self.is_at_end = true,
            // In TLS 1.3 it announces close_notify; some clients send it without a reason.
            AlertDescription::UserCanceled if self.warnings < MOST_WARNINGS => self.warnings += 1,
            AlertDescription::UserCanceled => {
                return Err(Fault(AlertDescription::UnexpectedMessage, "too many warnings"));
            }
            // An alert is not answered; the connection ends.
            _ => return Err(Fault(AlertDescription::CloseNotify, "the client sent an alert")),
        }
        Ok(())
    }

    fn hear_handshake(&mut self, message: &[u8]) -> Result<(), Fault> {
        // After our end, nothing more is said.
        let is_silent = self.is_replying || self.is_closed;
        let replied = match self.next {
            Some(_) if message == UPDATE => return self.renew_opener(),
            Some(_) if message == UPDATE_BOTH => {
                self.renew_opener()?;
                self.is_replying = true;
                if is_silent { Ok(()) } else { self.renew_sealer() }
            }
            None if message.first() == Some(&HandshakeType::ClientHello.into()) => {
                self.is_replying = true;
                if is_silent { Ok(()) } else { self.seal_message(ContentType::Alert, &NO_RENEGOTIATION) }
            }
            Some(_) if matches!(message, [24, 0, 0, 1, _]) => {
                return Err(Fault(AlertDescription::IllegalParameter, "a key update that requests nothing known"));
            }
            _ => return Err(Fault(AlertDescription::UnexpectedMessage, "an unexpected handshake message")),
        };
        replied.map_err(|_| BROKEN)
    }

    fn renew_opener(&mut self) -> Result<(), Fault> {
        let next = self.next.as_mut().ok_or(BROKEN)?;
        let secrets = next.update_rx_secret().map_err(|_| BROKEN)?;
        self.opener = Protection::new(next.protocol_version(), secrets).map_err(|_| BROKEN)?;
        Ok(())
    }

    /// Announces new keys, and uses them for all later records.
    fn renew_sealer(&mut self) -> io::Result<()> {
        if self.next.is_some() {
            self.seal_message(ContentType::Handshake, &UPDATE)?;
        }
        let exhausted = || io::Error::other("the connection has carried all that its keys allow");
        let next = self.next.as_mut().ok_or_else(exhausted)?;
        let secrets = next.update_tx_secret().map_err(io::Error::other)?;
        self.sealer = Protection::new(next.protocol_version(), secrets)?;
        Ok(())
    }

    fn seal_message(&mut self, kind: ContentType, message: &[u8]) -> io::Result<()> {
        self.sealer.seal(kind, &mut self.unsent, |out| {
            out.extend_from_slice(message);
            Ok(message.len())
        })?;
        Ok(())
    }

    /// Seals a piece of at most `most` bytes, after what is yet unsent. `fill` appends to a record the bytes from a
    /// position in the piece on, at most so many, and returns how many; none ends the piece. Returns its length.
    pub(super) fn seal(
        &mut self,
        most: usize,
        mut fill: impl FnMut(&mut Vec<u8>, usize, usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut done = 0;
        while done < most {
            if self.sealer.sequence >= self.most_sealed {
                self.renew_sealer()?;
            }
            let count = MOST_CONTENT.min(most - done);
            match self.sealer.seal(ContentType::ApplicationData, &mut self.unsent, |out| fill(out, done, count)) {
                Ok(0) => break,
                Ok(length) => done += length,
                // The next attempt will meet the error again.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Sealed records that are yet to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.unsent[self.sent..]
    }

    /// Notes that `count` bytes of them were sent.
    pub(super) fn note_sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.unsent.len() {
            self.unsent.clear();
            (self.sent, self.is_replying) = (0, false);
        }
    }

    /// Lends memory for a piece of a response; what was unsent moves there.
    pub(super) fn lend(&mut self, mut memory: Vec<u8>) {
        memory.extend_from_slice(self.unsent());
        (self.unsent, self.sent) = (memory, 0);
    }

    /// Returns the memory that was lent, and keeps what is unsent.
    pub(super) fn reclaim(&mut self) -> Vec<u8> {
        let left = self.unsent().to_vec();
        let mut memory = std::mem::replace(&mut self.unsent, left);
        self.sent = 0;
        memory.clear();
        memory
    }

    /// Tells the client why the connection ends.
    pub(super) fn refuse(&mut self, fault: &Fault) {
        self.is_at_end = true;
        if fault.0 == AlertDescription::CloseNotify {
            return self.close();
        }
        if !std::mem::replace(&mut self.is_closed, true) {
            let _ = self.seal_message(ContentType::Alert, &[2, fault.0.into()]);
        }
    }

    /// Announces the end of our side (RFC 8446 section 6.1), once.
    pub(super) fn close(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            let _ = self.seal_message(ContentType::Alert, &CLOSE_NOTIFY);
        }
    }
}

/// Something in this process failed, not the client.
const BROKEN: Fault = Fault(AlertDescription::InternalError, "new keys could not be made");
