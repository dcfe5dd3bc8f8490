//! The client half of the server: connections to servers behind this one, and HTTP/1.1 over them.
//!
//! [`connect()`] makes a connection, [`pool`] keeps it for a later request, and a [`Stream`] reads and writes over it.
//! [`http1`] is one request and its response in HTTP/1.1. Nothing here knows which module has a request to pass on, or
//! what it makes of the response.

#![forbid(unsafe_code)]

pub mod connect;
pub mod http1;
pub mod pool;
mod remote;
mod stream;

pub use connect::connect;
pub use remote::{Address, Keep, RemoteServer};
pub use stream::{Stream, is_quiet};
