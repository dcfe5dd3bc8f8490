//! Requests.

use super::{Connection, Own};
use crate::h2::frame::{self, PAYLOAD, Reason, flag, kind};
use crate::h2::head_writer::{self, HeadWriter};
use crate::h2::hpack::Encoder;
use crate::h2::streams::{At, End, Stream};
use crate::h2::window::{self, ReceiveWindow, SendWindow};

impl<S: Default> Connection<S> {
    /// Opens a stream with the head of a request. `write` gives its fields, those of HTTP/2 first; if it fails, nothing is sent.
    /// `ends`: there is no body. `to_head`: the method is HEAD. `Ok(None)`: there is no [room](Connection::has_room).
    ///
    /// # Errors
    /// Those of `write`.
    pub fn request<E>(
        &mut self,
        ends: bool,
        to_head: bool,
        write: impl FnOnce(&mut HeadWriter<'_>) -> Result<(), E>,
    ) -> Result<Option<At>, E> {
        if !self.has_room() {
            return Ok(None);
        }
        let window = self.config.window;
        // Until the server knows our window, it may fill the initial one.
        let left = if self.is_known { window } else { window.max(window::INITIAL) };
        let stream = Stream {
            send: SendWindow::new(self.initial_send),
            receive: ReceiveWindow::new(window, left),
            unread: 0,
            announced: None,
            receives: true,
            sends: true,
            is_answered: false,
            is_reset: false,
            owner: Own { to_head, owner: S::default() },
        };
        let at = self.streams.add(self.next, stream);
        let Connection { encoder, out, .. } = self;
        if let Err(error) = head_writer::put(encoder, out, at, ends, Encoder::begin, write) {
            self.streams.remove(at);
            return Err(error);
        }
        self.streams.last = self.next;
        self.next += 2;
        // A request earns the frames that the server may send for it.
        let _ = self.meter.frame(kind::HEADERS, false);
        if ends {
            self.sent_all(at);
        }
        Ok(Some(at))
    }

    /// Whether the request on this stream may still go on.
    #[must_use]
    pub fn sends(&self, at: At) -> bool {
        !self.is_over && self.streams.peek(at).is_some_and(|stream| stream.sends)
    }

    /// How much the server accepts on this stream now, in bytes.
    #[must_use]
    pub fn room(&self, at: At) -> usize {
        self.streams.peek(at).map_or(0, |stream| stream.send.room()).min(self.send.room())
    }

    /// Sends a piece of a request's body, for which there has to be [room](Connection::room). `ends`: it is the last one.
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
        self.send.take(bytes.len());
        if let Some(stream) = self.streams.get(at) {
            stream.send.take(bytes.len());
        }
        let flags = if ends { flag::END_STREAM } else { 0 };
        frame::put(&mut self.out, kind::DATA, flags, at.number(), bytes);
        if ends {
            self.sent_all(at);
        }
    }

    /// Sends the fields after a request's body, which end it. `write` gives them; if it fails, nothing is sent.
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

    fn sent_all(&mut self, at: At) {
        self.streams.change(at, |stream| stream.sends = false);
    }

    /// The owner has passed on so much of a response's body: the server may send as much again.
    pub fn consume(&mut self, at: At, bytes: usize) {
        let Some(stream) = self.streams.get(at) else { return };
        let bytes = stream.unread.min(bytes as u32);
        stream.unread -= bytes;
        let increment = if stream.receives { stream.receive.consume(bytes) } else { None };
        if let Some(increment) = increment {
            frame::put(&mut self.out, kind::WINDOW_UPDATE, 0, at.number(), &increment.to_be_bytes());
        }
    }

    /// The owner needs a stream no more. If it has not ended, the server hears that. Returns whether that is so.
    pub fn release(&mut self, at: At) -> bool {
        let is_cut = self.abandon(at);
        if is_cut && !self.is_over {
            self.put_reset(at.number(), Reason::CANCEL);
        }
        is_cut
    }

    /// Like [`release`](Connection::release), but the server hears nothing: it may send as much as the stream's window allows, which
    /// is ignored, and then waits until the connection ends.
    pub fn abandon(&mut self, at: At) -> bool {
        let Some(stream) = self.streams.remove(at) else { return false };
        let is_cut = stream.sends || stream.receives;
        if !stream.is_reset {
            self.streams.note_end(at.number(), if is_cut { End::Own } else { End::Whole });
        }
        is_cut
    }
}
