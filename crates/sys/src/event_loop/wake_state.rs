//! The state of a task's wake-ups: whether a thread has the task, and whether to poll it again.

use super::sync::{AtomicU8, Ordering};

/// Nobody has the task; a wake-up makes it ready.
const ASLEEP: u8 = 0;
/// The task is in the list of those to poll next.
const READY: u8 = 1;
/// A thread has the task, and polls it.
const HELD: u8 = 2;
/// A thread has the task and polls it, and it was woken meanwhile.
const WOKEN: u8 = 3;

/// Every change reads the state before it, so that each side sees the other's changes.
///
/// A task is in the list at most once, and no wake-up is lost: one that comes while a thread has the task is found when
/// that thread leaves it.
#[derive(Debug)]
pub struct WakeState(AtomicU8);

impl WakeState {
    /// For a task that is in the list.
    pub fn ready() -> WakeState {
        WakeState(AtomicU8::new(READY))
    }

    /// A thread takes the task, or polls it again: earlier wake-ups do not count any more.
    pub fn hold(&self) {
        self.0.swap(HELD, Ordering::AcqRel);
    }

    /// The thread that has the task leaves it. `false`: it was woken meanwhile, and has to be [called](WakeState::call).
    #[must_use]
    pub fn rest(&self) -> bool {
        self.0.compare_exchange(HELD, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The thread that has the task is about to put it into the list.
    pub fn call(&self) {
        self.0.swap(READY, Ordering::AcqRel);
    }

    /// Wakes the task. `true`: it has to be put into the list.
    #[must_use]
    pub fn wake(&self) -> bool {
        let woken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
            ASLEEP => Some(READY),
            HELD => Some(WOKEN),
            // Written all the same: only this write lets the next thread to take the task see what has happened.
            same => Some(same),
        });
        woken == Ok(ASLEEP)
    }
}
