//! The server's end of a connection.

mod heads;
mod receive;
mod send;
mod settings;

use super::fault::{Fault, UNRESERVED};
use super::fields::{FieldList, Verdict};
use super::flood::Meter;
use super::frame::{self, Reason, kind};
use super::hpack::{Decoder, Encoder};
use super::streams::{At, Stream, Streams};
use super::window::{self, ReceiveWindow, SendWindow};

/// The size of the table with which heads from the client are compressed, in bytes: the initial value of
/// SETTINGS_HEADER_TABLE_SIZE, which we do not change.
const TABLE: usize = 4096;
/// How many streams that have ended a connection remembers at least: frames for them may still be on their way.
const REMEMBERED: usize = 128;
/// The payload of the PING after which the client knows that we leave.
const GOODBYE: [u8; 8] = *b"goodbye!";

/// What a server allows its clients.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many streams may be open at a time.
    pub streams: u32,
    /// The window of each stream, in bytes.
    pub window: u32,
    /// The window of the connection, in bytes; at least the initial one.
    pub connection_window: u32,
    /// The largest head, in bytes, as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
    pub header_list: u32,
    /// Whether extended CONNECT is allowed (RFC 8441).
    pub tunnels: bool,
    /// How many streams may violate the protocol; `None`: any number.
    pub faults: Option<usize>,
}

/// What a frame means to the server.
#[derive(Debug)]
pub enum Event<'f> {
    /// Nothing that it has to act on.
    Nothing,
    /// A request, whose fields are [`Connection::fields`].
    Request {
        /// Its stream.
        at: At,
        /// It has no body.
        ends: bool,
    },
    /// A piece of a request's body, to be [consumed](Connection::consume).
    Data {
        /// Its stream.
        at: At,
        /// The piece, which may be empty.
        bytes: &'f [u8],
        /// It is the last one.
        ends: bool,
    },
    /// The fields after the body, which are [`Connection::fields`]. The request ends with them.
    Trailers(At),
    /// A request's body has ended before it had its announced length. The response, whose head is sent, may go on.
    Cut(At),
    /// A stream has ended early.
    Gone(At, Gone),
    /// There may be more room for responses on this stream, or on all of them.
    Room(Option<At>),
}

/// Why a stream has ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The client has reset it.
    Reset(Reason),
    /// The client has violated the protocol on it.
    Malformed,
}

/// The other side has violated the protocol: the connection ends. GOAWAY says so, among the bytes to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The reason in GOAWAY.
    pub reason: Reason,
    /// What it did.
    pub what: &'static str,
    /// The kind of frame that it sends too many of, if that is why.
    pub flood: Option<&'static str>,
}

/// How far the end of the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// The client was told to send no more requests, but may not have heard it yet.
    Announced,
    /// Streams with higher numbers than this are not served any more.
    Last(u32),
}

/// A head that is not complete yet.
struct Block {
    stream: u32,
    flags: u8,
    /// It makes its stream depend on itself.
    is_circular: bool,
}

/// The server's end of a connection, with an `S` for each stream.
pub struct Connection<S> {
    config: Config,
    /// How much of the client preface has come, in bytes.
    preface: usize,
    /// Whether the client has sent its first settings.
    is_greeted: bool,
    /// Whether the client knows our settings.
    is_known: bool,
    decoder: Decoder<Verdict>,
    encoder: Encoder,
    streams: Streams<S>,
    receive: ReceiveWindow,
    send: SendWindow,
    /// The window of new streams.
    initial_send: u32,
    /// The head that CONTINUATION frames continue, and its bytes so far.
    block: Option<Block>,
    fragments: Vec<u8>,
    fields: FieldList,
    /// The bytes of the last head, and how often the table had changed then: the same bytes mean the same fields again.
    last_block: Vec<u8>,
    last_changes: Option<u64>,
    meter: Meter,
    faults: usize,
    leaving: Leaving,
    /// The client sends no more requests.
    client_leaves: bool,
    is_over: bool,
    out: Vec<u8>,
}

impl<S: Default> Connection<S> {
    /// A connection that begins with the client preface. `out`: an empty buffer for what it sends.
    #[must_use]
    pub fn new(config: Config, out: Vec<u8>) -> Connection<S> {
        let mut connection = Connection {
            config,
            preface: 0,
            is_greeted: false,
            is_known: false,
            decoder: Decoder::new(TABLE),
            encoder: Encoder::new(),
            streams: Streams::new(REMEMBERED.max(2 * config.streams as usize)),
            receive: ReceiveWindow::new(config.connection_window, config.connection_window.max(window::INITIAL)),
            send: SendWindow::new(window::INITIAL),
            initial_send: window::INITIAL,
            block: None,
            fragments: Vec::new(),
            fields: FieldList::default(),
            last_block: Vec::new(),
            last_changes: None,
            meter: Meter::new(),
            faults: 0,
            leaving: Leaving::No,
            client_leaves: false,
            is_over: false,
            out,
        };
        connection.greet();
        connection
    }

    /// The connection has spoken HTTP/1.1 before: its request has become stream 1, which the client has ended. `settings`: the
    /// client's, which came with the request (RFC 7540 section 3.2).
    ///
    /// # Errors
    /// The settings are not valid.
    pub fn upgraded(&mut self, settings: &[u8]) -> Result<At, Broken> {
        if let Err(fault) = self.apply(settings) {
            return Err(self.broken(fault));
        }
        self.streams.last = 1;
        Ok(self.open(1, true, None))
    }

    fn open(&mut self, number: u32, ends: bool, announced: Option<u64>) -> At {
        // Until the client knows our window, it may fill the initial one.
        let window = self.config.window;
        let left = if self.is_known { window } else { window.max(window::INITIAL) };
        self.streams.add(
            number,
            Stream {
                send: SendWindow::new(self.initial_send),
                receive: ReceiveWindow::new(window, left),
                unread: 0,
                announced: announced.filter(|_| !ends),
                receives: !ends,
                sends: true,
                is_answered: false,
                is_reset: false,
                owner: S::default(),
            },
        )
    }

    fn put_reset(&mut self, number: u32, reason: Reason) {
        frame::put(&mut self.out, kind::RST_STREAM, 0, number, &reason.0.to_be_bytes());
    }

    fn put_goaway(&mut self, last: u32, reason: Reason) {
        let payload = [last.to_be_bytes(), reason.0.to_be_bytes()].concat();
        frame::put(&mut self.out, kind::GOAWAY, 0, 0, &payload);
    }

    fn broken(&mut self, fault: Fault) -> Broken {
        let (reason, what) = match fault {
            Fault::Connection(reason, what) => (reason, what),
            Fault::Stream(_, reason) => (reason, "a stream"),
        };
        self.end(reason);
        let flood = (reason == Reason::ENHANCE_YOUR_CALM).then_some(what);
        Broken { reason, what, flood }
    }

    /// Ends the connection at once, with GOAWAY.
    pub fn end(&mut self, reason: Reason) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.put_goaway(self.streams.last, reason);
        }
    }

    /// Tells the client to send no more requests. Those that it has sent before it hears of that are served.
    pub fn leave(&mut self) {
        if self.leaving == Leaving::No && !self.is_over {
            self.leaving = Leaving::Announced;
            // The last stream is one that the client will never reach (RFC 9113 section 6.8).
            self.put_goaway(UNRESERVED, Reason::NO_ERROR);
            frame::put(&mut self.out, kind::PING, 0, 0, &GOODBYE);
        }
    }

    /// Whether one side has said that it leaves, and all streams have ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        (self.client_leaves || matches!(self.leaving, Leaving::Last(_))) && self.streams.len() == 0
    }

    /// Whether the client has sent its preface and its settings.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    /// The fields of the last head.
    #[must_use]
    pub fn fields(&self) -> &FieldList {
        &self.fields
    }

    /// What its owner keeps for a stream. `None`: it was released.
    pub fn stream(&mut self, at: At) -> Option<&mut S> {
        self.streams.get(at).map(|stream| &mut stream.owner)
    }

    /// What its owner keeps for each stream.
    pub fn streams(&mut self) -> impl Iterator<Item = &mut S> {
        self.streams.all().map(|stream| &mut stream.owner)
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

    /// Gives memory back while there are no streams.
    pub fn rest(&mut self) {
        if self.streams.len() == 0 && self.block.is_none() {
            self.streams.rest();
            self.fields = FieldList::default();
            self.last_block = Vec::new();
            self.last_changes = None;
            self.fragments = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
