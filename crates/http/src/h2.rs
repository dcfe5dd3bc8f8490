//! HTTP/2 (RFC 9113) without I/O: frames, compressed heads, streams and their windows.
//!
//! [`Connection`] is the server's end of a connection. It is given received bytes and says what they mean to a server: a
//! request, a piece of a body, a reset. What it sends, answers to settings and pings as well as responses, it appends to one
//! buffer of bytes, which its owner sends. [`client::Connection`] is the other end, in the same manner. It waits for nothing and knows no time, except that
//! [floods](flood) are measured in frames a second.

pub mod client;
mod connection;
mod fault;
mod fields;
mod flood;
pub mod frame;
mod head_writer;
pub mod hpack;
mod streams;
mod window;

pub use connection::{Broken, Config, Connection, Event, Gone};
pub use fields::{FieldList, Malformed};
pub use frame::{PREFACE, Reason};
pub use head_writer::{HeadWriter, concerns_http1};
pub use streams::At;
