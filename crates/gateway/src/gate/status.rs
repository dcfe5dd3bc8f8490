//! What the gate tells of itself as a whole, for pages and programs.

use super::GATE;
use super::admit::{READ_RELAXED, free};
use super::policy::UNLIMITED;
use super::table::{EntryState, ScriptStats};

/// The gate at a moment; memory in bytes.
#[derive(Clone, Debug, Default)]
pub struct GateStatus {
    /// Scripts that run.
    pub running: u64,
    /// Requests that wait for their turn.
    pub waiting: u64,
    /// Runs that have ended since the server started.
    pub runs: u64,
    /// Those of them that did not end well, or could not be started.
    pub failures: u64,
    /// Requests that were refused a run.
    pub refused: u64,
    /// What the machine, or the server's control group, has left.
    pub available: u64,
    /// What it has in all.
    pub total: u64,
    /// What running scripts have, or are expected to need.
    pub reserved: u64,
    /// What all scripts together may have; `None`: as much as they like.
    pub limit: Option<u64>,
    /// What is known of each script.
    pub scripts: Vec<ScriptStats>,
}

/// What is known of all scripts; nothing where there is no gate.
pub fn scripts() -> Vec<ScriptStats> {
    status().unwrap_or_default().scripts
}

/// The gate as it is now; `None`: there is none, or it cannot be had.
pub fn status() -> Option<GateStatus> {
    let gate = GATE.get()?;
    let memory = gate.memory(READ_RELAXED);
    let locked = gate.table.lock()?;
    // Nobody else takes notice of those that ended with their child, as long as nobody waits.
    locked.sweep();
    let (_, running) = locked.guests(EntryState::Running);
    let have = running.iter().map(|guest| guest.has).sum();
    let [runs, failures, refused] = locked.totals();
    Some(GateStatus {
        running: running.len() as u64,
        waiting: locked.waiting() as u64,
        runs,
        failures,
        refused,
        available: memory.available,
        total: memory.total,
        reserved: running.iter().map(|guest| guest.has.max(guest.needs)).sum(),
        limit: match free(locked.allowance(), memory, &running) {
            UNLIMITED => None,
            free => Some(free.saturating_add(have)),
        },
        scripts: locked.scripts(),
    })
}

/// Whether there is memory for one more process that a backend makes. Without a gate there is.
pub(crate) fn has_room() -> bool {
    let Some(gate) = GATE.get() else { return true };
    let memory = gate.memory(READ_RELAXED);
    let Some(locked) = gate.table.lock() else { return false };
    free(locked.allowance(), memory, &locked.guests(EntryState::Running).1) > 0
}
