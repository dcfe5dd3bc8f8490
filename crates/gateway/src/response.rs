//! The response of a script (RFC 3875 section 6), and the server's own that is made from it.
//!
//! A script writes a header and a body. [`Parser`] reads the header, [`apply`] copies its fields into the server's
//! response, and [`relay()`] is the whole way, whatever ran the script.

mod fields;
mod header;
mod relay;

pub(crate) use fields::complain_to_client;
pub use fields::{apply, media_type, shown};
pub use header::{FIELDS_MAX, Fault, HEADER_MAX, LINE_MAX, Parser, ResponseHeader};
pub(crate) use relay::{read_header, relay, send, stream, turn_away};
