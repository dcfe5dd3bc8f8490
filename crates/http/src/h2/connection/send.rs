//! Responses.

use super::Connection;
use crate::h2::frame::{self, FrameHeader, HEADER, PAYLOAD, Reason, flag, kind};
use crate::h2::head_writer::{self, HeadWriter};
use crate::h2::hpack::Encoder;
use crate::h2::streams::{At, End};

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
        let Connection { encoder, out, .. } = self;
        head_writer::put(encoder, out, at, ends, |encoder, out| encoder.status(status, out), write)?;
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

    /// Sends the fields after a response's body, which end it. `write` gives them; if it fails, nothing is sent.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn trailers<E>(&mut self, at: At, write: impl FnOnce(&mut HeadWriter<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.sends(at) {
            let Connection { encoder, out, .. } = self;
            head_writer::put(encoder, out, at, true, Encoder::begin, write)?;
            self.sent_all(at);
        }
        Ok(())
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
            self.streams.end(at, End::Own);
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
            self.streams.note_end(number, if is_cut { End::Own } else { End::Whole });
        }
        if unread > 0 {
            self.give_back(unread);
        }
    }
}
