//! The deadlines of a loop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::time::Instant;

/// All deadlines of a loop, the next one first; two at the same moment differ in their numbers.
#[derive(Debug)]
pub(super) struct Timers {
    set: Mutex<Set>,
    /// All deadlines up to this one have passed, in nanoseconds, and their tasks were woken.
    pub(super) passed: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) wakers: BTreeMap<Key, Waker>,
    pub(super) last: u64,
}

/// A deadline, and a number.
pub(super) type Key = (Instant, u64);

impl Timers {
    pub(super) fn new() -> Timers {
        Timers { set: Mutex::default(), passed: AtomicU64::new(0) }
    }

    pub(super) fn set(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time to the next deadline, if there is any. Adds the wakers of passed deadlines to `woken`.
    pub(super) fn next(&self, woken: &mut Vec<Waker>) -> Option<Duration> {
        let mut set = self.set();
        let left = set.wakers.first_key_value()?.0.0.left();
        if !left.is_zero() {
            return Some(left);
        }
        let now = Instant::now();
        while let Some(first) = set.wakers.first_entry() {
            let (at, _) = *first.key();
            if at > now {
                return Some(at - now);
            }
            woken.push(first.remove());
            self.passed.store(now.nanoseconds(), Ordering::Release);
        }
        None
    }
}
