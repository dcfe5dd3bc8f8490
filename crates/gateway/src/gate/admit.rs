//! Admits requests from the table, according to the free memory.

use std::time::Duration;

use sys::process::{Pid, tree_memory};
use sys::time::Instant;

use super::memory::{Gauges, Memory};
use super::policy::{self, Job, UNLIMITED};
use super::room;
use super::rules::Allowance;
use super::table::{self, EntryState, Locked, Table};
use super::wait::WakeUp;

/// How old a reading of the memory may be: if nobody waits, and if somebody does.
pub(super) const READ_RELAXED: Duration = Duration::from_millis(50);
const READ_EAGER: Duration = Duration::from_millis(5);
/// How often a waiting request checks the memory, and weighs the running scripts.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// After this long, a script without any finished run is known by its current memory.
const LONG: Duration = Duration::from_secs(1);
/// The reserve for everybody else: this fraction of all memory, but at least this many bytes.
const RESERVE: (u64, u64) = (16, 48 << 20);
/// Until it executes the script, a process has the memory of its parent: a younger run is not weighed.
const YOUNG: Duration = Duration::from_millis(50);
/// The most time for weighing running scripts, each time.
const WEIGHING: Duration = Duration::from_millis(5);
/// An unknown script gets this fraction of the memory for all scripts.
const UNKNOWN: u64 = 4;

/// The table, and the data for decisions.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) table: Table,
    gauges: Gauges,
    /// How many scripts there is room for, however little they need.
    pub(super) most: u64,
    /// The prefix of the names of the sockets that wake requests.
    pub(super) name: String,
}

impl Gate {
    pub(super) fn new() -> std::io::Result<Gate> {
        let name = format!("tsubame-gate-{}-{:x}", Pid::own(), table::now());
        Ok(Gate { table: Table::new()?, gauges: Gauges::of_this_process(), most: room::most_scripts(), name })
    }

    /// Admits those who may come in now. Returns them: they must be woken, without the lock.
    pub(super) fn admit(&self, locked: &Locked<'_>, memory: Memory) -> Vec<usize> {
        let mut let_in = Vec::new();
        if locked.waiting() == 0 {
            return let_in;
        }
        let View { mut entries, mut waiting, mut running, free } = view(locked, memory);
        let is_room = |running: &[Job]| free == UNLIMITED || (running.len() as u64) < self.most;
        while is_room(&running)
            && let Some(next) = policy::next(&waiting, &running, free, table::now())
        {
            let entry = entries.swap_remove(next);
            running.push(waiting.swap_remove(next));
            locked.admit(entry);
            let_in.push(entry);
        }
        let_in
    }

    /// Admits this entry without a look at those of others, if there is room for all in any case. Returns whether that is so.
    pub(super) fn admit_alone(&self, locked: &Locked<'_>, entry: usize, memory: Memory) -> bool {
        let free = match locked.allowance() {
            allowance @ (Allowance::Unlimited | Allowance::Auto) => free(allowance, memory, &[]),
            // What the running ones have counts, too.
            Allowance::Bytes(_) | Allowance::Percent(_) => return false,
        };
        let is_room = free == UNLIMITED || (locked.running() as u64) < self.most;
        let admits = is_room && locked.has_ample_room(entry, free);
        if admits {
            locked.admit(entry);
        }
        admits
    }

    pub(super) fn wake(&self, entries: impl IntoIterator<Item = usize>) {
        entries.into_iter().for_each(|entry| WakeUp::send(&self.name, entry));
    }

    /// The memory, at most this old. Call it without the lock: it reads files.
    pub(super) fn memory(&self, age: Duration) -> Memory {
        if let Some((available, total)) = self.table.memory(age) {
            return Memory { available, total };
        }
        // If the system does not tell, memory decides nothing.
        let memory = self.gauges.read().unwrap_or(Memory { available: u64::MAX / 4, total: u64::MAX / 4 });
        self.table.set_memory(memory.available, memory.total);
        memory
    }

    /// Admits those who may come in, after something has ended.
    pub(super) fn admit_waiting(&self) {
        if self.table.waiting() == 0 {
            return;
        }
        let memory = self.memory(READ_EAGER);
        let admitted = self.table.lock().map(|locked| self.admit(&locked, memory));
        self.wake(admitted.unwrap_or_default());
    }

    /// The periodic work of waiting requests; one does it for all.
    pub(super) fn check_running(&self) {
        let due = || {
            self.table.lock().filter(|locked| locked.is_due(CHECK_INTERVAL / 2)).map(|locked| locked.processes(YOUNG))
        };
        let Some(mut processes) = due() else { return };
        // If there are very many, not all of them at once; the others get their turn next time.
        if !processes.is_empty() {
            let start = table::now() as usize % processes.len();
            processes.rotate_left(start);
        }
        let end = Instant::now() + WEIGHING;
        let weigh = |(entry, pid)| Some((entry, pid, tree_memory(pid).ok()?));
        let weighed: Vec<(usize, Pid, u64)> =
            processes.into_iter().take_while(|_| Instant::now() < end).filter_map(weigh).collect();
        let memory = self.memory(READ_EAGER);
        let Some(locked) = self.table.lock() else { return };
        for (entry, pid, has) in weighed {
            locked.weigh(entry, pid, has);
        }
        let long = u64::try_from(LONG.as_micros()).unwrap_or(u64::MAX);
        for job in locked.jobs(EntryState::Running).1 {
            if job.has > 0 && table::now().saturating_sub(job.since) >= long {
                locked.presume(job.script, job.has);
            }
        }
        locked.sweep();
        let admitted = self.admit(&locked, memory);
        drop(locked);
        self.wake(admitted);
    }

    /// Whether somebody waits for memory, or for the place of another script that runs.
    pub(super) fn is_short(&self) -> bool {
        if self.table.waiting() == 0 {
            return false;
        }
        let memory = self.memory(READ_EAGER);
        let Some(locked) = self.table.lock() else { return false };
        let View { waiting, running, free, .. } = view(&locked, memory);
        waiting.iter().any(|job| policy::needs_room(job, &running, free))
    }

    /// Admits those who wait for scripts that were about to end.
    pub(super) fn end_exited(&self) {
        if !self.table.is_any_exiting() {
            return;
        }
        let memory = self.memory(READ_EAGER);
        let admitted = self.table.lock().filter(Locked::end_exited).map(|locked| self.admit(&locked, memory));
        self.wake(admitted.unwrap_or_default());
    }
}

/// The table, as the policy sees it.
struct View {
    /// The entries of those who wait.
    entries: Vec<usize>,
    waiting: Vec<Job>,
    running: Vec<Job>,
    /// Unused bytes that scripts may use.
    free: u64,
}

fn view(locked: &Locked<'_>, memory: Memory) -> View {
    let (entries, mut waiting) = locked.jobs(EntryState::Waiting);
    let (_, mut running) = locked.jobs(EntryState::Running);
    let free = free(locked.allowance(), memory, &running);
    let all = running.iter().fold(free, |all, job| all.saturating_add(job.has));
    for job in waiting.iter_mut().chain(&mut running).filter(|job| !job.known) {
        job.needs = all / UNKNOWN;
    }
    View { entries, waiting, running, free }
}

/// The memory for scripts that do not run yet, assuming that running ones grow no further. None, if programs stall for
/// memory.
pub(super) fn free(allowance: Allowance, memory: Memory, running: &[Job]) -> u64 {
    let Memory { available, total } = memory;
    let have: u64 = running.iter().map(|job| job.has).sum();
    match allowance {
        Allowance::Unlimited => UNLIMITED,
        _ if available == 0 => 0,
        Allowance::Auto => available.saturating_sub((total / RESERVE.0).max(RESERVE.1)),
        Allowance::Bytes(bytes) => bytes.saturating_sub(have),
        Allowance::Percent(percent) => (total / 100 * u64::from(percent)).saturating_sub(have),
    }
}
