//! Ticks of an event loop: what the system was asked once in a tick need not be asked again in it.
//!
//! A tick begins when a thread goes to wait for events, and what these events announce was sent before it returned.
//! Whatever the system says of a file after that is at least as new. So requests that an event loop announced in the same
//! tick may share one look at a file, and still each sees the file as it was when the request was sent, or newer. Only a
//! head of which the end was still on its way when its beginning was announced may see an older one: the look itself
//! holds for [`HOLDS`] at most. A request that was found without an announcement (the first one of a connection, one that
//! came in behind another) begins a look of its own.
//!
//! Every tick of every thread has a number of its own. A request carries that of the tick that announced it, and the
//! thread that serves it takes it over for its looks ([`resume`]): so a look bears the number of a tick only if it came
//! after that tick's announcements, whichever thread it is that looks.
//!
//! Where a task lets the reactor look for events without the thread waiting ([`pass`]), other tasks may run before the
//! reactor does: until the thread waits again, there is no tick, and nothing is shared.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a look at a file holds, whatever else is to be done in the same tick.
const HOLDS: Duration = Duration::from_millis(1);

/// The last number given to a tick.
static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The tick whose requests this thread serves.
    static PRESENT: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
}

/// A new tick of this thread begins: called before it waits.
pub(crate) fn next() {
    PRESENT.set(NonZeroU64::new(LAST.fetch_add(1, Ordering::Relaxed) + 1));
}

/// There is no tick in this thread until it waits again: the reactor is going to look for events before that.
pub(crate) fn none() {
    PRESENT.set(None);
}

/// The present tick of this thread, if there is one.
pub(crate) fn present() -> Option<NonZeroU64> {
    PRESENT.get()
}

/// Nanoseconds on a clock of this process.
fn nanoseconds(at: Instant) -> u64 {
    static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(at.saturating_duration_since(*BASE).as_nanos()).unwrap_or(u64::MAX)
}

/// This thread serves a request that was announced in a tick: in its present one, or in one of another thread.
pub(crate) fn resume(tick: NonZeroU64) {
    PRESENT.set(Some(tick));
}

/// When the system was last asked for something, so that requests may share the answer.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// The tick in which it was asked; 0: none.
    tick: AtomicU64,
    /// When that was, in nanoseconds of this process's clock.
    at: AtomicU64,
}

impl Look {
    /// Whether the system was asked in the tick that announced a request, and not long before its `start`.
    pub(crate) fn holds(&self, tick: Option<NonZeroU64>, start: Instant) -> bool {
        let Some(tick) = tick else { return false };
        let age = nanoseconds(start).saturating_sub(self.at.load(Ordering::Relaxed));
        self.tick.load(Ordering::Acquire) == tick.get() && u128::from(age) <= HOLDS.as_nanos()
    }

    /// The system is asked now.
    pub(crate) fn renew(&self, now: Instant) {
        self.at.store(nanoseconds(now), Ordering::Relaxed);
        self.tick.store(present().map_or(0, NonZeroU64::get), Ordering::Release);
    }
}

/// Lets the other tasks have their turn, and those that wait for events too: whoever wakes itself only lets those go first
/// that are ready already.
pub async fn pass() {
    none();
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
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn many_share_a_slice() {
        for (shared, micros) in [(0, 1000), (1, 1000), (4, 250), (20, 50), (5000, 50)] {
            assert_eq!(slice(shared), Duration::from_micros(micros), "{shared}");
        }
    }

    #[test]
    fn looks_hold_for_the_requests_of_their_tick() {
        let (look, now) = (Look::default(), Instant::now());
        next();
        let tick = present();
        assert!(tick.is_some() && !look.holds(tick, now));
        look.renew(now);
        assert!(look.holds(tick, now));
        assert!(!look.holds(None, now), "a request that nobody announced");
        assert!(!look.holds(tick, now + 2 * HOLDS), "a head that was long on its way");
        next();
        assert!(!look.holds(present(), now), "another tick");

        // What was ready before may look before the reactor does.
        let _ = pin!(pass()).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(present(), None);
        look.renew(now);
        assert!(!look.holds(present(), now) && !look.holds(tick, now));
    }
}
