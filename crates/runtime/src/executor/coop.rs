//! Cooperation between tasks: long work yields to the others in time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sys::time::Instant;

use super::tick::yield_now;

/// How long all work without waiting may take together before it yields to other connections.
const SLICE: Duration = Duration::from_millis(1);
/// The shortest slice: yielding costs a system call.
const SLICE_MIN: Duration = Duration::from_micros(50);

/// How many share a slice in this process.
static SHARED: AtomicU32 = AtomicU32::new(0);

/// The time that long work may take before it yields. The more such work there is in the process, the shorter the slice
/// of each: a waiting task waits for one slice of each.
#[derive(Debug)]
pub struct CoopBudget {
    since: Instant,
}

impl CoopBudget {
    /// Begins the first slice.
    #[allow(clippy::new_without_default, reason = "it depends on when it is called")]
    pub fn new() -> CoopBudget {
        SHARED.fetch_add(1, Ordering::Relaxed);
        CoopBudget { since: Instant::now() }
    }

    /// Call it between small steps: it yields at the end of a slice.
    pub async fn step(&mut self) {
        if self.since.elapsed() > slice(SHARED.load(Ordering::Relaxed)) {
            yield_now().await;
            self.since = Instant::now();
        }
    }
}

impl Drop for CoopBudget {
    fn drop(&mut self) {
        SHARED.fetch_sub(1, Ordering::Relaxed);
    }
}

fn slice(shared: u32) -> Duration {
    (SLICE / shared.max(1)).max(SLICE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_share_a_slice() {
        for (shared, micros) in [(0, 1000), (1, 1000), (4, 250), (20, 50), (5000, 50)] {
            assert_eq!(slice(shared), Duration::from_micros(micros), "{shared}");
        }
    }
}
