//! The state of the gate as a whole, for pages and programs.

use super::admit::{READ_RELAXED, free};
use super::entrance::GATE;
use super::policy::UNLIMITED;
use super::table::{EntryState, ScriptStats};

/// The gate at a moment; memory in bytes.
#[derive(Clone, Debug, Default)]
pub struct GateStatus {
    /// How many scripts run.
    pub running: u64,
    /// How many requests wait at the gate.
    pub waiting: u64,
    /// Runs that have ended since the server started.
    pub runs: u64,
    /// Runs that ended badly, or could not be started.
    pub failures: u64,
    /// Requests that were refused a run.
    pub refused: u64,
    /// The free memory of the machine, or of the server's control group.
    pub available: u64,
    /// All memory of the machine, or of that group.
    pub total: u64,
    /// The memory that running scripts have, or are expected to need.
    pub reserved: u64,
    /// The limit for all scripts together; `None`: unlimited.
    pub limit: Option<u64>,
    /// The statistics of each script.
    pub scripts: Vec<ScriptStats>,
}

/// The statistics of all scripts; empty without a gate.
pub fn scripts() -> Vec<ScriptStats> {
    status().unwrap_or_default().scripts
}

/// The gate as it is now; `None`: there is none, or it is not available.
pub fn status() -> Option<GateStatus> {
    let gate = GATE.get()?;
    let memory = gate.memory(READ_RELAXED);
    let locked = gate.table.lock()?;
    // While nobody waits, only this notices those that ended with their child.
    locked.sweep();
    let (_, running) = locked.jobs(EntryState::Running);
    let have = running.iter().map(|job| job.has).sum();
    let [runs, failures, refused] = locked.totals();
    Some(GateStatus {
        running: running.len() as u64,
        waiting: locked.waiting() as u64,
        runs,
        failures,
        refused,
        available: memory.available,
        total: memory.total,
        reserved: running.iter().map(|job| job.has.max(job.needs)).sum(),
        limit: match free(locked.allowance(), memory, &running) {
            UNLIMITED => None,
            free => Some(free.saturating_add(have)),
        },
        scripts: locked.scripts(),
    })
}

/// Whether there is memory for one more process of a backend. Without a gate there is.
pub(crate) fn has_room() -> bool {
    let Some(gate) = GATE.get() else { return true };
    let memory = gate.memory(READ_RELAXED);
    let Some(locked) = gate.table.lock() else { return false };
    free(locked.allowance(), memory, &locked.jobs(EntryState::Running).1) > 0
}
