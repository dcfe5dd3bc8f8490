//! The right to run a script, which counts as a run of it until it is given back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sys::process::{Pid, Reaped};

use super::seat::Seat;
use super::table::Usage;

/// The right to run a script, until it is dropped. Without a gate it is a right that nobody had to give.
#[derive(Debug)]
pub struct Permit {
    seat: Option<Seat>,
    began: Instant,
    /// How long it was waited for.
    pub queued: Duration,
}

impl Permit {
    /// That of a request which came at this time, and has been let in now.
    pub(super) fn of(seat: Seat, came: Instant) -> Permit {
        let began = Instant::now();
        Permit { seat: Some(seat), began, queued: began - came }
    }

    /// One that nobody had to give.
    pub fn free() -> Permit {
        Permit { seat: None, began: Instant::now(), queued: Duration::ZERO }
    }

    /// Where the number of the script's process has to stand, best of all before it does anything: should this process of the
    /// server be killed, its place is the script's as long as that runs.
    pub fn process(&self) -> Option<&AtomicU64> {
        self.seat.as_ref().map(|seat| seat.gate.table.process(seat.entry))
    }

    /// The script runs as this process.
    pub fn started(&self, pid: Pid) {
        if let Some(number) = self.process() {
            number.store(u64::from(pid.number().unsigned_abs()), Ordering::Relaxed);
        }
    }

    /// The script, which goes on, has so many bytes: others of it are taken to need as much.
    pub fn weighed(&self, pid: Pid, has: u64) {
        if let Some(seat) = &self.seat
            && let Some(locked) = seat.gate.table.lock()
        {
            locked.weigh(seat.entry, pid, has);
            locked.presume(locked.script_of(seat.entry), has);
        }
    }

    /// The script has closed its outputs, and is about to end. Returns whether that need not be noticed at once: nobody waits
    /// for its place (if somebody comes before it is, they look themselves), and what it needs is known from runs before.
    pub fn leaves(&self) -> bool {
        self.seat.as_ref().is_none_or(|seat| {
            seat.gate.table.note_leaving(seat.entry);
            seat.gate.table.waiting() == 0 && seat.gate.table.is_known(seat.entry)
        })
    }

    /// The script has ended: what it needed is known now. The system counts into its peak what the process had that started
    /// it, which is `floor` KiB.
    pub fn ended(self, reaped: &Reaped, floor: u64) {
        let usage = Usage {
            status: reaped.status,
            peak: (reaped.max_rss > floor).then_some(reaped.max_rss * 1024),
            floor: floor * 1024,
            cpu: reaped.user + reaped.system,
            took: self.began.elapsed(),
            queued: self.queued,
        };
        if let Some(seat) = &self.seat
            && let Some(locked) = seat.gate.table.lock()
        {
            locked.learn(seat.entry, usage);
        }
    }

    /// The script could not be started.
    pub fn not_started(self) {
        if let Some(seat) = &self.seat
            && let Some(locked) = seat.gate.table.lock()
        {
            locked.fail(seat.entry);
        }
    }
}
