//! Servers that tell each other how busy they are.

pub(crate) mod heartbeats;
pub mod mod_agent;
pub mod mod_heartbeat;
pub mod mod_heartmonitor;
