//! The gate of this server, and the way of a request through it.

use std::sync::OnceLock;

use sys::process::Pid;
use sys::time::Instant;

use super::admit::Gate;
use super::not_admitted::NotAdmitted;
use super::permit::Permit;
use super::rules::{Allowance, Rules};

pub(super) static GATE: OnceLock<Gate> = OnceLock::new();

/// Makes the gate if there is none yet, and sets how much memory scripts may have from now on. For the parent, before
/// it forks.
pub fn open(allowance: Allowance) -> std::io::Result<()> {
    if GATE.get().is_none() {
        // Only one thread exists that could set it.
        let _ = GATE.set(Gate::new()?);
    }
    if let Some(gate) = GATE.get() {
        gate.table.set_allowance(allowance);
    }
    Ok(())
}

/// Waits until `script` may run on behalf of `host`, for a client that may be gone if that is `doubtful`.
pub async fn enter(
    script: &str,
    host: &str,
    rules: &Rules,
    doubtful: impl Fn() -> bool,
) -> Result<Permit, NotAdmitted> {
    let Some(gate) = GATE.get() else { return Ok(Permit::free()) };
    let came = Instant::now();
    let entry = gate.queue(script, host, rules)?;
    if !entry.is_admitted() {
        entry.wait(came + rules.timeout, rules, script, doubtful).await?;
    }
    Ok(Permit::of(entry, came))
}

/// Whether a request waits that could be admitted if other scripts ended. That does not help a request whose own script
/// already runs as often as it may.
pub(crate) fn is_short() -> bool {
    GATE.get().is_some_and(Gate::is_short)
}

/// The scripts that run on behalf of this process, except those that are about to end.
pub(crate) fn own_processes() -> Vec<Pid> {
    let locked = GATE.get().and_then(|gate| gate.table.lock());
    locked.map(|locked| locked.own_processes()).unwrap_or_default()
}
