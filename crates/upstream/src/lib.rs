//! The client half of the server: connections to servers behind this one, and HTTP over them.
//!
//! [`connect()`] makes a connection, encrypted if the server has [`Tls`], [`pool`] keeps it for a later request, and a
//! [`Stream`] reads and writes over it.
//! [`http1`] is one request and its response in HTTP/1.1, [`ExpectedExchange`] one whose response is known but for its date and its
//! content, [`http2`] one of many that share a connection. Nothing here knows which module has a request to pass on, or
//! what it makes of the response.

#![forbid(unsafe_code)]

mod attempt;
pub mod connect;
mod connection;
mod duplex;
mod expected;
pub mod http1;
pub mod http2;
mod limit;
pub mod pool;
mod remote;
mod resting;
mod room;
mod session;
mod shared;
mod stream;
mod tally;
mod through;
mod tls;

pub use attempt::Attempt;
pub use connect::{Insecure, NoConnection, connect, connect_either_first, connect_plain, encrypt};
pub use connection::Connection;
pub use duplex::Duplex;
pub use expected::{ExpectedExchange, ExpectedHead};
pub use limit::{Limit, Permit};
pub use remote::{Address, Keep, Kind, Refuses, RemoteServer, Through, Way};
pub use room::{Memory, Room};
pub use shared::{share, tidy, waiting};
pub use stream::{Stream, is_quiet};
pub use tally::{Count, Fault, Ledger, Tally, UnderWay};
pub use tls::{PeerCheck, Tls, TlsSettings};
