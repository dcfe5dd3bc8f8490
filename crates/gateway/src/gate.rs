//! The gate: no script starts without memory for it.
//!
//! The gate knows each script by the memory that its runs needed ([`table`]). A request for a script first waits in the
//! table, which all processes of the server share. Any process that finds enough memory admits the request whose turn
//! it is ([`policy`]): a process whose request comes, leaves, or waits and checks ten times a second. [`memory`]
//! measures how much there is. Static files never come here.

mod admit;
mod entrance;
mod memory;
mod not_admitted;
mod permit;
mod policy;
mod queue_entry;
mod room;
mod rules;
mod status;
mod table;
mod wait;

pub use entrance::{enter, open};
pub(crate) use entrance::{is_short, own_processes};
pub use not_admitted::NotAdmitted;
pub use permit::Permit;
pub use rules::{Allowance, Rules};
pub(crate) use status::has_room;
pub use status::{GateStatus, scripts, status};
pub use table::ScriptStats;
