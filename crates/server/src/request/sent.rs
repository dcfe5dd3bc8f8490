//! What went over the wire for a request: for the logs.

use std::time::Duration;

use crate::request::fields::Fields;

/// What went over the wire for a request.
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
    /// The connection broke before the answer was complete.
    pub aborted: bool,
    /// The connection stays open after this answer.
    pub keepalive: bool,
    /// What the head of the answer said of its body and of the connection.
    pub(crate) head: Option<(Delimiter, Persist)>,
    /// Until the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Until the last byte of the answer.
    pub duration: Duration,
    /// Trailer fields of the request.
    pub trailers_in: Fields,
    /// Trailer fields of the answer.
    pub trailers_out: Fields,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delimiter {
    /// By its length, or because there is none.
    Length(u64),
    /// There is no body, and nothing is known of its length.
    Nothing,
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
    /// The connection is a tunnel from then on.
    Tunnel,
}

/// Whether the connection stays open, and what the client is told about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Persist {
    pub(crate) keep: bool,
    /// `Keep-Alive: timeout=…, max=…`, for clients that asked.
    pub(crate) announce: Option<(u64, Option<u32>)>,
}
