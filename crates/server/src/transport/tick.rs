//! Turns of an event loop: what the system was asked once in a turn need not be asked again in it.
//!
//! A turn begins when a thread goes to wait for events, and what these events announce was sent before it returned.
//! Whatever the system says of a file after that is at least as new. So requests that an event loop announced in the same
//! turn may share one look at a file, and still each sees the file as it was when the request was sent, or newer. Only a
//! head of which the end was still on its way when its beginning was announced may see an older one: the look itself
//! holds for [`HOLDS`] at most. A request that was found without an announcement (the first one of a connection, one that
//! came in behind another) begins a look of its own.
//!
//! Every turn of every thread has a number of its own. A request carries that of the turn that announced it, and the
//! thread that serves it takes it over for its looks ([`resume`]): so a look bears the number of a turn only if it came
//! after that turn's announcements, whichever thread it is that looks.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a look at a file holds, whatever else is to be done in the same turn.
pub(crate) const HOLDS: Duration = Duration::from_millis(1);

/// The last number given to a turn.
static LAST: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The turn whose requests this thread serves; the first one announces none.
    static PRESENT: Cell<u64> = const { Cell::new(1) };
}

/// A new turn of this thread begins: called before it waits, and before a task lets the reactor look for events.
pub(crate) fn next() {
    PRESENT.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
}

/// The present turn of this thread.
pub(crate) fn present() -> u64 {
    PRESENT.get()
}

/// Nanoseconds on a clock of this process.
pub(crate) fn nanoseconds(at: Instant) -> u64 {
    static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(at.saturating_duration_since(*BASE).as_nanos()).unwrap_or(u64::MAX)
}

/// This thread serves a request that was announced in a turn: in its present one, or in one of another thread.
pub(crate) fn resume(turn: u64) {
    PRESENT.set(turn);
}

/// Lets the other tasks have their turn, and those that wait for events too: whoever wakes itself only lets those go first
/// that are ready already.
pub async fn pass() {
    next();
    seam::executor::yield_now().await;
}

/// How long all that works without waiting may work together, before other connections have their turn.
const SLICE: Duration = Duration::from_millis(1);
/// The shortest slice: to pass the turn on is a system call.
const SLICE_MIN: Duration = Duration::from_micros(50);

/// How many there are that share a slice in this process.
static SHARED: AtomicU32 = AtomicU32::new(0);

/// Long work, cut into slices between which others have their turn. The more there is of it, the shorter they are: who
/// waits for a turn waits for one slice of each.
#[derive(Debug)]
pub struct Slices {
    since: Instant,
}

impl Slices {
    /// The first slice begins.
    #[allow(clippy::new_without_default, reason = "it depends on when it is called")]
    pub fn new() -> Slices {
        SHARED.fetch_add(1, Ordering::Relaxed);
        Slices { since: Instant::now() }
    }

    /// To be called between small steps: passes the turn on where the slice is over.
    pub async fn step(&mut self) {
        if self.since.elapsed() > slice(SHARED.load(Ordering::Relaxed)) {
            pass().await;
            self.since = Instant::now();
        }
    }
}

impl Drop for Slices {
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
