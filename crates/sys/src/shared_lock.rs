//! A lock in memory that processes share. It survives the death of a process that holds it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::process::{self, Pid};

/// How often to try a lock before checking its holder, how long to wait after that, and how often: the holder may
/// merely have been stopped.
const TRIES: u32 = 2000;
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES: u32 = 100;

/// A lock that this process holds until the value is dropped. Hold it for a few instructions only: others spin
/// meanwhile.
#[derive(Debug)]
pub struct Held<'a> {
    word: &'a AtomicU64,
    /// The previous holder died with the lock: the protected data is as that process left it.
    pub inherited: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.word.store(0, Release);
    }
}

/// Takes the lock in a word; 0: nobody has it. `None`: its holder does not let go of it.
pub fn lock(word: &AtomicU64) -> Option<Held<'_>> {
    let own = own();
    for pause in 0..PAUSES {
        for attempt in 0..TRIES {
            if word.compare_exchange_weak(0, own, Acquire, Relaxed).is_ok() {
                return Some(Held { word, inherited: false });
            }
            if attempt < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let holder = word.load(Relaxed);
        if holder != 0 && !is_there(holder) && word.compare_exchange(holder, own, AcqRel, Relaxed).is_ok() {
            return Some(Held { word, inherited: true });
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

/// The bits of a word for the number of a process: enough for any number (`PID_MAX_LIMIT`).
pub const NUMBER_BITS: u32 = 22;

/// Identifies this process, so that others can find out whether it is alive: its number, and its start in the bits
/// above.
pub fn own() -> u64 {
    static STARTED: Mutex<(u64, u64)> = Mutex::new((0, 0));
    let number = u64::from(Pid::own().number().unsigned_abs());
    let mut known = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    // A child is not the process it was forked from.
    if known.0 != number {
        *known = (number, process::started(Pid::own()).ok().flatten().unwrap_or(0));
    }
    number | known.1 << NUMBER_BITS
}

/// Whether there is a process with the number in a word of [`own`], which is enough to know for the parent of such processes.
pub fn exists(word: u64) -> bool {
    pid(word).is_some_and(Pid::exists)
}

/// Whether the process that a word of [`own`] stands for is alive. Another process with the same number does not count.
pub fn is_there(word: u64) -> bool {
    let at = word >> NUMBER_BITS;
    let Some(pid) = pid(word).filter(|pid| pid.exists()) else { return false };
    match process::started(pid) {
        Ok(started) => started.is_some_and(|started| started == at || at == 0),
        // The system does not show the start.
        Err(_) => pid.exists(),
    }
}

fn pid(word: u64) -> Option<Pid> {
    i32::try_from(word & ((1 << NUMBER_BITS) - 1)).ok().and_then(Pid::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_the_dead_is_inherited() {
        let word = AtomicU64::new(0);
        let held = lock(&word).expect("free");
        assert!(!held.inherited && is_there(word.load(Relaxed)));
        drop(held);
        assert_eq!(word.load(Relaxed), 0);
        // The same number, started at another time.
        word.store(own() + (1 << NUMBER_BITS), Relaxed);
        assert!(lock(&word).expect("its holder is gone").inherited);
    }
}
