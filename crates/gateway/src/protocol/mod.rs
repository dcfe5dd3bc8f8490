//! What is said to a backend over a stream, and what it says, without I/O.
//!
//! | protocol | a request | an answer |
//! |---|---|---|
//! | FastCGI ([`fastcgi`]) | records | records |
//! | that of runtimes ([`runtime`]) | frames | frames |
//! | SCGI, uwsgi ([`plain`]) | a head, then the body as it is | the script's output as it is, to the end of the connection |

pub mod fastcgi;
mod frames;
mod head;
pub mod plain;
pub mod runtime;

use std::time::Duration;

use conf::Level;

pub(crate) use frames::Frames;

/// A protocol, once the request's head has been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// FastCGI 1.0.
    FastCgi,
    /// That of runtimes (`docs/backend-protocol.md`).
    Runtime,
    /// The body as it is in, the output as it is out.
    Plain,
}

/// What a backend has said.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// What it wrote to its standard error, as far as nobody took it yet.
    pub(crate) errors: Vec<u8>,
    /// What is to be logged besides.
    pub(crate) notes: Vec<(Level, String)>,
    /// That this was all of the answer.
    pub(crate) end: Option<End>,
}

/// The end of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// The exit status of what ran.
    pub(crate) status: i32,
    /// Why there is no answer, with its status.
    pub(crate) refused: Option<(u16, String)>,
    /// The server's own page for this status is wanted, if nothing was said but that status.
    pub(crate) page: Option<u16>,
    /// The backend ends now, by itself.
    pub(crate) last: bool,
    /// Processor time that the request has taken, in user mode and in the kernel, where the backend says.
    pub(crate) used: Option<(Duration, Duration)>,
}

/// Why what came cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rubbish(pub(crate) String);

impl Protocol {
    /// Frames a piece of the request's body, which is not empty.
    pub(crate) fn input(self, piece: &[u8], to: &mut Vec<u8>) {
        match self {
            Protocol::FastCgi => fastcgi::input(piece, to),
            Protocol::Runtime => runtime::input(piece, to),
            Protocol::Plain => to.extend_from_slice(piece),
        }
    }

    /// The end of the body.
    pub(crate) fn end_of_input(self, to: &mut Vec<u8>) {
        match self {
            Protocol::FastCgi => fastcgi::end_of_input(to),
            Protocol::Runtime => runtime::end_of_input(to),
            Protocol::Plain => {}
        }
    }

    /// Whether the end of the connection is that of the answer.
    pub(crate) fn ends_with_connection(self) -> bool {
        self == Protocol::Plain
    }
}
