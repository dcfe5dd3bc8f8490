//! The lock of the table: it survives the death of a process that holds it.

use std::sync::atomic::Ordering::Relaxed;

use sys::process::Pid;
use sys::shared_lock::{self, Held};

use super::layout::{HeaderField, Table};

/// The table while nobody else can change it.
pub(in crate::gate) struct Locked<'a>(pub(super) &'a Table, Held<'a>);

impl Table {
    /// Takes the lock. `None`: its holder does not let go of it.
    pub(in crate::gate) fn lock(&self) -> Option<Locked<'_>> {
        let locked = Locked(self, shared_lock::lock(self.header(HeaderField::Lock))?);
        if self.header(HeaderField::Abandoned).load(Relaxed) != 0 {
            locked.take_back();
        }
        if locked.1.inherited {
            // A process killed here left single numbers, each of them whole.
            locked.recount();
        }
        Some(locked)
    }
}

pub(super) fn pid(number: u64) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::new)
}
