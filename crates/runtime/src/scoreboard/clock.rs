//! Times in the scoreboard: microseconds.

use std::time::{Duration, SystemTime};

/// How long ago a time of a [`Snapshot`](super::Snapshot) was.
pub fn since(then: u64) -> Duration {
    Duration::from_micros(micros(sys::time::realtime()).saturating_sub(then))
}

/// Microseconds since 1970, up to 4 ms late.
pub(super) fn now() -> u64 {
    micros(sys::time::realtime_coarse())
}

/// Microseconds since 1970 of a time.
pub(super) fn micros_at(time: SystemTime) -> u64 {
    micros(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
