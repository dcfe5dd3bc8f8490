//! Lets requests in that have entered the table, as there is memory.

use std::time::{Duration, Instant};

use sys::process::{Pid, tree_memory};

use super::Allowance;
use super::memory::{Gauges, Memory};
use super::policy::{self, Guest, UNLIMITED};
use super::room;
use super::table::{self, EntryState, Locked, Table};
use super::wait::WakeUp;

/// How old a reading of the memory may be: where nobody waits, and where somebody does.
pub(super) const READ_RELAXED: Duration = Duration::from_millis(50);
const READ_EAGER: Duration = Duration::from_millis(5);
/// How often somebody who waits looks whether there is memory now, and weighs those who run.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// After so long a script that has never ended is known by what it has.
const LONG: Duration = Duration::from_secs(1);
/// What is left to everybody else: a part of all memory, but not less than this many bytes.
const RESERVE: (u64, u64) = (16, 48 << 20);
/// A process has the memory of who has started it until it executes the script: so young a run is not weighed.
const YOUNG: Duration = Duration::from_millis(50);
/// How long running scripts are weighed at most, each time.
const WEIGHING: Duration = Duration::from_millis(5);
/// What part of all that scripts may have a script gets that is not known.
const UNKNOWN: u64 = 4;

/// The table, and what decides by it.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) table: Table,
    gauges: Gauges,
    /// How many scripts there is room for, however little they need.
    pub(super) most: u64,
    /// What the names of the sockets that are woken begin with.
    pub(super) name: String,
}

impl Gate {
    pub(super) fn new() -> std::io::Result<Gate> {
        let name = format!("tsubame-gate-{}-{:x}", Pid::own(), table::now());
        Ok(Gate { table: Table::new()?, gauges: Gauges::of_this_process(), most: room::most_scripts(), name })
    }

    /// Lets in who may come in now. Returns them: they are to be told, without the lock.
    pub(super) fn admit(&self, locked: &Locked<'_>, memory: Memory) -> Vec<usize> {
        let mut let_in = Vec::new();
        if locked.waiting() == 0 {
            return let_in;
        }
        let (mut entries, mut waiting) = locked.guests(EntryState::Waiting);
        let (_, mut running) = locked.guests(EntryState::Running);
        let free = free(locked.allowance(), memory, &running);
        let all = running.iter().fold(free, |all, guest| all.saturating_add(guest.has));
        for guest in waiting.iter_mut().chain(&mut running).filter(|guest| !guest.known) {
            guest.needs = all / UNKNOWN;
        }
        let is_room = |running: &[Guest]| free == UNLIMITED || (running.len() as u64) < self.most;
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

    pub(super) fn tell(&self, entries: impl IntoIterator<Item = usize>) {
        entries.into_iter().for_each(|entry| WakeUp::send(&self.name, entry));
    }

    /// The memory, as it was so long ago at most. Without the lock: files are read for it.
    pub(super) fn memory(&self, age: Duration) -> Memory {
        if let Some((available, total)) = self.table.memory(age) {
            return Memory { available, total };
        }
        // Where the system does not tell, nothing can be decided by it.
        let memory = self.gauges.read().unwrap_or(Memory { available: u64::MAX / 4, total: u64::MAX / 4 });
        self.table.set_memory(memory.available, memory.total);
        memory
    }

    /// Lets in who may come in, since something has ended.
    pub(super) fn go_on(&self) {
        if self.table.waiting() == 0 {
            return;
        }
        let memory = self.memory(READ_EAGER);
        let told = self.table.lock().map(|locked| self.admit(&locked, memory));
        self.tell(told.unwrap_or_default());
    }

    /// What who waits does from time to time, one of them for all.
    pub(super) fn look(&self) {
        let due = || self.table.lock().filter(|locked| locked.is_due(LOOK / 2)).map(|locked| locked.processes(YOUNG));
        let Some(mut processes) = due() else { return };
        // Where there are very many, not all of them at once, and others the next time.
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
        for guest in locked.guests(EntryState::Running).1 {
            if guest.has > 0 && table::now().saturating_sub(guest.since) >= long {
                locked.presume(guest.script, guest.has);
            }
        }
        locked.sweep();
        let told = self.admit(&locked, memory);
        drop(locked);
        self.tell(told);
    }

    /// Lets in who waits for scripts that were about to end.
    pub(super) fn end_leaving(&self) {
        if !self.table.is_anybody_leaving() {
            return;
        }
        let memory = self.memory(READ_EAGER);
        let told = self.table.lock().filter(Locked::end_leaving).map(|locked| self.admit(&locked, memory));
        self.tell(told.unwrap_or_default());
    }
}

/// What scripts that do not run yet may have, as if those that run had nothing more to come. Where programs wait for memory
/// there is none.
pub(super) fn free(allowance: Allowance, memory: Memory, running: &[Guest]) -> u64 {
    let Memory { available, total } = memory;
    let have: u64 = running.iter().map(|guest| guest.has).sum();
    match allowance {
        Allowance::Unlimited => UNLIMITED,
        _ if available == 0 => 0,
        Allowance::Auto => available.saturating_sub((total / RESERVE.0).max(RESERVE.1)),
        Allowance::Bytes(bytes) => bytes.saturating_sub(have),
        Allowance::Percent(percent) => (total / 100 * u64::from(percent)).saturating_sub(have),
    }
}
