//! Deadlines of tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::shared::{Shared, present};
use super::timers::Key;
use crate::time::Instant;

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
        let shared = present().expect("what waits is polled by an event loop, or by block_on");
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
        self.key.0 <= deadline && self.key.0.nanoseconds() > timers.passed.load(Ordering::Acquire)
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
            let key = (at, set.last);
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
