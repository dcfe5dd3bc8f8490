//! The permit to run a script, which counts as a run of it until it is given back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sys::process::{Pid, Reaped};
use sys::time::Instant;

use super::queue_entry::QueueEntry;
use super::table::Usage;

/// The permit to run a script, until it is dropped. Without a gate there is a permit for everything.
#[derive(Debug)]
pub struct Permit {
    entry: Option<QueueEntry>,
    began: Instant,
    /// Nobody waits for the script any more: that it was ended is no failure of its own.
    given_up: bool,
    /// How long the request waited for it.
    pub queued: Duration,
}

impl Permit {
    /// The permit of a request that came at this time, and has just been admitted.
    pub(super) fn of(entry: QueueEntry, came: Instant) -> Permit {
        let began = Instant::now();
        Permit { entry: Some(entry), began, given_up: false, queued: began - came }
    }

    /// A permit without a gate.
    pub fn free() -> Permit {
        Permit { entry: None, began: Instant::now(), given_up: false, queued: Duration::ZERO }
    }

    /// The place for the number of the script's process, preferably set before the script does anything: if this
    /// process of the server is killed, its entry belongs to the script as long as that runs.
    pub fn process(&self) -> Option<&AtomicU64> {
        self.entry.as_ref().map(|entry| entry.gate.table.process(entry.index))
    }

    /// Records that the script runs as this process.
    pub fn started(&self, pid: Pid) {
        if let Some(number) = self.process() {
            number.store(u64::from(pid.number().unsigned_abs()), Ordering::Relaxed);
        }
    }

    /// Records that the script, which continues, has this many bytes: others of it are assumed to need as much.
    pub fn weighed(&self, pid: Pid, has: u64) {
        if let Some(entry) = &self.entry
            && let Some(locked) = entry.gate.table.lock()
        {
            locked.weigh(entry.index, pid, has);
            locked.presume(locked.script_of(entry.index), has);
        }
    }

    /// Records that the script has closed its outputs and is about to end. Returns whether nobody has to notice that at
    /// once: nobody waits for its place (a request that comes before that checks itself), and its needs are known from
    /// earlier runs.
    pub fn note_exiting(&self) -> bool {
        self.entry.as_ref().is_none_or(|entry| {
            entry.gate.table.note_exiting(entry.index);
            entry.gate.table.waiting() == 0 && entry.gate.table.is_known(entry.index)
        })
    }

    /// The client has gone, or the server ends: the script is ended before its end.
    pub fn give_up(&mut self) {
        self.given_up = true;
    }

    /// Records that the script has ended, so its needs are known now. The system's peak includes the memory of the
    /// process that started it, which is `floor` KiB.
    pub fn ended(self, reaped: &Reaped, floor: u64) {
        let usage = Usage {
            status: reaped.status,
            given_up: self.given_up,
            peak: (reaped.max_rss > floor).then_some(reaped.max_rss * 1024),
            floor: floor * 1024,
            cpu: reaped.user + reaped.system,
            took: self.began.elapsed(),
            queued: self.queued,
        };
        if let Some(entry) = &self.entry
            && let Some(locked) = entry.gate.table.lock()
        {
            locked.learn(entry.index, usage);
        }
    }

    /// Records that the script could not be started.
    pub fn not_started(self) {
        if let Some(entry) = &self.entry
            && let Some(locked) = entry.gate.table.lock()
        {
            locked.fail(entry.index);
        }
    }
}
