//! The bytes of a request on the wire, for the logs.

use std::time::Duration;

use crate::message::fields::Fields;

/// The bytes of a request on the wire.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Bytes of the body.
    pub body: u64,
    /// All bytes, head included.
    pub bytes: u64,
    /// Bytes of interim responses, a part of all bytes.
    pub interim: u64,
    /// Bytes received, head and body.
    pub received: u64,
    /// The connection broke before the response was complete.
    pub aborted: bool,
    /// The connection stays open after this response.
    pub keepalive: bool,
    /// The framing and persistence announced in the head of the response.
    pub(crate) head: Option<(Delimiter, Persist)>,
    /// Time to the first byte of the response.
    pub first_byte: Option<Duration>,
    /// Time to the last byte of the response.
    pub duration: Duration,
    /// Trailer fields of the request.
    pub trailers_in: Fields,
    /// Trailer fields of the response.
    pub trailers_out: Fields,
}

/// How the client recognises the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delimiter {
    /// By its length, or because there is none.
    Length(u64),
    /// There is no body, and its length is unknown.
    Nothing,
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
    /// The connection becomes a tunnel.
    Tunnel,
}

/// Whether the connection stays open, and the announcement of that to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Persist {
    pub(crate) keep: bool,
    /// `Keep-Alive: timeout=…, max=…`, for clients that asked.
    pub(crate) announce: Option<(u64, Option<u32>)>,
}
