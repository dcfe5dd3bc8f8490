//! What received frames mean.

use super::{Block, Connection, Event, Gone};
use crate::h2::connection::Broken;
use crate::h2::fault::{Fault, TOO_MUCH_PADDING, UNRESERVED, unpadded, wrong_size};
use crate::h2::frame::{self, FrameHeader, HEADER, PAYLOAD, Reason, flag, kind, setting};
use crate::h2::streams::{At, End, Known};

/// How frames on a stream that has ended count: as frames without content, of no known kind.
const UNWANTED: u8 = u8::MAX;
const SHORT: &str = "the response is shorter than its content-length";

impl<S: Default> Connection<S> {
    /// What the first frame in `input` means, and how long it is. `None`: more bytes have to come first.
    ///
    /// # Errors
    /// The server has violated the protocol. Nothing more is to be received.
    pub fn receive<'f>(&mut self, input: &'f [u8]) -> Result<Option<(usize, Event<'f>)>, Broken> {
        let Some(header) = FrameHeader::read(input) else { return Ok(None) };
        if header.length > PAYLOAD {
            // Such as the beginning of a response of HTTP/1.
            let what = if self.is_greeted { "a frame is too large" } else { "it begins with something else" };
            return Err(self.broken(Fault::Connection(Reason::FRAME_SIZE_ERROR, what)));
        }
        let length = HEADER + header.length;
        let Some(payload) = input.get(HEADER..length) else { return Ok(None) };
        match self.frame(header, payload) {
            Ok(event) => Ok(Some((length, event))),
            Err(Fault::Stream(number, reason)) => Ok(Some((length, self.violated(number, reason)))),
            Err(fault) => Err(self.broken(fault)),
        }
    }

    /// How much the frame at the beginning of `input` counts for windows, in bytes: nothing, unless it is DATA.
    #[must_use]
    pub fn flow(input: &[u8]) -> usize {
        FrameHeader::read(input).filter(|header| header.kind == kind::DATA).map_or(0, |header| header.length)
    }

    fn frame<'f>(&mut self, header: FrameHeader, payload: &'f [u8]) -> Result<Event<'f>, Fault> {
        let violation = |what| Err(Fault::Connection(Reason::PROTOCOL_ERROR, what));
        // Whether DATA carry anything shows without their padding, and whether a head is wanted by its stream.
        if !matches!(header.kind, kind::DATA | kind::HEADERS) {
            self.count(header.kind, header.length == 0)?;
        }
        if !self.is_greeted && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return violation("the first frame is not SETTINGS");
        }
        if self.block.is_some() && header.kind != kind::CONTINUATION {
            return violation("a frame within a head");
        }
        let is_of_connection = matches!(header.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        let is_of_stream =
            matches!(header.kind, kind::DATA | kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::CONTINUATION);
        if is_of_connection && header.stream != 0 {
            return violation("a frame of the connection on a stream");
        }
        if is_of_stream && header.stream == 0 {
            return violation("a frame of a stream without its number");
        }
        match header.kind {
            kind::DATA => self.data_frame(header, payload),
            kind::HEADERS => self.headers(header, payload),
            kind::RST_STREAM => self.rst_stream(header, payload),
            kind::SETTINGS => self.settings(header, payload),
            // SETTINGS_ENABLE_PUSH is 0 from the beginning (RFC 9113 section 8.4).
            kind::PUSH_PROMISE => violation("PUSH_PROMISE, which nobody has allowed"),
            kind::PING => self.ping(header, payload),
            kind::GOAWAY => self.goaway(payload),
            kind::WINDOW_UPDATE => self.window_update(header, payload),
            kind::CONTINUATION => self.continuation(header, payload),
            // Priorities are for servers. RFC 9113 section 4.1: unknown kinds are ignored.
            _ => Ok(Event::Nothing),
        }
    }

    fn count(&mut self, kind: u8, is_empty: bool) -> Result<(), Fault> {
        self.meter.frame(kind, is_empty).map_err(|name| Fault::Connection(Reason::ENHANCE_YOUR_CALM, name))
    }

    /// A fault of a stream, and what it is.
    fn fault(&mut self, number: u32, reason: Reason, what: &'static str) -> Fault {
        self.what = what;
        Fault::Stream(number, reason)
    }

    /// Resets a stream on which the server has violated the protocol.
    fn violated(&mut self, number: u32, reason: Reason) -> Event<'static> {
        let Known::There(at) = self.streams.known(number) else { return Event::Nothing };
        self.put_reset(number, reason);
        self.streams.end(at, End::Own);
        Event::Gone(at, Gone::Malformed(self.what))
    }

    fn headers<'f>(&mut self, header: FrameHeader, payload: &'f [u8]) -> Result<Event<'f>, Fault> {
        let mut fragment = unpadded(header, payload)?;
        if header.has(flag::PRIORITY) {
            fragment = match fragment.split_at_checked(5) {
                Some((_, rest)) => rest,
                None if header.has(flag::PADDED) => return Err(TOO_MUCH_PADDING),
                None => return wrong_size("HEADERS without a whole priority"),
            };
        }
        let block = Block { stream: header.stream, flags: header.flags };
        if header.has(flag::END_HEADERS) {
            return self.head_received(&block, fragment);
        }
        self.fragments.clear();
        self.fragments.extend_from_slice(fragment);
        self.block = Some(block);
        Ok(Event::Nothing)
    }

    fn continuation<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
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
        match self.streams.known(number) {
            Known::There(at) => self.head_of(at, ends),
            Known::Ended(End::Whole) => {
                Err(Fault::Connection(Reason::STREAM_CLOSED, "HEADERS on a stream that has ended"))
            }
            Known::Ended(End::Own | End::Peer) => self.count(UNWANTED, true).map(|()| Event::Nothing),
            Known::Unknown if !is_foreign(number) => self.count(UNWANTED, true).map(|()| Event::Nothing),
            Known::Idle | Known::Unknown => {
                Err(Fault::Connection(Reason::PROTOCOL_ERROR, "HEADERS on a stream without a request"))
            }
        }
    }

    /// Decodes a head into `fields`.
    fn decode(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let most = self.config.header_list as usize;
        let Connection { decoder, fields, .. } = self;
        fields.clear();
        let decoded = decoder.decode(bytes, |name, value, verdict| fields.push_again(name, value, most, verdict));
        decoded.map_err(|_| Fault::Connection(Reason::COMPRESSION_ERROR, "a head cannot be decoded"))
    }

    fn head_of<'f>(&mut self, at: At, ends: bool) -> Result<Event<'f>, Fault> {
        let number = at.number();
        if self.fields.is_too_large() {
            return Err(self.fault(number, Reason::ENHANCE_YOUR_CALM, "a head is too large"));
        }
        let Some(stream) = self.streams.get(at) else { return Ok(Event::Nothing) };
        if !stream.receives {
            return Err(self.fault(number, Reason::STREAM_CLOSED, "a head after the end of the response"));
        }
        if stream.is_answered {
            return self.trailers_of(at, ends);
        }
        let (status, length) = (self.fields.check_response(), self.fields.length());
        let what = match status {
            Err(_) => "a head is malformed",
            Ok(101) => "101 (Switching Protocols) does not exist in HTTP/2",
            Ok(100..200) if ends => "the response ends with an interim head",
            Ok(status) => {
                if status >= 200 {
                    let has_none = stream.owner.to_head || matches!(status, 204 | 304);
                    if ends && !has_none && length.is_some_and(|length| length > 0) {
                        return Err(self.fault(number, Reason::PROTOCOL_ERROR, SHORT));
                    }
                    stream.is_answered = true;
                    stream.announced = if has_none { Some(0) } else { length };
                    if ends {
                        self.streams.change(at, |stream| stream.receives = false);
                    }
                }
                return Ok(Event::Head { at, status, ends });
            }
        };
        Err(self.fault(number, Reason::PROTOCOL_ERROR, what))
    }

    fn trailers_of<'f>(&mut self, at: At, ends: bool) -> Result<Event<'f>, Fault> {
        let is_short = self.streams.peek(at).is_some_and(|stream| stream.announced.is_some_and(|left| left > 0));
        let what = match self.fields.check_trailers() {
            _ if !ends => "the fields after the body do not end the response",
            _ if is_short => SHORT,
            Err(_) => "the fields after the body are malformed",
            Ok(()) => {
                self.streams.change(at, |stream| stream.receives = false);
                return Ok(Event::Trailers(at));
            }
        };
        Err(self.fault(at.number(), Reason::PROTOCOL_ERROR, what))
    }

    fn data_frame<'f>(&mut self, header: FrameHeader, payload: &'f [u8]) -> Result<Event<'f>, Fault> {
        // Padding counts for the windows (RFC 9113 section 6.9.1).
        self.receive.receive(payload.len()).map_err(|reason| Fault::Connection(reason, "DATA beyond the window"))?;
        if let Some(increment) = self.receive.consume(payload.len() as u32) {
            frame::put(&mut self.out, kind::WINDOW_UPDATE, 0, 0, &increment.to_be_bytes());
        }
        let bytes = unpadded(header, payload)?;
        self.count(kind::DATA, bytes.is_empty())?;
        let number = header.stream;
        let at = match self.streams.known(number) {
            Known::There(at) => at,
            // What was on its way when we reset the stream: no more than its window, which the owner has to check.
            Known::Ended(End::Own) => return Ok(Event::Nothing),
            Known::Ended(End::Peer) => return self.count(UNWANTED, true).map(|()| Event::Nothing),
            Known::Unknown if !is_foreign(number) => return self.count(UNWANTED, true).map(|()| Event::Nothing),
            Known::Ended(End::Whole) => {
                return Err(Fault::Connection(Reason::STREAM_CLOSED, "DATA on a stream that has ended"));
            }
            Known::Idle | Known::Unknown => {
                return Err(Fault::Connection(Reason::PROTOCOL_ERROR, "DATA on a stream without a request"));
            }
        };
        let Some(stream) = self.streams.get(at) else { return Ok(Event::Nothing) };
        let ends = header.has(flag::END_STREAM);
        let left = stream.announced.map(|left| left.checked_sub(bytes.len() as u64));
        let what = match stream.receive.receive(payload.len()) {
            _ if !stream.receives => (Reason::STREAM_CLOSED, "DATA after the end of the response"),
            _ if !stream.is_answered => (Reason::PROTOCOL_ERROR, "DATA before the head of a response"),
            Err(reason) => (reason, "DATA beyond the window of the stream"),
            // RFC 9113 section 8.1.1: the lengths have to agree.
            Ok(()) => match left {
                Some(None) => (Reason::PROTOCOL_ERROR, "the response is longer than its content-length"),
                Some(Some(1..)) if ends => (Reason::PROTOCOL_ERROR, SHORT),
                left => {
                    stream.announced = left.flatten();
                    stream.unread += payload.len() as u32;
                    if ends {
                        self.streams.change(at, |stream| stream.receives = false);
                    }
                    self.consume(at, payload.len() - bytes.len());
                    return Ok(Event::Data { at, bytes, ends });
                }
            },
        };
        Err(self.fault(number, what.0, what.1))
    }

    fn rst_stream<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
        let Ok(code) = payload.try_into().map(u32::from_be_bytes) else {
            return wrong_size("RST_STREAM of the wrong size");
        };
        match self.streams.known(header.stream) {
            Known::Idle => Err(Fault::Connection(Reason::PROTOCOL_ERROR, "RST_STREAM on a stream without a request")),
            Known::There(at) => {
                let is_answered = self.streams.peek(at).is_some_and(|stream| stream.is_answered);
                self.streams.end(at, End::Peer);
                let gone = match Reason(code) {
                    Reason::REFUSED_STREAM if !is_answered => Gone::Unprocessed,
                    reason => Gone::Reset(reason),
                };
                Ok(Event::Gone(at, gone))
            }
            Known::Ended(_) | Known::Unknown => Ok(Event::Nothing),
        }
    }

    fn settings<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
        if header.has(flag::ACK) {
            self.is_known = true;
            return if payload.is_empty() { Ok(Event::Nothing) } else { wrong_size("an acknowledgement with content") };
        }
        if !payload.len().is_multiple_of(6) {
            return wrong_size("SETTINGS of the wrong size");
        }
        for entry in payload.chunks_exact(6) {
            let (name, value) = (u16::from_be_bytes([entry[0], entry[1]]), &entry[2..]);
            let value = u32::from_be_bytes([value[0], value[1], value[2], value[3]]);
            self.apply(name, value)?;
        }
        self.is_greeted = true;
        frame::put(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(Event::Room(None))
    }

    /// Applies a setting of the server.
    fn apply(&mut self, name: u16, value: u32) -> Result<(), Fault> {
        let invalid = |what| Err(Fault::Connection(Reason::PROTOCOL_ERROR, what));
        match name {
            setting::HEADER_TABLE_SIZE => self.encoder.limit(value),
            setting::ENABLE_PUSH if value != 0 => return invalid("SETTINGS_ENABLE_PUSH of a server"),
            setting::MAX_CONCURRENT_STREAMS => self.allowed = value,
            setting::MAX_FRAME_SIZE if !(PAYLOAD..1 << 24).contains(&(value as usize)) => {
                return invalid("SETTINGS_MAX_FRAME_SIZE is out of range");
            }
            setting::INITIAL_WINDOW_SIZE => {
                let too_large = Fault::Connection(Reason::FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE");
                if value > UNRESERVED {
                    return Err(too_large);
                }
                let by = i64::from(value) - i64::from(std::mem::replace(&mut self.initial_send, value));
                if self.streams.all().any(|stream| stream.send.change(by).is_err()) {
                    return Err(too_large);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn ping<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
        if payload.len() != 8 {
            return wrong_size("PING of the wrong size");
        }
        if !header.has(flag::ACK) {
            frame::put(&mut self.out, kind::PING, flag::ACK, 0, payload);
        }
        Ok(Event::Nothing)
    }

    fn goaway<'f>(&mut self, payload: &[u8]) -> Result<Event<'f>, Fault> {
        let Some(last) = payload.first_chunk().filter(|_| payload.len() >= 8) else {
            return wrong_size("GOAWAY of the wrong size");
        };
        let last = u32::from_be_bytes(*last) & UNRESERVED;
        // It may say so several times, and each time allow less (RFC 9113 section 6.8).
        let last = self.last.map_or(last, |before| before.min(last));
        self.last = Some(last);
        let all = self.streams.beyond(last);
        all.iter().for_each(|at| self.streams.end(*at, End::Peer));
        Ok(Event::Leaves(all))
    }

    fn window_update<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
        let Ok(increment) = payload.try_into().map(u32::from_be_bytes) else {
            return wrong_size("WINDOW_UPDATE of the wrong size");
        };
        let increment = i64::from(increment & UNRESERVED);
        if header.stream == 0 {
            if increment == 0 {
                return Err(Fault::Connection(Reason::PROTOCOL_ERROR, "WINDOW_UPDATE by nothing"));
            }
            let changed = self.send.change(increment);
            changed.map_err(|reason| Fault::Connection(reason, "WINDOW_UPDATE beyond the largest window"))?;
            return Ok(Event::Room(None));
        }
        let number = header.stream;
        match self.streams.known(number) {
            Known::There(at) => {
                let Some(stream) = self.streams.get(at) else { return Ok(Event::Nothing) };
                if increment == 0 {
                    return Err(self.fault(number, Reason::PROTOCOL_ERROR, "WINDOW_UPDATE by nothing"));
                }
                let changed = stream.send.change(increment);
                changed.map_err(|reason| self.fault(number, reason, "WINDOW_UPDATE beyond the largest window"))?;
                Ok(Event::Room(Some(at)))
            }
            Known::Idle => {
                Err(Fault::Connection(Reason::PROTOCOL_ERROR, "WINDOW_UPDATE on a stream without a request"))
            }
            Known::Ended(_) | Known::Unknown => Ok(Event::Nothing),
        }
    }
}

/// Whether only the server could have opened this stream, which it may not.
fn is_foreign(number: u32) -> bool {
    number.is_multiple_of(2)
}
