//! Deadlines of tasks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use super::Shared;

/// All deadlines of a loop, the next one first; two at the same moment differ in their numbers.
#[derive(Debug)]
pub(super) struct Timers {
    /// The moment from which times are counted, in nanoseconds.
    base: Instant,
    set: Mutex<Set>,
    /// All deadlines up to this one have passed, and their tasks were woken.
    passed: AtomicU64,
}

#[derive(Debug, Default)]
struct Set {
    wakers: BTreeMap<Key, Waker>,
    last: u64,
}

/// Nanoseconds, and a number.
type Key = (u64, u64);

impl Timers {
    pub(super) fn new() -> Timers {
        Timers { base: Instant::now(), set: Mutex::default(), passed: AtomicU64::new(0) }
    }

    fn set(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.base).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The time to the next deadline in nanoseconds, if there is any. Adds the wakers of passed deadlines to `woken`.
    pub(super) fn next(&self, woken: &mut Vec<Waker>) -> Option<u64> {
        let mut set = self.set();
        set.wakers.first_key_value()?;
        let now = self.nanoseconds(Instant::now());
        while let Some(first) = set.wakers.first_entry() {
            let at = first.key().0;
            if at > now {
                return Some(at - now);
            }
            woken.push(first.remove());
            self.passed.store(now, Ordering::Release);
        }
        None
    }
}

/// A deadline that wakes a task, unless this is dropped first.
#[derive(Debug)]
pub struct Alarm {
    shared: Arc<Shared>,
    key: Key,
}

impl Alarm {
    /// Wakes a task at a moment, or soon after. Call it only where an event loop [is present](super::is_present).
    ///
    /// # Panics
    /// Anywhere else: nobody would wake the task.
    pub fn new(at: Instant, waker: &Waker) -> Alarm {
        let shared = super::present().expect("what waits is polled by an event loop, or by block_on");
        let key = shared.set_timer(at, waker);
        Alarm { shared, key }
    }

    /// Wakes a task at another moment instead.
    pub fn set(&mut self, at: Instant, waker: &Waker) {
        self.cancel();
        self.key = self.shared.set_timer(at, waker);
    }

    /// Whether it will still wake its task, at `deadline` at the latest.
    pub fn rings_by(&self, deadline: Instant) -> bool {
        let timers = &self.shared.timers;
        self.key.0 <= timers.nanoseconds(deadline) && self.key.0 > timers.passed.load(Ordering::Acquire)
    }

    fn cancel(&self) {
        let before = self.shared.timers.set().wakers.remove(&self.key);
        drop(before);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Shared {
    fn set_timer(&self, at: Instant, waker: &Waker) -> Key {
        let (key, first) = {
            let mut set = self.timers.set();
            set.last += 1;
            let key = (self.timers.nanoseconds(at), set.last);
            set.wakers.insert(key, waker.clone());
            (key, set.wakers.first_key_value().is_some_and(|(first, _)| *first == key))
        };
        // The loop may be asleep until the deadline that used to be the first.
        if first && !self.is_here() {
            self.inbox.wake();
        }
        key
    }
}
