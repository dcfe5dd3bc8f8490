//! The lock over the table: it outlives a process that is killed while it has it.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sys::process::Pid;

use super::{Header, Table};

/// How often a lock is tried before it is looked who has it, how long is waited then, and how often: somebody may have
/// stopped the process that has it.
const TRIES: u32 = 2000;
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES: u32 = 100;

/// The table while nobody else changes it.
pub(in crate::gate) struct Locked<'a>(pub(super) &'a Table);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.header(Header::Lock).store(0, Release);
    }
}

impl Table {
    /// Takes the lock. `None`: whoever has it does not let go of it.
    pub(in crate::gate) fn lock(&self) -> Option<Locked<'_>> {
        let lock = self.header(Header::Lock);
        let own = own();
        for pause in 0..PAUSES {
            for attempt in 0..TRIES {
                if lock.compare_exchange_weak(0, own, Acquire, Relaxed).is_ok() {
                    return Some(Locked(self));
                }
                if attempt < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
            let holder = lock.load(Relaxed);
            // Whoever was killed here has left single numbers, each of them whole.
            if holder != 0 && !is_there(holder) && lock.compare_exchange(holder, own, AcqRel, Relaxed).is_ok() {
                let locked = Locked(self);
                locked.count_waiting();
                return Some(locked);
            }
            if pause + 1 < PAUSES {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the lock is held for a few instructions, or its holder was killed or stopped"
                )]
                std::thread::sleep(PAUSE);
            }
        }
        None
    }
}

/// The bits of a word that hold the number of a process: more than any number needs (`PID_MAX_LIMIT`).
pub(super) const NUMBER_BITS: u32 = 22;

/// This process, for others to find out whether it is there: its number, and above that when it was started.
pub(super) fn own() -> u64 {
    static STARTED: Mutex<(u64, u64)> = Mutex::new((0, 0));
    let number = u64::from(Pid::own().number().unsigned_abs());
    let mut known = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    // A child is not the process it was forked from.
    if known.0 != number {
        *known = (number, sys::process::started(Pid::own()).ok().flatten().unwrap_or(0));
    }
    number | known.1 << NUMBER_BITS
}

/// Whether the process is there that a word of [`own`] stands for. Another one with its number is not meant.
pub(super) fn is_there(word: u64) -> bool {
    let (number, at) = (word & ((1 << NUMBER_BITS) - 1), word >> NUMBER_BITS);
    let Some(pid) = pid(number).filter(|pid| pid.exists()) else { return false };
    match sys::process::started(pid) {
        Ok(started) => started.is_some_and(|started| started == at || at == 0),
        // The system does not tell when.
        Err(_) => pid.exists(),
    }
}

pub(super) fn pid(number: u64) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::new)
}
