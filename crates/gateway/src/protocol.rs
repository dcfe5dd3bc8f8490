//! The messages to and from a backend over a stream, without I/O.
//!
//! | protocol | a request | a response |
//! |---|---|---|
//! | FastCGI ([`fastcgi`]) | records | records |
//! | the protocol of runtimes ([`script_runtime`]) | frames | frames |
//! | SCGI, uwsgi ([`plain`]) | a head, then the body as it is | the script's output as it is, to the end of the connection |

pub mod fastcgi;
mod frames;
mod framing;
#[cfg(fuzzing)]
pub mod fuzzing;
mod header;
mod message;
pub mod plain;
pub mod script_runtime;

pub(crate) use frames::Frames;
pub use framing::Protocol;
pub(crate) use message::{End, Messages};
