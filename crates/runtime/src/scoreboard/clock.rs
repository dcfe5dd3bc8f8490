//! Times in the scoreboard: microseconds.

use std::time::Duration;

/// How long ago a time of a [`Snapshot`](super::Snapshot) was.
pub fn since(then: u64) -> Duration {
    Duration::from_micros(micros(sys::time::realtime()).saturating_sub(then))
}

/// Microseconds since 1970, up to 4 ms late.
pub(super) fn now() -> u64 {
    micros(sys::time::realtime_coarse())
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
