//! Heads of requests, and the fields after their bodies.

use super::{Block, Connection, Event};
use crate::h2::fault::{Fault, TOO_MUCH_PADDING, depends_on, unpadded, wrong_size};
use crate::h2::fields::Malformed;
use crate::h2::frame::{FrameHeader, Reason, flag, kind};
use crate::h2::streams::{At, End, Known};

/// The longest head whose bytes are kept for a comparison with the next one, in bytes.
const LAST_BLOCK: usize = 1024;

impl<S: Default> Connection<S> {
    pub(super) fn headers<'f>(&mut self, header: FrameHeader, payload: &'f [u8]) -> Result<Event<'f>, Fault> {
        let mut fragment = unpadded(header, payload)?;
        let mut is_circular = false;
        if header.has(flag::PRIORITY) {
            let Some((dependency, rest)) = fragment.split_at_checked(5) else {
                return match header.has(flag::PADDED) {
                    true => Err(TOO_MUCH_PADDING),
                    false => wrong_size("HEADERS without a whole priority"),
                };
            };
            is_circular = depends_on(dependency) == header.stream;
            fragment = rest;
        }
        let block = Block { stream: header.stream, flags: header.flags, is_circular };
        if header.has(flag::END_HEADERS) {
            return self.head_received(&block, fragment);
        }
        self.fragments.clear();
        self.fragments.extend_from_slice(fragment);
        self.block = Some(block);
        Ok(Event::Nothing)
    }

    pub(super) fn continuation<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
        let Some(block) = self.block.take_if(|block| block.stream == header.stream) else {
            return Err(Fault::Connection(Reason::PROTOCOL_ERROR, "CONTINUATION of no head"));
        };
        if self.fragments.len() + payload.len() > 2 * self.config.header_list as usize {
            return Err(Fault::Connection(Reason::ENHANCE_YOUR_CALM, "CONTINUATION"));
        }
        self.fragments.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            self.block = Some(block);
            return Ok(Event::Nothing);
        }
        let fragments = std::mem::take(&mut self.fragments);
        self.head_received(&block, &fragments)
    }

    /// A whole head has come. It has to be decoded in any case, because later ones build on it.
    fn head_received<'f>(&mut self, block: &Block, bytes: &[u8]) -> Result<Event<'f>, Fault> {
        self.decode(bytes)?;
        let (number, ends) = (block.stream, block.flags & flag::END_STREAM != 0);
        let fault = |reason| Err(Fault::Stream(number, reason));
        match self.streams.known(number) {
            Known::There(at) => return self.trailers_received(at, ends),
            Known::Ended(End::Own) => return Ok(Event::Nothing),
            Known::Ended(End::Peer) => return fault(Reason::STREAM_CLOSED),
            Known::Ended(End::Whole) => {
                return Err(Fault::Connection(Reason::STREAM_CLOSED, "HEADERS on a stream that has ended"));
            }
            Known::Idle if number % 2 == 1 => {}
            Known::Idle | Known::Unknown => {
                return Err(Fault::Connection(Reason::PROTOCOL_ERROR, "HEADERS with a number that no stream can have"));
            }
        }
        if self.is_left_out(number) {
            return Ok(Event::Nothing);
        }
        self.streams.last = number;
        if self.streams.open() >= self.config.streams || self.streams.len() >= 2 * self.config.streams as usize {
            if self.meter.frame(kind::RST_STREAM, false).is_err() {
                return Err(Fault::Connection(Reason::ENHANCE_YOUR_CALM, "HEADERS"));
            }
            self.put_reset(number, Reason::REFUSED_STREAM);
            self.streams.note_end(number, End::Own);
            return Ok(Event::Nothing);
        }
        // What does not fit was decoded all the same.
        if self.fields.is_too_large() && self.meter.frame(kind::RST_STREAM, false).is_err() {
            return Err(Fault::Connection(Reason::ENHANCE_YOUR_CALM, "large HEADERS"));
        }
        let length = self.fields.length();
        let is_short = ends && length.is_some_and(|length| length > 0) && self.fields.protocol().is_none();
        if block.is_circular || is_short || self.fields.check_request(self.config.tunnels) == Err(Malformed) {
            return fault(Reason::PROTOCOL_ERROR);
        }
        let at = self.open(number, ends, length.filter(|_| self.fields.protocol().is_none()));
        Ok(Event::Request { at, ends })
    }

    /// Decodes a head into `fields`.
    fn decode(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let before = self.decoder.changes();
        if self.last_changes == Some(before) && self.last_block == bytes {
            return Ok(());
        }
        let most = self.config.header_list as usize;
        let Connection { decoder, fields, .. } = self;
        fields.clear();
        self.last_changes = None;
        if decoder.decode(bytes, |name, value, verdict| fields.push_again(name, value, most, verdict)).is_err() {
            return Err(Fault::Connection(Reason::COMPRESSION_ERROR, "a head cannot be decoded"));
        }
        if decoder.changes() == before && bytes.len() <= LAST_BLOCK {
            self.last_block.clear();
            self.last_block.extend_from_slice(bytes);
            self.last_changes = Some(before);
        }
        Ok(())
    }

    fn trailers_received<'f>(&mut self, at: At, ends: bool) -> Result<Event<'f>, Fault> {
        let number = at.number();
        let Some(stream) = self.streams.get(at) else { return Ok(Event::Nothing) };
        if !stream.receives {
            return Err(Fault::Stream(number, Reason::STREAM_CLOSED));
        }
        let is_short = stream.announced.is_some_and(|left| left > 0);
        if !ends || is_short || self.fields.check_trailers() == Err(Malformed) {
            return Err(Fault::Stream(number, Reason::PROTOCOL_ERROR));
        }
        self.streams.change(at, |stream| stream.receives = false);
        Ok(Event::Trailers(at))
    }
}
