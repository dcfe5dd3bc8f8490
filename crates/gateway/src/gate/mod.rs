//! The gate: no script is started for which there is no memory.
//!
//! Each script is known by what its runs needed ([`table`]). A request for one enters the table, which all processes of the
//! server share, as somebody who waits, and whoever finds that there is memory lets in whose turn it is ([`policy`]): the
//! one that comes, the one that leaves, or one that waits and looks ten times a second. [`memory`] says how much there is.
//! Static files never come here.

mod memory;
mod policy;
mod table;
mod wait;

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sys::process::{Pid, Reaped, Status, tree_memory};

use memory::Gauges;
use policy::{Guest, UNLIMITED};
use table::{Locked, Run, State, Table};
use wait::Bell;

pub use table::Script;

/// How old a reading of the memory may be: where nobody waits, and where somebody does.
const READ_RELAXED: Duration = Duration::from_millis(50);
const READ_EAGER: Duration = Duration::from_millis(5);
/// How often somebody who waits looks whether there is memory now, and weighs those who run.
const LOOK: Duration = Duration::from_millis(100);
/// After so long a script that has never ended is known by what it has.
const LONG: Duration = Duration::from_secs(1);
/// What is left to everybody else: a part of all memory, but not less than this many bytes.
const RESERVE: (u64, u64) = (16, 48 << 20);
/// What part of all memory a script gets that is not known.
const UNKNOWN: u64 = 4;
/// How long is waited before a request that was refused may come again, at least.
const RETRY: Duration = Duration::from_secs(1);

/// How much memory scripts may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allowance {
    /// What is there, but for a reserve.
    #[default]
    Auto,
    /// So many bytes.
    Bytes(u64),
    /// So much of all, in percent.
    Percent(u8),
    /// As much as they like: the gate is open, and only counts.
    Unlimited,
}

/// What a request's configuration says of the gate.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How many runs of a script there may be at once.
    pub most: Option<u64>,
    /// How many requests may wait, over the whole server.
    pub queue: usize,
    /// How long one may wait.
    pub timeout: Duration,
}

#[derive(Debug)]
struct Gate {
    table: Table,
    gauges: Gauges,
    /// What the names of its bells begin with.
    name: String,
}

static GATE: OnceLock<Gate> = OnceLock::new();

/// Makes the gate where there is none yet, and says how much memory scripts may have from now on. For the parent, before it
/// forks.
pub fn open(allowance: Allowance) -> std::io::Result<()> {
    if GATE.get().is_none() {
        let name = format!("tsubame-gate-{}-{:x}", Pid::own(), table::now());
        let gate = Gate { table: Table::new()?, gauges: Gauges::of_this_process(), name };
        // Only one thread is there to do it.
        let _ = GATE.set(gate);
    }
    if let Some(gate) = GATE.get() {
        gate.table.set_allowance(allowance);
    }
    Ok(())
}

/// Why a request was not let in.
#[derive(Debug)]
pub struct Refusal {
    /// What to log.
    pub reason: String,
    /// When it may be tried again.
    pub retry: Duration,
}

/// The right to run a script, until it is dropped. Without a gate it is a right that nobody had to give.
#[derive(Debug)]
pub struct Permit {
    seat: Option<Seat>,
    began: Instant,
    /// How long it was waited for.
    pub queued: Duration,
}

/// Waits until `script` may run on behalf of `host`.
pub async fn enter(script: &str, host: &str, rules: &Rules) -> Result<Permit, Refusal> {
    let Some(gate) = GATE.get() else { return Ok(Permit::free()) };
    let came = Instant::now();
    let seat = gate.queue(script, host, rules)?;
    if !seat.is_let_in() {
        seat.wait(came + rules.timeout, rules, script).await?;
    }
    let began = Instant::now();
    Ok(Permit { seat: Some(seat), began, queued: began - came })
}

/// What is known of all scripts; nothing where there is no gate.
pub fn scripts() -> Vec<Script> {
    GATE.get().map_or_else(Vec::new, |gate| gate.table.lock().scripts())
}

impl Gate {
    /// Enters the table. Mostly it is let in at once.
    fn queue(&'static self, name: &str, host: &str, rules: &Rules) -> Result<Seat, Refusal> {
        let locked = self.table.lock();
        let script = locked.script(name);
        let most = rules.most.unwrap_or(u64::MAX);
        let entry = if locked.waiting() < rules.queue.max(1) { locked.enter(script, host, most) } else { None };
        let Some(entry) = entry else {
            locked.refuse(script);
            let text = format!("{} requests wait for scripts already", locked.waiting());
            return Err(self.refusal(&locked, script, text));
        };
        // It need not be told itself.
        self.let_in(locked, READ_RELAXED, Some(entry));
        Ok(Seat { gate: self, entry })
    }

    /// Lets in who may come in now, gives the lock back, and tells all of them but one.
    fn let_in(&self, locked: Locked<'_>, age: Duration, but: Option<usize>) {
        if locked.waiting() == 0 {
            return;
        }
        // What the memory is must be known before anybody's share of it.
        let (available, total) = self.memory(&locked, age);
        let (mut entries, mut waiting) = locked.guests(State::Waiting);
        let (_, mut running) = locked.guests(State::Running);
        let mut let_in = Vec::new();
        let free = free(locked.allowance(), available, total, &running);
        while let Some(next) = policy::next(&waiting, &running, free, table::now()) {
            let entry = entries.swap_remove(next);
            running.push(waiting.swap_remove(next));
            locked.admit(entry);
            let_in.push(entry);
        }
        drop(locked);
        let_in.into_iter().filter(|entry| but != Some(*entry)).for_each(|entry| Bell::ring(&self.name, entry));
    }

    /// The memory: available, and all.
    fn memory(&self, locked: &Locked<'_>, age: Duration) -> (u64, u64) {
        if let Some(known) = locked.memory(age) {
            return known;
        }
        // Where the system does not tell, nothing can be decided by it.
        let (available, total) =
            self.gauges.read().map_or((u64::MAX / 4, u64::MAX / 4), |memory| (memory.available, memory.total));
        locked.set_memory(available, total);
        (available, total)
    }

    /// What who waits does from time to time, one of them for all.
    fn look(&self) {
        let processes = {
            let locked = self.table.lock();
            if !locked.is_due(LOOK / 2) {
                return;
            }
            locked.processes()
        };
        let weigh = |(entry, pid)| (entry, pid, tree_memory(pid).unwrap_or(0));
        let weighed: Vec<(usize, Pid, u64)> = processes.into_iter().map(weigh).collect();
        let locked = self.table.lock();
        for (entry, pid, has) in weighed {
            locked.weigh(entry, pid, has);
        }
        let long = u64::try_from(LONG.as_micros()).unwrap_or(u64::MAX);
        for guest in locked.guests(State::Running).1 {
            if table::now().saturating_sub(guest.since) >= long {
                locked.presume(guest.script, guest.has);
            }
        }
        locked.sweep();
        self.let_in(locked, READ_EAGER, None);
    }

    fn refusal(&self, locked: &Locked<'_>, script: usize, what: String) -> Refusal {
        let known = locked.described(script, 0, 0);
        let needs = match known.runs {
            0 => "what it needs is not known yet".into(),
            _ => format!("it needs {}", mib(known.expected)),
        };
        let mut holders: Vec<Script> = locked.scripts().into_iter().filter(|script| script.running > 0).collect();
        holders.sort_by_key(|script| std::cmp::Reverse(script.running * script.expected));
        let holders: Vec<String> = holders.iter().take(5).map(|script| script.to_string()).collect();
        let (available, _) = self.memory(locked, READ_RELAXED);
        let holders = match holders.is_empty() {
            true => "no script runs".into(),
            false => format!("running: {}", holders.join(", ")),
        };
        Refusal {
            reason: format!("{what}: {needs}; {} are available; {holders}", mib(available)),
            retry: known.median.max(RETRY),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} with {} each", self.running, self.name, mib(self.expected))
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// What scripts that do not run yet may have, as if those that run had nothing more to come.
fn free(allowance: Allowance, available: u64, total: u64, running: &[Guest]) -> u64 {
    let have: u64 = running.iter().map(|guest| guest.has).sum();
    match allowance {
        Allowance::Auto => available.saturating_sub((total / RESERVE.0).max(RESERVE.1)),
        Allowance::Bytes(bytes) => bytes.saturating_sub(have),
        Allowance::Percent(percent) => (total / 100 * u64::from(percent)).saturating_sub(have),
        Allowance::Unlimited => UNLIMITED,
    }
}

/// An entry of the table, given back on drop: somebody else may come in then.
#[derive(Debug)]
struct Seat {
    gate: &'static Gate,
    entry: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let locked = self.gate.table.lock();
        locked.leave(self.entry);
        self.gate.let_in(locked, READ_EAGER, None);
    }
}

impl Seat {
    fn is_let_in(&self) -> bool {
        self.gate.table.is_running(self.entry)
    }

    /// Waits to be let in.
    async fn wait(&self, deadline: Instant, rules: &Rules, script: &str) -> Result<(), Refusal> {
        // Without a bell it looks from time to time, as all do.
        let mut bell = Bell::of(&self.gate.name, self.entry);
        let mut timer = server::Timer::default();
        while !self.is_let_in() {
            let now = Instant::now();
            if now >= deadline {
                let locked = self.gate.table.lock();
                if self.is_let_in() {
                    break;
                }
                let row = locked.script(script);
                locked.refuse(row);
                let text = format!("waited {} s for its turn", rules.timeout.as_secs());
                return Err(self.gate.refusal(&locked, row, text));
            }
            timer.until(deadline.min(now + LOOK), bell.rings()).await;
            if !self.is_let_in() {
                self.gate.look();
            }
        }
        Ok(())
    }
}

impl Permit {
    /// One that nobody had to give.
    pub fn free() -> Permit {
        Permit { seat: None, began: Instant::now(), queued: Duration::ZERO }
    }

    /// The script runs as this process.
    pub fn started(&self, pid: Pid) {
        if let Some(seat) = &self.seat {
            seat.gate.table.set_process(seat.entry, pid);
        }
    }

    /// The script has ended: what it needed is known now.
    pub fn ended(self, reaped: &Reaped) {
        let run = Run {
            failed: reaped.status != Status::Exited(0),
            peak: reaped.max_rss * 1024,
            cpu: reaped.user + reaped.system,
            took: self.began.elapsed(),
            queued: self.queued,
        };
        if let Some(seat) = &self.seat {
            seat.gate.table.lock().learn(seat.entry, run);
        }
    }
}
