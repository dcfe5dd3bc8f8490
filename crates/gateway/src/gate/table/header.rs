//! The numbers about the table as a whole: the memory as last read, how much scripts may have, and totals.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::layout::{HeaderField, Table, micros, now};
use super::lock::Locked;
use crate::gate::rules::Allowance;

impl Table {
    /// The last reading of the memory, at most this old: available and total. Without the lock.
    pub(in crate::gate) fn memory(&self, age: Duration) -> Option<(u64, u64)> {
        let load = |field| self.header(field).load(Relaxed);
        let fresh = now().saturating_sub(load(HeaderField::Read)) <= micros(age);
        (fresh && load(HeaderField::Total) > 0).then(|| (load(HeaderField::Available), load(HeaderField::Total)))
    }

    pub(in crate::gate) fn set_memory(&self, available: u64, total: u64) {
        let values = [(HeaderField::Available, available), (HeaderField::Total, total), (HeaderField::Read, now())];
        values.into_iter().for_each(|(field, value)| self.header(field).store(value, Relaxed));
    }

    /// Sets how much scripts may have. Without the lock: the parent, which calls this, must not wait for a child that
    /// it has to reap.
    pub(in crate::gate) fn set_allowance(&self, allowance: Allowance) {
        let (kind, value) = match allowance {
            Allowance::Auto => (0, 0),
            Allowance::Bytes(bytes) => (1, bytes),
            Allowance::Percent(percent) => (2, u64::from(percent)),
            Allowance::Unlimited => (3, 0),
        };
        self.header(HeaderField::Allowance).store(value << 2 | kind, Relaxed);
    }

    /// How many wait, without the lock.
    pub(in crate::gate) fn waiting(&self) -> usize {
        self.header(HeaderField::Waiting).load(Relaxed) as usize
    }
}

impl Locked<'_> {
    /// How many requests wait at the gate.
    pub(in crate::gate) fn waiting(&self) -> usize {
        self.0.header(HeaderField::Waiting).load(Relaxed) as usize
    }

    /// How many scripts run.
    pub(in crate::gate) fn running(&self) -> usize {
        self.0.header(HeaderField::Running).load(Relaxed) as usize
    }

    /// Runs, failures and refusals of all scripts since the table was made.
    pub(in crate::gate) fn totals(&self) -> [u64; 3] {
        [HeaderField::Runs, HeaderField::Failures, HeaderField::Refused].map(|field| self.0.header(field).load(Relaxed))
    }

    /// Whether periodic work of the waiting requests is due, so that only one of them does it: `HeaderField::Weighed`.
    pub(in crate::gate) fn is_due(&self, every: Duration) -> bool {
        let (now, last) = (now(), self.0.header(HeaderField::Weighed).load(Relaxed));
        let due = now.saturating_sub(last) >= micros(every);
        if due {
            self.0.header(HeaderField::Weighed).store(now, Relaxed);
        }
        due
    }

    pub(in crate::gate) fn allowance(&self) -> Allowance {
        let word = self.0.header(HeaderField::Allowance).load(Relaxed);
        match word & 3 {
            1 => Allowance::Bytes(word >> 2),
            2 => Allowance::Percent(u8::try_from(word >> 2).unwrap_or(100)),
            3 => Allowance::Unlimited,
            _ => Allowance::Auto,
        }
    }
}
