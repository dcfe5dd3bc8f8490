//! The gate: no script starts without memory for it.
//!
//! The gate knows each script by the memory that its runs needed ([`table`]). A request for a script first waits in the
//! table, which all processes of the server share. Any process that finds enough memory admits the request whose turn
//! it is ([`policy`]): a process whose request comes, leaves, or waits and checks ten times a second. [`memory`]
//! measures how much there is. Static files never come here.

mod admit;
mod memory;
mod permit;
mod policy;
mod refusal;
mod room;
mod seat;
mod status;
mod table;
mod wait;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sys::process::Pid;

use admit::Gate;

pub use permit::Permit;
pub use refusal::Refusal;
pub(crate) use status::has_room;
pub use status::{GateStatus, scripts, status};
pub use table::ScriptStats;

/// How much memory scripts may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allowance {
    /// The available memory, except for a reserve.
    #[default]
    Auto,
    /// This many bytes.
    Bytes(u64),
    /// This percentage of all memory.
    Percent(u8),
    /// Any amount: the gate is open, and only counts.
    Unlimited,
}

/// A request's configuration of the gate.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How many runs of a script there may be at once.
    pub most: Option<u64>,
    /// How many requests may wait, over the whole server.
    pub queue: usize,
    /// How many may wait and run together once requests have to wait: those hold workers, and plain files need some
    /// too.
    pub places: usize,
    /// How long a request may wait.
    pub timeout: Duration,
}

static GATE: OnceLock<Gate> = OnceLock::new();

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
pub async fn enter(script: &str, host: &str, rules: &Rules, doubtful: impl Fn() -> bool) -> Result<Permit, Refusal> {
    let Some(gate) = GATE.get() else { return Ok(Permit::free()) };
    let came = Instant::now();
    let seat = gate.queue(script, host, rules)?;
    if !seat.is_admitted() {
        seat.wait(came + rules.timeout, rules, script, doubtful).await?;
    }
    Ok(Permit::of(seat, came))
}

/// Whether somebody waits who could come in if other scripts ended. Who waits because the own script may run no more
/// often at once gains nothing by that.
pub(crate) fn is_short() -> bool {
    GATE.get().is_some_and(Gate::is_short)
}

/// The scripts that run on behalf of this process, except those that are about to end.
pub(crate) fn own_processes() -> Vec<Pid> {
    let locked = GATE.get().and_then(|gate| gate.table.lock());
    locked.map(|locked| locked.own_processes()).unwrap_or_default()
}
