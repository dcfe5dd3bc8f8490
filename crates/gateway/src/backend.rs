//! Backends: script processes that outlive a request.
//!
//! The backends of one [`Class`] form a pool. A separate process, the process manager ([`manager`]), owns all pools of
//! a configuration: it starts backends through the [gate](crate::gate), keeps them, and ends them. A child asks it for
//! a backend and gets a lease of one, with a connection to it ([`lease`]). The requests of a child wait in line, and
//! leases go from one to the next; the manager shares the backends among the children. A pure function decides about a
//! pool ([`policy`]).

mod authorize;
mod call;
mod class;
mod exchange;
mod filter;
mod lease;
mod lease_state;
mod manager;
mod manager_messages;
mod perl_bundle;
mod policy;
mod pool;
mod python_bundle;
mod reason;
pub mod remote;
mod ruby_bundle;
mod run;
mod share;
pub mod stats;
mod throttle;
mod tunnel;

pub use authorize::{AUTHORIZER, Verdict, authorize, authorize_at};
pub use call::{Head, RuntimeCall, StderrMessages};
pub use class::{Class, Concurrency, EncodedClass, PoolSettings, Program, Runtime, Score};
pub use filter::FilterData;
pub use lease::set_address;
pub use manager::{Manager, Users, serve};
pub use run::{respond, respond_over};
