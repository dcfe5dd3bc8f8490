//! How far a wake-up of a task has come: who has it, and whether it is to be polled again.

use super::sync::{AtomicU8, Ordering};

/// Nobody has the task; a wake-up makes it ready.
const ASLEEP: u8 = 0;
/// It is in the list of those that are polled next.
const READY: u8 = 1;
/// Somebody has it, and polls it.
const HELD: u8 = 2;
/// The same, and it was woken meanwhile.
const WOKEN: u8 = 3;

/// Every change reads what was before it, so that each side sees what the other has done.
///
/// A task is in the list once at most, and no wake-up is lost: one that comes while somebody has the task is found when that
/// one leaves it.
#[derive(Debug)]
pub struct Turn(AtomicU8);

impl Turn {
    /// Of a task that is in the list.
    pub fn ready() -> Turn {
        Turn(AtomicU8::new(READY))
    }

    /// Somebody takes the task, or polls it anew: what woke it before does not count any more.
    pub fn hold(&self) {
        self.0.swap(HELD, Ordering::AcqRel);
    }

    /// Who has the task leaves it. `false`: it was woken meanwhile, and has to be [called](Turn::call).
    #[must_use]
    pub fn rest(&self) -> bool {
        self.0.compare_exchange(HELD, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Who has the task is about to put it into the list.
    pub fn call(&self) {
        self.0.swap(READY, Ordering::AcqRel);
    }

    /// Something has happened to the task. `true`: it has to be put into the list.
    #[must_use]
    pub fn wake(&self) -> bool {
        let woken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |turn| match turn {
            ASLEEP => Some(READY),
            HELD => Some(WOKEN),
            // Written all the same: it is only by this that the one who takes the task next sees what has happened.
            same => Some(same),
        });
        woken == Ok(ASLEEP)
    }
}
