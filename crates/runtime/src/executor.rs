//! The facilities for code that waits, whichever module polls it.
//!
//! | | prefork, worker | event | percore |
//! |---|---|---|---|
//! | polled by | the thread of this connection alone ([`sys::block_on`]) | a worker, or the listener | the event loop |
//! | waits in | poll(2) | the listener's [`sys::event_loop`] | [`sys::event_loop`] |
//!
//! tokio is here only for its traits, against which libraries are written; its own timers, sockets and tasks would
//! panic. The items here work under all four modules, and a lint (`clippy.toml`) keeps everybody from using anything
//! else:
//!
//! - **Time.** [`sleep`], [`sleep_until`], [`timeout`](fn@timeout), [`timeout_at`], and [`Timer`] for a deadline that moves.
//! - **Descriptors.** [`Descriptor`] reads and writes a socket or a pipe as `AsyncRead` and `AsyncWrite`, and
//!   [connects](Descriptor::connect). Below it is [`sys::watch`], which reports when a descriptor is ready.
//! - **A helper task.** [`spawn`] polls a future beside the current one, such as the connection of an HTTP client
//!   beside the request that uses it.
//! - **An errand.** [`begin_errand`] polls a future that no connection waits for, and that outlives the one that began it.
//! - **Wake-ups.** A waker may be called by any thread at any time, and the task is polled again.
//! - **Work that blocks.** [`offload`](crate::offload).
//! - **A worker for computation.** [`needs_worker`](crate::needs_worker), before a handler or a filter begins.
//! - **Other tasks first.** [`yield_now`].
//! - **A wait that needs no worker.** [`release_worker`](crate::release_worker).
//!
//! A future may be polled by one thread now and by another one later, though never by two at once; it has to be `Send`.
//! Expect needless polls, and a drop at any wait. It must not block: use `offload` for that.

mod awaited;
mod coop;
mod descriptor;
mod errand;
mod offload;
mod task;
pub mod tick;
mod timeout;
mod timer;

pub use awaited::Awaited;
pub use coop::CoopBudget;
pub use descriptor::{Descriptor, connect_local};
pub use errand::{abandon_errands, begin_errand};
pub use offload::{Load, STACK, offload, offload_apart};
pub use task::{Task, spawn, yield_now};
pub use timeout::{Elapsed, sleep, sleep_until, timeout, timeout_at};
pub use timer::Timer;
