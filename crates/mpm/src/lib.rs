//! Multi-processing modules: they decide which processes there are, and which of them polls a connection.
//!
//! One parent, the [supervisor], is the same for all modules: single-threaded for its whole life, it never reads a byte
//! from a client; it starts children, reaps them, follows signals, and lets the [policy] decide how many there should
//! be. Each module decides what a child does: [prefork] serves one connection at a time, [percore] many in one event
//! loop, [worker] one in each thread; in [event] the threads serve requests, and connections that only wait are
//! [parked] with the [listener]. A module is a file that implements [`Mpm`](mpm::Mpm): its table of directives, its plan (how
//! many children), and the life of a child.
//!
//! The binary takes three steps: [`choose`](fn@choose) one of the loaded modules, [`Listeners::open`], [`run`].

#![forbid(unsafe_code)]

mod about;
mod accept;
mod birth;
mod callbacks;
mod child;
mod choose;
pub mod control;
mod defaults;
mod event;
mod generation;
pub mod listen;
mod listener;
mod mpm;
mod parked;
mod percore;
pub mod pidfile;
mod plan;
mod policy;
mod prefork;
mod recycle_policy;
pub mod settings;
mod stages;
mod supervisor;
pub mod tables;
mod thread_pool;
mod worker;

pub use about::{About, Invocation, UPGRADE_MAX};
pub use callbacks::{ParentCallbacks, Restart, Stall};
pub use choose::{Chosen, choose};
pub use generation::Generation;
pub use listen::{Listeners, OpenError};
pub use plan::explain::{DirectiveValue, Explained};
pub use plan::{Fixed, HardLimits, Plan, Spare, When};
pub use supervisor::run;
