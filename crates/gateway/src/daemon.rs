//! Daemons that start scripts for the children (`mod_cgid`): small separate processes with neither a child's memory nor
//! its threads, which survive a child's death.
//!
//! A child connects to the socket that all daemons of a generation accept from ([`Socket`]), sends the script's command
//! with the ends of its pipes, and keeps the connection as long as the script runs: over it the child learns that the
//! script was started and how it ended, and may tell the daemon to end it. A broken connection means that nobody wants
//! the script any more. After the script's end the connection may carry another one. An idle daemon serves the next
//! connection ([`serve`](fn@serve)).

mod serve;
mod users;

pub use serve::serve;
pub(crate) use users::NotStarted;
pub use users::{OwnedProgram, Users};

pub use crate::process::{Socket, set_address};
