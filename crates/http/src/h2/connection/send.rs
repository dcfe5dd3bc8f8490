//! Responses.

use super::Connection;
use crate::h1::response::BadField;
use crate::h2::frame::{self, FrameHeader, HEADER, PAYLOAD, Reason, flag, kind};
use crate::h2::hpack::Encoder;
use crate::h2::streams::{At, End};
use crate::scan::{is_field_value, trim};

impl<S: Default> Connection<S> {
    /// Whether the response on this stream may still go on.
    #[must_use]
    pub fn sends(&self, at: At) -> bool {
        !self.is_over && self.streams.peek(at).is_some_and(|stream| stream.sends)
    }

    /// How much the client accepts on this stream, and on the connection, in bytes.
    #[must_use]
    pub fn room(&self, at: At) -> (usize, usize) {
        let of_stream = self.streams.peek(at).map_or(0, |stream| stream.send.room());
        (of_stream, self.send.room())
    }

    /// How much the client accepts on the connection, in bytes.
    #[must_use]
    pub fn connection_room(&self) -> usize {
        self.send.room()
    }

    /// Sends the head of a response. `write` gives its fields; if it fails, nothing is sent. `ends`: there is no body.
    /// `Ok(false)`: nothing is sent, because the stream has ended, or because a response follows no other one.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn head<E>(
        &mut self,
        at: At,
        status: u16,
        ends: bool,
        write: impl FnOnce(&mut HeadWriter<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let is_answered = self.streams.peek(at).is_none_or(|stream| stream.is_answered);
        if is_answered || !self.sends(at) {
            return Ok(false);
        }
        let start = self.out.len();
        let end = if ends { flag::END_STREAM } else { 0 };
        self.out.extend_from_slice(&[0; HEADER]);
        self.encoder.status(status, &mut self.out);
        if let Err(error) = write(&mut HeadWriter { encoder: &mut self.encoder, out: &mut self.out, size: 0 }) {
            self.out.truncate(start);
            self.encoder.forget();
            return Err(error);
        }
        let length = self.out.len() - start - HEADER;
        let header = |kind, flags, length| FrameHeader { length, kind, flags, stream: at.number() }.bytes();
        if length <= PAYLOAD {
            let header = header(kind::HEADERS, flag::END_HEADERS | end, length);
            self.out[start..start + HEADER].copy_from_slice(&header);
        } else {
            let block = self.out.split_off(start + HEADER);
            self.out.truncate(start);
            let count = block.chunks(PAYLOAD).len();
            for (number, part) in block.chunks(PAYLOAD).enumerate() {
                let kind = if number == 0 { kind::HEADERS } else { kind::CONTINUATION };
                let last = if number + 1 == count { flag::END_HEADERS } else { 0 };
                let first = if number == 0 { end } else { 0 };
                self.out.extend_from_slice(&header(kind, first | last, part.len()));
                self.out.extend_from_slice(part);
            }
        }
        if let Some(stream) = self.streams.get(at) {
            // Interim responses come before.
            stream.is_answered = status >= 200;
        }
        if ends {
            self.sent_all(at);
        }
        Ok(true)
    }

    /// Sends a piece of a response's body, for which there has to be [room](Connection::room). `ends`: it is the last one.
    pub fn data(&mut self, at: At, bytes: &[u8], ends: bool) {
        let mut parts = bytes.chunks(PAYLOAD).peekable();
        if parts.peek().is_none() && ends {
            self.put_data(at, &[], true);
        }
        while let Some(part) = parts.next() {
            self.put_data(at, part, ends && parts.peek().is_none());
        }
    }

    fn put_data(&mut self, at: At, bytes: &[u8], ends: bool) {
        if !self.sends(at) {
            return;
        }
        self.count(at, bytes.len(), ends);
        let flags = if ends { flag::END_STREAM } else { 0 };
        frame::put(&mut self.out, kind::DATA, flags, at.number(), bytes);
    }

    /// Sends a piece of a response's body that `read` reads: at most `most` bytes, which is no more than a frame and the
    /// [room](Connection::room). Returns how many were read. The response ends if they are `last`.
    ///
    /// # Errors
    /// Those of `read`; then nothing is sent.
    pub fn data_from<E>(
        &mut self,
        at: At,
        most: usize,
        last: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let start = self.out.len();
        let most = most.min(PAYLOAD);
        self.out.resize(start + HEADER + most, 0);
        let length = match read(&mut self.out[start + HEADER..]) {
            Ok(length) if length > 0 && self.sends(at) => length.min(most),
            other => {
                self.out.truncate(start);
                return other;
            }
        };
        self.out.truncate(start + HEADER + length);
        let ends = length == last;
        let flags = if ends { flag::END_STREAM } else { 0 };
        let header = FrameHeader { length, kind: kind::DATA, flags, stream: at.number() };
        self.out[start..start + HEADER].copy_from_slice(&header.bytes());
        self.count(at, length, ends);
        Ok(length)
    }

    /// Counts bytes of a body that are sent.
    fn count(&mut self, at: At, bytes: usize, ends: bool) {
        self.send.take(bytes);
        if let Some(stream) = self.streams.get(at) {
            stream.send.take(bytes);
        }
        if ends {
            self.sent_all(at);
        }
    }

    fn sent_all(&mut self, at: At) {
        self.streams.change(at, |stream| stream.sends = false);
    }

    /// Ends a stream without the rest of its response.
    pub fn reset(&mut self, at: At, reason: Reason) {
        if self.sends(at) {
            self.put_reset(at.number(), reason);
            self.streams.end(at, End::Server);
        }
    }

    /// The owner has read so much of a request's body: the client may send as much again.
    pub fn consume(&mut self, at: At, bytes: usize) {
        let Some(stream) = self.streams.get(at) else { return };
        let bytes = stream.unread.min(bytes as u32);
        stream.unread -= bytes;
        let increment = if stream.receives { stream.receive.consume(bytes) } else { None };
        self.give_back(bytes);
        if let Some(increment) = increment {
            frame::put(&mut self.out, kind::WINDOW_UPDATE, 0, at.number(), &increment.to_be_bytes());
        }
    }

    /// The owner needs a stream no more. If its response is complete, a client that still sends hears that the rest is not
    /// needed (RFC 9113 section 8.1).
    pub fn release(&mut self, at: At) {
        let Some(stream) = self.streams.remove(at) else { return };
        let (number, unread) = (at.number(), stream.unread);
        let is_cut = stream.sends || stream.receives;
        if is_cut && !self.is_over {
            self.put_reset(number, if stream.sends { Reason::CANCEL } else { Reason::NO_ERROR });
        }
        if !stream.is_reset {
            self.streams.note_end(number, if is_cut { End::Server } else { End::Whole });
        }
        if unread > 0 {
            self.give_back(unread);
        }
    }
}

/// Writes the fields of a response's head.
pub struct HeadWriter<'c> {
    encoder: &'c mut Encoder,
    out: &'c mut Vec<u8>,
    size: u64,
}

impl HeadWriter<'_> {
    /// Writes a field. Its name may have capitals. Fields that only concern an HTTP/1 connection are left out (RFC 9113 section
    /// 8.2.2).
    ///
    /// # Errors
    /// See [`BadField`]; nothing is written.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        if !crate::name::is_valid(name.as_bytes()) || !is_field_value(value) {
            return Err(BadField);
        }
        if !concerns_http1(name) {
            // Blanks around a value are not part of it, and forbidden here (RFC 9113 section 8.2.1).
            let value = trim(value);
            self.size += (name.len() + value.len()) as u64;
            self.encoder.field(name.as_bytes(), value, self.out);
        }
        Ok(())
    }

    /// Writes a field that was accepted before, and whose name is in lower case.
    pub fn field_again(&mut self, name: &[u8], value: &[u8]) {
        self.size += (name.len() + value.len()) as u64;
        self.encoder.field(name, value, self.out);
    }

    /// The size of the fields in bytes, without compression.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// Whether a field only concerns an HTTP/1 connection (RFC 9113 section 8.2.2).
#[must_use]
pub fn concerns_http1(name: &str) -> bool {
    const NAMES: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];
    NAMES.iter().any(|one| one.eq_ignore_ascii_case(name))
}
