//! The messages to and from a backend over a stream, without I/O.
//!
//! | protocol | a request | an answer |
//! |---|---|---|
//! | FastCGI ([`fastcgi`]) | records | records |
//! | the protocol of runtimes ([`script_runtime`]) | frames | frames |
//! | SCGI, uwsgi ([`plain`]) | a head, then the body as it is | the script's output as it is, to the end of the connection |

pub mod fastcgi;
mod frames;
#[cfg(fuzzing)]
pub mod fuzzing;
mod head;
pub mod plain;
pub mod script_runtime;

use std::time::Duration;

use conf::Level;

pub(crate) use frames::Frames;

/// A protocol, after the request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// FastCGI 1.0.
    FastCgi,
    /// The protocol of runtimes (`docs/backend-protocol.md`).
    Runtime,
    /// The plain body in, the plain output out.
    Plain,
}

/// The messages of a backend.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// The part of its standard error that nobody has taken yet.
    pub(crate) errors: Vec<u8>,
    /// Other messages to log.
    pub(crate) notes: Vec<(Level, String)>,
    /// Set once the answer is complete.
    pub(crate) end: Option<End>,
}

/// The end of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// The exit status of the program that ran.
    pub(crate) status: i32,
    /// Why there is no answer, with its status.
    pub(crate) refused: Option<(u16, String)>,
    /// The server's own page for this status is wanted, if the script wrote nothing but that status.
    pub(crate) page: Option<u16>,
    /// The backend ends now, by itself.
    pub(crate) last: bool,
    /// Processor time that the request took, in user mode and in the kernel, if the backend reports it.
    pub(crate) used: Option<(Duration, Duration)>,
}

/// Why the received bytes are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rubbish(pub(crate) String);

impl Protocol {
    /// Frames a piece of the request's body, which must not be empty.
    pub(crate) fn input(self, piece: &[u8], to: &mut Vec<u8>) {
        match self {
            Protocol::FastCgi => fastcgi::input(piece, to),
            Protocol::Runtime => script_runtime::input(piece, to),
            Protocol::Plain => to.extend_from_slice(piece),
        }
    }

    /// The end of the body.
    pub(crate) fn end_of_input(self, to: &mut Vec<u8>) {
        match self {
            Protocol::FastCgi => fastcgi::end_of_input(to),
            Protocol::Runtime => script_runtime::end_of_input(to),
            Protocol::Plain => {}
        }
    }

    /// Whether the end of the connection is the end of the answer.
    pub(crate) fn ends_with_connection(self) -> bool {
        self == Protocol::Plain
    }
}
