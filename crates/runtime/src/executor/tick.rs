//! Ticks of an event loop: a response of the system is shared within a tick.
//!
//! A tick begins when a thread goes to wait for events, and the announced data was sent before that wait returned. Any
//! later response of the system about a file is at least as new. So requests that an event loop announced in the same
//! tick may share one look at a file, and each still sees the file as it was when the request was sent, or newer. Only
//! a head whose end was still on its way when its beginning was announced may see an older one: the look itself holds
//! for [`HOLDS`] at most. A request without an announcement (the first one of a connection, or a pipelined one) begins
//! a look of its own.
//!
//! Every tick of every thread has a unique number. A request carries that of the tick that announced it, and the thread
//! that serves it adopts it for its looks ([`resume`]): so a look has the number of a tick only if it came after that
//! tick's announcements, whichever thread looks.
//!
//! If a task lets the reactor look for events without the thread waiting ([`yield_now`]), other tasks may run before the
//! reactor does: until the thread waits again, there is no tick, and nothing is shared.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sys::time::Instant;

/// How long a look at a file holds, however long the tick lasts.
const HOLDS: Duration = Duration::from_millis(1);

/// The last number given to a tick.
static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The tick whose requests this thread serves.
    static PRESENT: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
}

/// Begins a new tick of this thread: called before it waits.
pub fn next() {
    PRESENT.set(NonZeroU64::new(LAST.fetch_add(1, Ordering::Relaxed) + 1));
}

/// Ends the tick of this thread until it waits again: the reactor is going to look for events before that.
pub fn none() {
    PRESENT.set(None);
}

/// The current tick of this thread, if there is one.
pub fn present() -> Option<NonZeroU64> {
    PRESENT.get()
}

/// Adopts the tick that announced the request being served: this thread's current one, or another thread's.
pub fn resume(tick: NonZeroU64) {
    PRESENT.set(Some(tick));
}

/// When the system was last asked for something, so that requests may share the response.
#[derive(Debug, Default)]
pub struct Look {
    /// The tick of the question; 0: none.
    tick: AtomicU64,
    /// Its time, in nanoseconds of the monotonic clock.
    at: AtomicU64,
}

impl Look {
    /// Whether the system was asked in the tick that announced a request, and not long before its `start`.
    pub fn holds(&self, tick: Option<NonZeroU64>, start: Instant) -> bool {
        let Some(tick) = tick else { return false };
        let age = start.nanoseconds().saturating_sub(self.at.load(Ordering::Relaxed));
        self.tick.load(Ordering::Acquire) == tick.get() && u128::from(age) <= HOLDS.as_nanos()
    }

    /// Whether what was looked at is as it was. `ask` asks that, unless the response to another request of this tick also holds for
    /// the one that came at `start`.
    pub fn shares(&self, tick: Option<NonZeroU64>, start: Instant, ask: impl FnOnce() -> bool) -> bool {
        self.holds(tick, start) || {
            let is_same = ask();
            if is_same {
                self.renew(start);
            }
            is_same
        }
    }

    /// Records that the system is asked now.
    pub fn renew(&self, now: Instant) {
        self.at.store(now.nanoseconds(), Ordering::Relaxed);
        self.tick.store(present().map_or(0, NonZeroU64::get), Ordering::Release);
    }
}

/// Yields to the other tasks, including those that wait for events; a task that merely wakes itself only yields to those
/// that are already ready.
pub async fn yield_now() {
    none();
    sys::event_loop::yield_now().await;
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

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

        // Tasks that were ready before may look before the reactor does.
        let _ = pin!(yield_now()).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(present(), None);
        look.renew(now);
        assert!(!look.holds(present(), now) && !look.holds(tick, now));
    }
}
