//! Daemons that start scripts for the children (`mod_cgid`): small separate processes with neither a child's memory nor
//! its threads, which survive a child's death.
//!
//! A child connects to the socket that all daemons of a generation accept from ([`socket`]), sends the script's command
//! with the ends of its pipes, and keeps the connection as long as the script runs ([`remote`]): over it the child
//! learns that the script was started and how it ended, and may tell the daemon to end it ([`wire`]). A broken
//! connection means that nobody wants the script any more. An idle daemon serves the next connection ([`serve`]).

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
