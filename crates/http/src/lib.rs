//! HTTP without I/O: values in, values out. What RFC 9110 says of every version stands at the top; [`h1`] is the text of
//! HTTP/1.1.
//!
//! The server reads bytes and passes them here; the result is either a value or an error that knows its HTTP status.
//! Nothing in this crate opens a socket, asks the clock or knows a configuration directive: limits and the current time
//! are arguments.
//!
//! Reading a request uses, in this order, [`Head::parse`] (request line and fields), [`Framing::of`] (is there a body,
//! and where does it end), [`Chunked`] (the body, when chunked) and [`decode_path`] (the requested path). Answering one
//! uses [`conditional::evaluate`], [`range::resolve`] and [`HeadWriter`].
//!
//! Where Apache httpd 2.4.71 and the RFCs agree, this crate does the same; where they differ, the module states which
//! of the two it follows, and why.

#![forbid(unsafe_code)]

pub mod accept;
mod address;
pub mod authority;
pub mod conditional;
pub mod date;
mod decimal;
mod error_page;
pub mod h1;
pub mod h2;
mod joined;
pub mod method;
pub mod name;
pub mod range;
mod scan;
pub mod status;
pub mod text;
pub mod uri;

pub use address::{address_text, write_address};
pub use authority::Authority;
pub use decimal::Decimal;
pub use error_page::{ErrorPage, NO_ADMIN, error_page, server_signature};
pub use h1::chunked::{ChunkError, Chunked};
pub use h1::framing::{Framing, Persistence};
pub use h1::head::{Head, HeadError, Limits, Parse, Version};
pub use h1::response::HeadWriter;
pub use name::{KnownField, Name};
pub use uri::{PathError, PathOptions, decode_path, normalize_path};
