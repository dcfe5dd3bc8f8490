//! The deadlines of a loop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

/// All deadlines of a loop, the next one first; two at the same moment differ in their numbers.
#[derive(Debug)]
pub(super) struct Timers {
    /// The moment from which times are counted, in nanoseconds.
    base: Instant,
    set: Mutex<Set>,
    /// All deadlines up to this one have passed, and their tasks were woken.
    pub(super) passed: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) wakers: BTreeMap<Key, Waker>,
    pub(super) last: u64,
}

/// Nanoseconds, and a number.
pub(super) type Key = (u64, u64);

impl Timers {
    pub(super) fn new() -> Timers {
        Timers { base: Instant::now(), set: Mutex::default(), passed: AtomicU64::new(0) }
    }

    pub(super) fn set(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn nanoseconds(&self, at: Instant) -> u64 {
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
