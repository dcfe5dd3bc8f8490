//! What received frames mean.

use super::{Broken, Connection, Event, GOODBYE, Gone, Leaving};
use crate::h2::fault::{Fault, UNRESERVED, depends_on, unpadded, wrong_size};
use crate::h2::frame::{self, FrameHeader, HEADER, PAYLOAD, PREFACE, Reason, flag, kind};
use crate::h2::streams::{End, Known};

impl<S: Default> Connection<S> {
    /// What the first frame in `input` means, and how long it is. `None`: more bytes have to come first.
    ///
    /// # Errors
    /// The client has violated the protocol. Nothing more is to be received.
    pub fn receive<'f>(&mut self, input: &'f [u8]) -> Result<Option<(usize, Event<'f>)>, Broken> {
        if self.preface < PREFACE.len() {
            return self.receive_preface(input).map(|length| length.map(|length| (length, Event::Nothing)));
        }
        let Some(header) = FrameHeader::read(input) else { return Ok(None) };
        if header.length > PAYLOAD {
            return Err(self.broken(Fault::Connection(Reason::FRAME_SIZE_ERROR, "a frame is too large")));
        }
        let length = HEADER + header.length;
        let Some(payload) = input.get(HEADER..length) else { return Ok(None) };
        match self.frame(header, payload) {
            Ok(event) => Ok(Some((length, event))),
            Err(Fault::Stream(number, reason)) => {
                let event = self.violated(number, reason)?;
                Ok(Some((length, event)))
            }
            Err(fault) => Err(self.broken(fault)),
        }
    }

    fn receive_preface(&mut self, input: &[u8]) -> Result<Option<usize>, Broken> {
        let length = input.len().min(PREFACE.len() - self.preface);
        if input[..length] != PREFACE[self.preface..self.preface + length] {
            return Err(self.broken(Fault::Connection(Reason::PROTOCOL_ERROR, "the client preface is wrong")));
        }
        self.preface += length;
        Ok(Some(length).filter(|length| *length > 0))
    }

    fn frame<'f>(&mut self, header: FrameHeader, payload: &'f [u8]) -> Result<Event<'f>, Fault> {
        let violation = |what| Err(Fault::Connection(Reason::PROTOCOL_ERROR, what));
        // Whether DATA carry anything shows without their padding.
        if header.kind != kind::DATA
            && let Err(name) = self.meter.frame(header.kind, header.length == 0)
        {
            return Err(Fault::Connection(Reason::ENHANCE_YOUR_CALM, name));
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
            kind::PRIORITY => priority(header, payload),
            kind::RST_STREAM => self.rst_stream(header, payload),
            kind::SETTINGS => self.settings(header, payload),
            kind::PUSH_PROMISE => violation("PUSH_PROMISE from a client"),
            kind::PING => self.ping(header, payload),
            kind::GOAWAY if payload.len() < 8 => wrong_size("GOAWAY of the wrong size"),
            kind::GOAWAY => {
                self.client_leaves = true;
                Ok(Event::Nothing)
            }
            kind::WINDOW_UPDATE => self.window_update(header, payload),
            kind::CONTINUATION => self.continuation(header, payload),
            // RFC 9113 section 4.1: unknown kinds are ignored.
            _ => Ok(Event::Nothing),
        }
    }

    fn data_frame<'f>(&mut self, header: FrameHeader, payload: &'f [u8]) -> Result<Event<'f>, Fault> {
        // Padding counts for the windows (RFC 9113 section 6.9.1).
        self.receive.receive(payload.len()).map_err(|reason| Fault::Connection(reason, "DATA beyond the window"))?;
        let bytes = unpadded(header, payload)?;
        if let Err(name) = self.meter.frame(kind::DATA, bytes.is_empty()) {
            return Err(Fault::Connection(Reason::ENHANCE_YOUR_CALM, name));
        }
        let at = match self.streams.known(header.stream) {
            Known::There(at) => at,
            Known::Idle if self.is_left_out(header.stream) => return Ok(self.unwanted(payload)),
            Known::Idle => return Err(Fault::Connection(Reason::PROTOCOL_ERROR, "DATA on a stream without a request")),
            Known::Ended(End::Own) => return Ok(self.unwanted(payload)),
            Known::Ended(End::Peer) => {
                self.unwanted(payload);
                return Err(Fault::Stream(header.stream, Reason::STREAM_CLOSED));
            }
            Known::Ended(End::Whole) => {
                return Err(Fault::Connection(Reason::STREAM_CLOSED, "DATA on a stream that has ended"));
            }
            // Perhaps we have reset it, long ago.
            Known::Unknown => {
                self.unwanted(payload);
                return match self.meter.frame(kind::DATA, true) {
                    Ok(()) => Ok(Event::Nothing),
                    Err(name) => Err(Fault::Connection(Reason::ENHANCE_YOUR_CALM, name)),
                };
            }
        };
        let Some(stream) = self.streams.get(at) else { return Ok(Event::Nothing) };
        if !stream.receives {
            self.unwanted(payload);
            return Err(Fault::Stream(header.stream, Reason::STREAM_CLOSED));
        }
        let ends = header.has(flag::END_STREAM);
        let fault = match stream.receive.receive(payload.len()) {
            Err(reason) => Some(reason),
            // RFC 9113 section 8.1.1: the lengths have to agree.
            Ok(()) => match &mut stream.announced {
                Some(left) => match left.checked_sub(bytes.len() as u64) {
                    Some(rest) if !ends || rest == 0 => {
                        *left = rest;
                        None
                    }
                    // The client knows the response, and gives up a body that will not be read: curl does so if it is an error.
                    Some(_) if stream.is_answered => {
                        self.unwanted(payload);
                        self.streams.change(at, |stream| stream.receives = false);
                        return Ok(Event::Cut(at));
                    }
                    _ => Some(Reason::PROTOCOL_ERROR),
                },
                None => None,
            },
        };
        if let Some(reason) = fault {
            self.unwanted(payload);
            return Err(Fault::Stream(header.stream, reason));
        }
        stream.unread += payload.len() as u32;
        if ends {
            self.streams.change(at, |stream| stream.receives = false);
        }
        let padding = payload.len() - bytes.len();
        if padding > 0 {
            self.consume(at, padding);
        }
        Ok(Event::Data { at, bytes, ends })
    }

    /// Gives the window of the connection back for bytes that nobody will read.
    fn unwanted(&mut self, payload: &[u8]) -> Event<'static> {
        self.give_back(payload.len() as u32);
        Event::Nothing
    }

    pub(super) fn give_back(&mut self, bytes: u32) {
        if let Some(increment) = self.receive.consume(bytes) {
            frame::put(&mut self.out, kind::WINDOW_UPDATE, 0, 0, &increment.to_be_bytes());
        }
    }

    /// Whether we have said that we do not serve this stream any more.
    pub(super) fn is_left_out(&self, number: u32) -> bool {
        matches!(self.leaving, Leaving::Last(last) if number > last)
    }

    fn rst_stream<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
        let Ok(code) = payload.try_into().map(u32::from_be_bytes) else {
            return wrong_size("RST_STREAM of the wrong size");
        };
        match self.streams.known(header.stream) {
            Known::Idle if !self.is_left_out(header.stream) => {
                Err(Fault::Connection(Reason::PROTOCOL_ERROR, "RST_STREAM on a stream without a request"))
            }
            Known::There(at) => {
                self.streams.end(at, End::Peer);
                Ok(Event::Gone(at, Gone::Reset(Reason(code))))
            }
            Known::Idle | Known::Ended(_) | Known::Unknown => Ok(Event::Nothing),
        }
    }

    fn ping<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
        if payload.len() != 8 {
            return wrong_size("PING of the wrong size");
        }
        if !header.has(flag::ACK) {
            frame::put(&mut self.out, kind::PING, flag::ACK, 0, payload);
        } else if payload == GOODBYE && self.leaving == Leaving::Announced {
            self.leaving = Leaving::Last(self.streams.last);
            self.put_goaway(self.streams.last, Reason::NO_ERROR);
        }
        Ok(Event::Nothing)
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
        match self.streams.known(header.stream) {
            Known::There(at) => {
                let Some(stream) = self.streams.get(at) else { return Ok(Event::Nothing) };
                if increment == 0 {
                    return Err(Fault::Stream(header.stream, Reason::PROTOCOL_ERROR));
                }
                stream.send.change(increment).map_err(|reason| Fault::Stream(header.stream, reason))?;
                Ok(Event::Room(Some(at)))
            }
            Known::Idle if !self.is_left_out(header.stream) => {
                Err(Fault::Connection(Reason::PROTOCOL_ERROR, "WINDOW_UPDATE on a stream without a request"))
            }
            Known::Idle | Known::Ended(_) | Known::Unknown => Ok(Event::Nothing),
        }
    }

    /// Resets a stream on which the client has violated the protocol.
    fn violated(&mut self, number: u32, reason: Reason) -> Result<Event<'static>, Broken> {
        self.faults += 1;
        if self.config.faults.is_some_and(|most| self.faults > most) {
            return Err(self.broken(Fault::Connection(Reason::ENHANCE_YOUR_CALM, "malformed")));
        }
        let known = self.streams.known(number);
        if known == Known::Idle {
            return Err(self.broken(Fault::Connection(reason, "a frame on a stream without a request")));
        }
        self.put_reset(number, reason);
        match known {
            Known::There(at) => {
                self.streams.end(at, End::Own);
                return Ok(Event::Gone(at, Gone::Malformed));
            }
            // A request that was not served at all.
            Known::Unknown => self.streams.note_end(number, End::Own),
            Known::Idle | Known::Ended(_) => {}
        }
        Ok(Event::Nothing)
    }
}

fn priority<'f>(header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
    match payload.len() {
        5 if depends_on(payload) == header.stream => Err(Fault::Stream(header.stream, Reason::PROTOCOL_ERROR)),
        5 => Ok(Event::Nothing),
        _ => Err(Fault::Stream(header.stream, Reason::FRAME_SIZE_ERROR)),
    }
}
