//! Daemons that start scripts for the children (`mod_cgid`): small processes of their own, which have neither a child's
//! memory nor its threads, and live on when a child dies.
//!
//! A child connects to the socket that all daemons of a generation accept from ([`socket`]), sends the script's command
//! with the ends of its pipes, and keeps the connection as long as the script runs ([`remote`]): over it it hears that the
//! script was started and how it ended, and may tell the daemon to end it ([`wire`]). A connection that breaks off means
//! that nobody wants the script any more. The daemon that serves a connection is one that is idle ([`serve`]).

mod remote;
mod serve;
mod socket;
mod users;
pub(crate) mod wire;

pub use remote::Remote;
pub(crate) use remote::ask;
pub use serve::serve;
pub use socket::{Socket, address, set_address};
pub(crate) use users::Refused;
pub use users::Users;
