//! The processes of scripts: started here or by a daemon, and ended for certain.
//!
//! A script is started ([`spawn`]) as a child of this process, or of a daemon at the other end of a [`socket`]. Over that
//! connection, which lasts as long as the script does, the child sends the script's command ([`wire`]) and learns how the
//! script ended ([`remote`]). Either way the script is a [`Leader`]. Its end ([`ending`]) gives back its permit; a thread
//! waits for those that take longer to end ([`reaper`]).

mod ending;
mod leader;
pub(crate) mod pipe;
mod progress;
pub(crate) mod reaper;
mod remote;
mod socket;
pub(crate) mod spawn;
pub(crate) mod wire;

pub use ending::end_all;
pub(crate) use ending::{Process, is_ending};
pub(crate) use leader::{Leader, Permitted};
pub use socket::{Socket, set_address};
