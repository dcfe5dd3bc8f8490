//! The server as an MPM sees it: what it asks of an MPM, and the stages of its connections.

mod accept;
mod helper_process;
mod lifetime;
mod stage;

pub use accept::AcceptFilters;
pub use helper_process::{HelperMain, HelperProcess};
pub use lifetime::BumpyLife;
pub use stage::{
    Accepted, Connection, NextPoller, Service, Stage, Stepping, Tidying, briefly, drain, draining, is_brief,
    needs_worker, pending_without_worker, release_worker, worker_released,
};
