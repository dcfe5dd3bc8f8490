//! The processes of scripts: started here or by a daemon, and ended for certain.
//!
//! A script is started ([`spawn`]) as a child of this process, or of a daemon at the other end of a [`socket`]. Over
//! that connection, which lasts as long as the script does, the child sends the script's command ([`daemon_messages`])
//! and learns how the script ended ([`daemon_script`]). Either way the script is a [`ScriptProcess`], and a
//! [`ProcessGuard`] makes sure that it ends. A thread waits for those that take longer to end ([`reaper`]).

pub(crate) mod daemon_messages;
mod daemon_script;
mod ending;
pub(crate) mod pipe;
mod progress;
pub(crate) mod reaper;
mod script_process;
mod socket;
pub(crate) mod spawn;

pub use ending::end_all;
pub(crate) use ending::{ProcessGuard, is_ending};
pub(crate) use script_process::{Permitted, ScriptProcess};
pub use socket::{Socket, set_address};
