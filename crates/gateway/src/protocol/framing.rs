//! The protocols of backends, and how each of them frames the body of a request.

use super::{fastcgi, script_runtime};

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

    /// Whether the end of the connection is the end of the response.
    pub(crate) fn ends_with_connection(self) -> bool {
        self == Protocol::Plain
    }
}
