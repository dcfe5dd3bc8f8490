//! The client's end of a connection, to a server behind this one.
//!
//! It is made like the [server's end](super::Connection), and trusts its peer as little: heads, settings and frames without content are
//! bounded, and nothing is accepted that two readers could read differently.

mod receive;
mod send;

use super::connection::Broken;
use super::fault::{Fault, UNRESERVED};
use super::fields::{FieldList, Verdict};
use super::flood::Meter;
use super::frame::{self, PREFACE, Reason, kind, setting};
use super::hpack::{Decoder, Encoder};
use super::streams::{At, Streams};
use super::window::{self, ReceiveWindow, SendWindow};

/// The size of the table with which heads from the server are compressed, in bytes: the initial value of
/// SETTINGS_HEADER_TABLE_SIZE, which we do not change.
const TABLE: usize = 4096;
/// How many streams that have ended a connection remembers at least: frames for them may still be on their way.
const REMEMBERED: usize = 128;

/// What a client allows its server.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many streams are open at a time, even if the server allows more.
    pub streams: u32,
    /// The window of each stream, in bytes. That of the connection is given back as soon as it is used: a stream that nobody reads
    /// holds up no other one.
    pub window: u32,
    /// The largest head, in bytes, as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
    pub header_list: u32,
}

/// What a frame means to the client.
#[derive(Debug)]
pub enum Event<'f> {
    /// Nothing that it has to act on.
    Nothing,
    /// A head, interim or final, whose fields are [`Connection::fields`].
    Head {
        /// Its stream.
        at: At,
        /// Its status.
        status: u16,
        /// It has no body.
        ends: bool,
    },
    /// A piece of a response's body, to be [consumed](Connection::consume).
    Data {
        /// Its stream.
        at: At,
        /// The piece, which may be empty.
        bytes: &'f [u8],
        /// It is the last one.
        ends: bool,
    },
    /// The fields after the body, which are [`Connection::fields`]. The response ends with them.
    Trailers(At),
    /// A stream has ended early.
    Gone(At, Gone),
    /// The server serves no streams except those that it has begun. These have ended.
    Leaves(Vec<At>),
    /// There may be more room for requests on this stream, or on all of them.
    Room(Option<At>),
}

/// Why a stream has ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The server has not processed the request at all (RFC 9113 section 8.7).
    Unprocessed,
    /// The server has reset it.
    Reset(Reason),
    /// The server has violated the protocol on it, in this way.
    Malformed(&'static str),
}

/// What a stream needs beside its owner's part.
#[derive(Default)]
struct Own<S> {
    /// The request's method is HEAD.
    to_head: bool,
    owner: S,
}

/// A head that is not complete yet.
struct Block {
    stream: u32,
    flags: u8,
}

/// The client's end of a connection, with an `S` for each stream.
pub struct Connection<S> {
    config: Config,
    /// Whether the server has sent its first settings.
    is_greeted: bool,
    /// Whether the server knows our settings.
    is_known: bool,
    decoder: Decoder<Verdict>,
    encoder: Encoder,
    streams: Streams<Own<S>>,
    /// The number of the next stream.
    next: u32,
    /// How many streams the server allows.
    allowed: u32,
    receive: ReceiveWindow,
    send: SendWindow,
    /// The window of new streams.
    initial_send: u32,
    /// The head that CONTINUATION frames continue, and its bytes so far.
    block: Option<Block>,
    fragments: Vec<u8>,
    fields: FieldList,
    meter: Meter,
    /// What the server did wrong on a stream.
    what: &'static str,
    /// The server serves no streams beyond this one.
    last: Option<u32>,
    is_over: bool,
    out: Vec<u8>,
}

impl<S: Default> Connection<S> {
    /// A connection that begins with the client preface.
    #[must_use]
    pub fn new(config: Config) -> Connection<S> {
        let mut connection = Connection {
            config,
            is_greeted: false,
            is_known: false,
            decoder: Decoder::new(TABLE),
            encoder: Encoder::new(),
            streams: Streams::new(REMEMBERED.max(2 * config.streams as usize)),
            next: 1,
            allowed: u32::MAX,
            receive: ReceiveWindow::new(window::INITIAL, window::INITIAL),
            send: SendWindow::new(window::INITIAL),
            initial_send: window::INITIAL,
            block: None,
            fragments: Vec::new(),
            fields: FieldList::default(),
            meter: Meter::new(),
            what: "",
            last: None,
            is_over: false,
            out: PREFACE.to_vec(),
        };
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, config.window),
            (setting::MAX_HEADER_LIST_SIZE, config.header_list),
        ];
        let payload = settings.map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()).concat();
        frame::put(&mut connection.out, kind::SETTINGS, 0, 0, &payload);
        connection
    }

    /// Whether a request may begin. Before the server's settings are known, only one does: others might be too many.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let most = if self.is_greeted { self.allowed.min(self.config.streams) } else { 1 };
        self.may_begin() && self.streams.open() < most && self.streams.len() < 2 * self.config.streams as usize
    }

    /// Whether requests may begin, as soon as others have ended.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        !self.is_over && self.last.is_none() && self.next <= UNRESERVED && self.allowed > 0
    }

    /// Whether the server has sent its settings.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    /// How many streams were not released.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The fields of the last head.
    #[must_use]
    pub fn fields(&self) -> &FieldList {
        &self.fields
    }

    /// What its owner keeps for a stream. `None`: it was released.
    pub fn stream(&mut self, at: At) -> Option<&mut S> {
        self.streams.get(at).map(|stream| &mut stream.owner.owner)
    }

    /// What its owner keeps for each stream.
    pub fn all(&mut self) -> impl Iterator<Item = &mut S> {
        self.streams.all().map(|stream| &mut stream.owner.owner)
    }

    /// What is to be sent.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// How much is to be sent, in bytes.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// So many bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.meter.sent(bytes);
    }

    /// Ends the connection at once, with GOAWAY.
    pub fn end(&mut self, reason: Reason) {
        if !std::mem::replace(&mut self.is_over, true) {
            // The server has opened no streams.
            let payload = [0_u32.to_be_bytes(), reason.0.to_be_bytes()].concat();
            frame::put(&mut self.out, kind::GOAWAY, 0, 0, &payload);
        }
    }

    /// Gives memory back while there are no streams.
    pub fn rest(&mut self) {
        if self.streams.len() == 0 && self.block.is_none() {
            self.streams.rest();
            self.fields = FieldList::default();
            self.fragments = Vec::new();
        }
    }

    fn put_reset(&mut self, number: u32, reason: Reason) {
        frame::put(&mut self.out, kind::RST_STREAM, 0, number, &reason.0.to_be_bytes());
    }

    fn broken(&mut self, fault: Fault) -> Broken {
        let (reason, what) = match fault {
            Fault::Connection(reason, what) => (reason, what),
            Fault::Stream(_, reason) => (reason, self.what),
        };
        self.end(reason);
        let flood = (reason == Reason::ENHANCE_YOUR_CALM).then_some(what);
        Broken { reason, what, flood }
    }
}

#[cfg(test)]
mod tests;
