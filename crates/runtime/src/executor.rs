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
//! - **Time.** [`sleep`], [`sleep_until`], [`timeout`], [`timeout_at`], and [`Timer`] for a deadline that moves.
//! - **Descriptors.** [`Descriptor`] reads and writes a socket or a pipe as `AsyncRead` and `AsyncWrite`, and
//!   [connects](Descriptor::connect). Below it is [`sys::watch`], which reports when a descriptor is ready.
//! - **A helper task.** [`spawn`] polls a future beside the current one, such as the connection of an HTTP client
//!   beside the request that uses it.
//! - **Wake-ups.** A waker may be called by any thread at any time, and the task is polled again.
//! - **Work that blocks.** [`offload`](crate::offload).
//! - **A worker for computation.** [`needs_worker`](crate::needs_worker), before a handler or a filter begins.
//! - **Other tasks first.** [`yield_now`].
//! - **A wait that needs no worker.** [`release_worker`](crate::release_worker).
//!
//! A future may be polled by one thread now and by another one later, though never by two at once; it has to be `Send`.
//! Expect needless polls, and a drop at any wait. It must not block: use `offload` for that.

mod descriptor;
mod task;
mod timer;

use std::future::Future;
use std::time::{Duration, Instant};

pub use descriptor::Descriptor;
pub use task::{Task, spawn};
pub use timer::Timer;

/// A deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it took too long")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(_: Elapsed) -> std::io::Error {
        std::io::ErrorKind::TimedOut.into()
    }
}

/// Waits for `time`.
pub async fn sleep(time: Duration) {
    sleep_until(Instant::now() + time).await;
}

/// Waits until `deadline`.
pub async fn sleep_until(deadline: Instant) {
    let _ = Timer::default().until(deadline, std::future::pending::<()>()).await;
}

/// Waits for `future`, but not longer than `time`.
pub async fn timeout<T>(time: Duration, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    timeout_at(Instant::now() + time, future).await
}

/// Waits for `future`, but not beyond `deadline`. A result that is ready counts even after the deadline.
pub async fn timeout_at<T>(deadline: Instant, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    Timer::default().until(deadline, future).await.ok_or(Elapsed)
}

/// Lets other ready tasks go first.
pub async fn yield_now() {
    sys::event_loop::yield_now().await;
}
