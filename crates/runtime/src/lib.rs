//! The interface between an MPM and the server, and nothing more.
//!
//! The server is a [`Service`]: it makes a [`Connection`] from an accepted socket. An MPM decides which process and
//! which thread polls the stages of that connection; it never sees HTTP. Both write to one [`scoreboard`] and one
//! [`log`](mod@log).

#![forbid(unsafe_code)]

pub mod executor;
pub mod log;
pub mod log_levels;
pub mod recent;
pub mod scoreboard;
mod service;

pub use executor::tick::{self, yield_now};
pub use executor::{Awaited, CoopBudget, Load, STACK, offload, offload_apart};
pub use service::{
    AcceptFilters, Accepted, BumpyLife, Connection, HelperMain, HelperProcess, NextPoller, Service, Stage, Stepping,
    Tidying, briefly, drain, draining, is_brief, needs_worker, pending_without_worker, release_worker, worker_released,
};
