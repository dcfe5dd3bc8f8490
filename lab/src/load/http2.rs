//! The client side of HTTP/2 (RFC 9113): requests become streams, and frames are read as they arrive, piece by piece.
//! No I/O.
//!
//! It is our own, and small: the server's library must not measure itself (a mistake in framing must not hide in both),
//! and it would need a runtime around the generator's loop. This client sends the same requests again and again, so it
//! encodes their fields once, and it only looks at the status of responses.

mod frame;
mod hpack;
mod static_table;

use std::collections::VecDeque;
use std::sync::Arc;

use super::plan::Request;
use super::response::{Malformed, Response};
use frame::{Frame, FrameKind, flags, setting};
use hpack::{Blocks, Decoder, EMPTY_TABLE, Field};

/// The most that a server may send in advance, in bytes: all that the protocol allows (section 6.9.1).
const WINDOW: u32 = (1 << 31) - 1;
/// How much of that is used before it is given back.
const CREDIT: u32 = 1 << 30;
/// A connection's window before any negotiation (section 6.9.2).
const FIRST_WINDOW: u32 = 65_535;
/// The last valid stream number.
const LAST_STREAM: u32 = (1 << 31) - 1;
/// More fields than any server sends, in bytes.
const BLOCK_MAX: usize = 64 * 1024;

/// Fields that belong to a connection of HTTP/1.1 (section 8.2.2), and what is a pseudo-field here.
const NOT_SENT: [&str; 6] = ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// An encoded request.
#[derive(Clone, Debug)]
pub(super) struct Message {
    blocks: Blocks,
    body: Arc<[u8]>,
}

/// The requests of a plan, made once for all connections.
pub(super) fn messages(requests: &[Request], is_encrypted: bool) -> Arc<[Message]> {
    let scheme = if is_encrypted { "https" } else { "http" };
    let read: Vec<(Vec<Field>, &[u8])> = requests.iter().map(|request| fields(&request.bytes, scheme)).collect();
    let blocks = hpack::blocks(&read.iter().map(|(fields, _)| fields.clone()).collect::<Vec<_>>());
    blocks.into_iter().zip(read).map(|(blocks, (_, body))| Message { blocks, body: body.into() }).collect()
}

/// The fields of a request of HTTP/1.1, and its body.
fn fields<'r>(request: &'r [u8], scheme: &str) -> (Vec<Field>, &'r [u8]) {
    let mut parsed = [httparse::EMPTY_HEADER; 128];
    let mut head = httparse::Request::new(&mut parsed);
    // The head was made here.
    let length = match head.parse(request) {
        Ok(httparse::Status::Complete(length)) => length,
        _ => request.len(),
    };
    let host = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case("host"));
    let pseudo = [
        (":method", head.method.unwrap_or("GET").as_bytes()),
        (":scheme", scheme.as_bytes()),
        (":authority", host.map_or(&b""[..], |host| host.value)),
        (":path", head.path.unwrap_or("/").as_bytes()),
    ];
    let sent = head.headers.iter().filter(|field| !NOT_SENT.iter().any(|name| field.name.eq_ignore_ascii_case(name)));
    let all = pseudo.iter().map(|(name, value)| ((*name).into(), value.to_vec()));
    let all = all.chain(sent.map(|field| (field.name.to_ascii_lowercase().into_bytes(), field.value.to_vec())));
    (all.collect(), &request[length..])
}

/// An event of a request, which is identified by its place among those in progress.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The beginning of its response has arrived.
    Began(usize),
    /// Its response is complete.
    Answered(usize, Response),
    /// The server does not answer it.
    Refused(usize),
    /// The connection may carry more than before.
    Room,
}

/// A request in progress.
#[derive(Debug)]
struct Stream {
    id: u32,
    /// Its number among the messages.
    number: usize,
    /// How much of its body was sent, and how much more may be.
    sent: usize,
    window: i64,
    response: Option<Response>,
    interim: u64,
    /// Received bytes of its body that were not credited back yet.
    credit: u32,
}

/// A frame of content being read.
#[derive(Debug)]
struct Data {
    stream: u32,
    content: usize,
    padding: usize,
    ends: bool,
}

/// Fields that continue in another frame.
#[derive(Debug)]
struct Block {
    stream: u32,
    ends: bool,
    /// The total size of their frames, in bytes.
    size: usize,
    fields: Vec<u8>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Http2 {
    messages: Arc<[Message]>,
    decoder: Decoder,
    /// The received part of an incomplete frame.
    begun: Vec<u8>,
    data: Option<Data>,
    block: Option<Block>,
    /// In the order of their numbers.
    streams: VecDeque<Stream>,
    next: u32,
    /// How much may be sent over the connection, and over a new stream.
    window: i64,
    stream_window: i64,
    credit: u32,
    /// How many streams the server accepts, once it has said so.
    most: Option<u32>,
    /// The last stream that it answers, once it has announced its end.
    last: Option<u32>,
    is_first: bool,
    /// Whether it keeps no table of fields, and whether we have to signal that none is used.
    is_bare: bool,
    says_bare: bool,
    expected: Option<Arc<[u8]>>,
    /// The `Server` field of a response, if it is wanted.
    server: Option<Option<String>>,
}

impl Http2 {
    /// Begins a connection: send `out` first. Bodies are compared with `expected`.
    pub(super) fn open(messages: Arc<[Message]>, expected: Option<Arc<[u8]>>, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        frame::settings(out, &[(setting::PUSH, 0), (setting::WINDOW, WINDOW)]);
        frame::window_update(out, 0, WINDOW - FIRST_WINDOW);
        Self {
            messages,
            decoder: Decoder::default(),
            begun: Vec::new(),
            data: None,
            block: None,
            streams: VecDeque::new(),
            next: 1,
            window: FIRST_WINDOW.into(),
            stream_window: FIRST_WINDOW.into(),
            credit: 0,
            most: None,
            last: None,
            is_first: true,
            is_bare: false,
            says_bare: false,
            expected,
            server: None,
        }
    }

    /// Remembers the `Server` field of a response.
    pub(super) fn note_server(&mut self) {
        self.server = Some(None);
    }

    /// The `Server` field of a response.
    pub(super) fn server(&mut self) -> Option<String> {
        self.server.take()?
    }

    /// How many of `wanted` requests may be in progress: one until the server has said how many it accepts.
    pub(super) fn most(&self, wanted: usize) -> usize {
        match self.most {
            _ if self.last.is_some() || self.next > LAST_STREAM => 0,
            most => wanted.min(most.unwrap_or(1) as usize),
        }
    }

    /// Whether the server answers none of the requests in progress.
    pub(super) fn is_over(&self) -> bool {
        let is_used_up = self.next > LAST_STREAM && self.streams.is_empty();
        is_used_up || self.last.is_some_and(|last| self.streams.iter().all(|stream| stream.id > last))
    }

    /// Begins a request: the one with this number among the messages.
    pub(super) fn send_request(&mut self, number: usize, out: &mut Vec<u8>) {
        let message = &self.messages[number];
        let mut bare = Vec::new();
        let block = match (self.is_bare, self.is_first) {
            (true, _) => {
                bare.extend(std::mem::take(&mut self.says_bare).then_some(EMPTY_TABLE));
                bare.extend_from_slice(&message.blocks.bare);
                &bare
            }
            (false, true) => &message.blocks.first,
            (false, false) => &message.blocks.later,
        };
        frame::headers(out, self.next, block, message.body.is_empty());
        self.is_first = false;
        self.streams.push_back(Stream {
            id: self.next,
            number,
            sent: 0,
            window: self.stream_window,
            response: None,
            interim: 0,
            credit: 0,
        });
        self.next += 2;
        self.send_bodies(out);
    }

    /// Sends as much of bodies as the windows allow.
    fn send_bodies(&mut self, out: &mut Vec<u8>) {
        for stream in &mut self.streams {
            let body = &self.messages[stream.number].body;
            while stream.sent < body.len() {
                let room = self.window.min(stream.window).clamp(0, frame::SIZE_MAX as i64) as usize;
                let piece = &body[stream.sent..][..room.min(body.len() - stream.sent)];
                if piece.is_empty() {
                    break;
                }
                stream.sent += piece.len();
                stream.window -= piece.len() as i64;
                self.window -= piece.len() as i64;
                frame::data(out, stream.id, piece, stream.sent == body.len());
            }
        }
    }

    /// Reads on; send `out` afterwards. `see` receives the events.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
        see: &mut dyn FnMut(Event),
    ) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            let taken = match self.data.take() {
                Some(data) => self.content(data, bytes, see),
                None => self.next_frame(bytes, out, see)?,
            };
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Takes the next frame, or its available part.
    fn next_frame(&mut self, bytes: &[u8], out: &mut Vec<u8>, see: &mut dyn FnMut(Event)) -> Result<usize, Malformed> {
        if self.begun.is_empty()
            && let wanted = frame::wanted(bytes)?
            && let Some(frame) = bytes.get(..wanted)
        {
            return self.take(&Frame::of(frame), out, see).map(|()| wanted);
        }
        let mut taken = 0;
        loop {
            let missing = frame::wanted(&self.begun)? - self.begun.len();
            if missing == 0 {
                let whole = std::mem::take(&mut self.begun);
                return self.take(&Frame::of(&whole), out, see).map(|()| taken);
            }
            let rest = &bytes[taken..];
            if rest.is_empty() {
                return Ok(taken);
            }
            let piece = &rest[..missing.min(rest.len())];
            self.begun.extend_from_slice(piece);
            taken += piece.len();
        }
    }

    fn take(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>, see: &mut dyn FnMut(Event)) -> Result<(), Malformed> {
        if self.block.is_some() && frame.kind != FrameKind::Continuation {
            return Err(Malformed("something came between its fields"));
        }
        match frame.kind {
            FrameKind::Data => self.begin_content(frame, out, see)?,
            FrameKind::Headers | FrameKind::Continuation => self.collect(frame, see)?,
            FrameKind::Reset => {
                if let Some(at) = self.find(frame.stream) {
                    self.streams.remove(at);
                    see(Event::Refused(at));
                }
            }
            FrameKind::Settings if frame.flags & flags::ACK == 0 => {
                self.agree(frame)?;
                frame::settings_ack(out);
                self.send_bodies(out);
                see(Event::Room);
            }
            FrameKind::Ping if frame.flags & flags::ACK == 0 => frame::pong(out, frame.payload),
            FrameKind::GoAway => self.last = Some(frame.number(0)? & LAST_STREAM),
            FrameKind::WindowUpdate => {
                let more = i64::from(frame.number(0)? & LAST_STREAM);
                match frame.stream {
                    0 => self.window += more,
                    id => {
                        let at = self.find(id);
                        at.and_then(|at| self.streams.get_mut(at)).into_iter().for_each(|stream| stream.window += more);
                    }
                }
                self.send_bodies(out);
            }
            FrameKind::Push => return Err(Malformed("it pushes, which was ruled out")),
            FrameKind::Settings | FrameKind::Ping | FrameKind::Other => {}
        }
        Ok(())
    }

    /// Applies the server's settings.
    fn agree(&mut self, frame: &Frame<'_>) -> Result<(), Malformed> {
        // If the server does not set it, there is no limit (section 6.5.2).
        self.most.get_or_insert(u32::MAX);
        for (name, value) in frame.settings()? {
            match name {
                setting::TABLE => {
                    let is_small = (value as usize) < hpack::TABLE_SIZE;
                    self.says_bare |= is_small && !self.is_bare;
                    self.is_bare |= is_small;
                }
                setting::STREAMS => self.most = Some(value),
                setting::WINDOW => {
                    let more = i64::from(value) - self.stream_window;
                    self.stream_window += more;
                    self.streams.iter_mut().for_each(|stream| stream.window += more);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn find(&self, id: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Collects fields, or a part of them.
    fn collect(&mut self, frame: &Frame<'_>, see: &mut dyn FnMut(Event)) -> Result<(), Malformed> {
        let size = frame::HEAD + frame.payload.len();
        let block = match (frame.kind, self.block.take()) {
            (FrameKind::Headers, _) if frame.flags & flags::END_HEADERS > 0 => {
                // There is nothing to assemble.
                let ends = frame.flags & flags::END_STREAM > 0;
                return self.fields(frame.stream, frame.fragment()?, size, ends, see);
            }
            (FrameKind::Headers, _) => Block {
                stream: frame.stream,
                ends: frame.flags & flags::END_STREAM > 0,
                size,
                fields: frame.fragment()?.to_vec(),
            },
            (_, Some(mut block)) if block.stream == frame.stream => {
                block.size += size;
                block.fields.extend_from_slice(frame.payload);
                block
            }
            _ => return Err(Malformed("a part of its fields belongs to nothing")),
        };
        if block.fields.len() > BLOCK_MAX {
            return Err(Malformed("its fields do not end"));
        }
        if frame.flags & flags::END_HEADERS > 0 {
            return self.fields(block.stream, &block.fields, block.size, block.ends, see);
        }
        self.block = Some(block);
        Ok(())
    }

    /// Takes the fields of a response, of an interim one, or after a body.
    fn fields(
        &mut self,
        stream: u32,
        block: &[u8],
        size: usize,
        ends: bool,
        see: &mut dyn FnMut(Event),
    ) -> Result<(), Malformed> {
        let mut status = None;
        let noted = &mut self.server;
        self.decoder.read(block, |name, value| {
            if status.is_none() && name.is(":status") {
                status = value.decoded().ok().and_then(|value| std::str::from_utf8(&value).ok()?.parse::<u16>().ok());
            } else if let Some(noted) = noted
                && name.is("server")
            {
                *noted = value.decoded().ok().map(|value| String::from_utf8_lossy(&value).into_owned());
            }
        })?;
        let Some(at) = self.find(stream) else { return Ok(()) };
        see(Event::Began(at));
        let stream = &mut self.streams[at];
        let size = size as u64;
        match (&mut stream.response, status) {
            (Some(response), None) if ends => response.framing += size,
            (Some(_), _) => return Err(Malformed("fields after its body do not end it")),
            (None, Some(100..200)) if !ends => stream.interim += size,
            (None, Some(status @ 200..1000)) => {
                let head = size + std::mem::take(&mut stream.interim);
                let response = Response { status, head, body: 0, framing: 0, keeps: true, is_expected: true };
                stream.response = Some(response);
            }
            (None, _) => return Err(Malformed("it has no status")),
        }
        if ends {
            self.finish(at, see);
        }
        Ok(())
    }

    fn begin_content(
        &mut self,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
        see: &mut dyn FnMut(Event),
    ) -> Result<(), Malformed> {
        let (content, padding) = frame.content()?;
        let length = frame.length as u32;
        self.credit += length;
        if self.credit > CREDIT {
            frame::window_update(out, 0, std::mem::take(&mut self.credit));
        }
        if let Some(stream) = self.find(frame.stream).and_then(|at| self.streams.get_mut(at)) {
            let response = stream.response.as_mut().ok_or(Malformed("its body comes before its fields"))?;
            response.framing += (frame::HEAD + frame.length - content) as u64;
            stream.credit += length;
            if stream.credit > CREDIT {
                frame::window_update(out, stream.id, std::mem::take(&mut stream.credit));
            }
        }
        let ends = frame.flags & flags::END_STREAM > 0;
        self.content(Data { stream: frame.stream, content, padding, ends }, &[], see);
        Ok(())
    }

    /// Takes a piece of content. Returns how many of the bytes belong to it.
    fn content(&mut self, mut data: Data, bytes: &[u8], see: &mut dyn FnMut(Event)) -> usize {
        let content = &bytes[..data.content.min(bytes.len())];
        let padding = data.padding.min(bytes.len() - content.len());
        let at = self.find(data.stream);
        if let Some(response) = at.and_then(|at| self.streams[at].response.as_mut()) {
            response.content(content, self.expected.as_deref());
        }
        data.content -= content.len();
        data.padding -= padding;
        let taken = content.len() + padding;
        if data.content + data.padding > 0 {
            self.data = Some(data);
        } else if let (true, Some(at)) = (data.ends, at) {
            self.finish(at, see);
        }
        taken
    }

    fn finish(&mut self, at: usize, see: &mut dyn FnMut(Event)) {
        let Some(Stream { response: Some(mut response), .. }) = self.streams.remove(at) else { return };
        response.end(self.expected.as_deref());
        see(Event::Answered(at, response));
    }
}

#[cfg(test)]
mod tests;
