//! The interface between an MPM and the server, and nothing more.
//!
//! The server is a [`Service`]: it makes a [`Connection`] from an accepted socket. An MPM decides which process and
//! which thread polls the stages of that connection; it never sees HTTP. Both write to one [`scoreboard`] and one
//! [`log`].

#![forbid(unsafe_code)]

mod accept;
mod awaited;
mod coop;
pub mod executor;
mod helper_process;
mod lifetime;
pub mod log;
pub mod log_levels;
mod offload;
pub mod recent;
pub mod scoreboard;
mod stage;
pub mod tick;

pub use accept::AcceptFilters;
pub use awaited::Awaited;
pub use coop::CoopBudget;
pub use helper_process::{HelperMain, HelperProcess};
pub use lifetime::BumpyLife;
pub use offload::{Load, STACK, offload, offload_apart};
pub use stage::{
    Accepted, Connection, Service, Stage, Stepping, Tidying, briefly, drain, draining, is_worker_released,
    needs_worker, release_worker,
};
pub use tick::yield_now;
