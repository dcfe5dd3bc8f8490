//! Waits for a time, or for something else no longer than that.

use std::future::Future;
use std::time::Duration;

use sys::time::Instant;

use super::timer::Timer;

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
