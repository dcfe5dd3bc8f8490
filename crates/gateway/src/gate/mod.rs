//! The gate: no script is started for which there is no memory.
//!
//! Each script is known by what its runs needed ([`table`]). A request for one enters the table, which all processes of the
//! server share, as somebody who waits, and whoever finds that there is memory lets in whose turn it is ([`policy`]): the
//! one that comes, the one that leaves, or one that waits and looks ten times a second. [`memory`] says how much there is.
//! Static files never come here.

mod memory;
mod policy;
mod room;
mod status;
mod table;
mod wait;

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sys::process::{Pid, Reaped, tree_memory};

use memory::{Gauges, Memory};
use policy::{Guest, UNLIMITED};
use table::{EntryState, Locked, Table, Usage};
use wait::WakeUp;

pub use status::{GateStatus, scripts, status};
pub use table::ScriptStats;

/// How old a reading of the memory may be: where nobody waits, and where somebody does.
const READ_RELAXED: Duration = Duration::from_millis(50);
const READ_EAGER: Duration = Duration::from_millis(5);
/// How often somebody who waits looks whether there is memory now, and weighs those who run.
const LOOK: Duration = Duration::from_millis(100);
/// The same at first where a script is about to end, and how often.
const LEAVING: Duration = Duration::from_millis(1);
const LEAVING_ROUNDS: u32 = 5;
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
    /// How many may wait and run together where somebody has to wait: those hold workers, and plain files need some too.
    pub places: usize,
    /// How long one may wait.
    pub timeout: Duration,
}

#[derive(Debug)]
struct Gate {
    table: Table,
    gauges: Gauges,
    /// How many scripts there is room for, however little they need.
    most: u64,
    /// What the names of the sockets that are woken begin with.
    name: String,
}

static GATE: OnceLock<Gate> = OnceLock::new();

/// Makes the gate where there is none yet, and says how much memory scripts may have from now on. For the parent, before it
/// forks.
pub fn open(allowance: Allowance) -> std::io::Result<()> {
    if GATE.get().is_none() {
        let name = format!("tsubame-gate-{}-{:x}", Pid::own(), table::now());
        let gate = Gate { table: Table::new()?, gauges: Gauges::of_this_process(), most: room::most_scripts(), name };
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

/// Waits until `script` may run on behalf of `host`, at the request of somebody who may be gone if that is
/// `doubtful`.
pub async fn enter(script: &str, host: &str, rules: &Rules, doubtful: impl Fn() -> bool) -> Result<Permit, Refusal> {
    let Some(gate) = GATE.get() else { return Ok(Permit::free()) };
    let came = Instant::now();
    let seat = gate.queue(script, host, rules)?;
    if !seat.is_let_in() {
        seat.wait(came + rules.timeout, rules, script, doubtful).await?;
    }
    let began = Instant::now();
    Ok(Permit { seat: Some(seat), began, queued: began - came })
}

/// The scripts that run on behalf of this process, except those that are about to end.
pub(crate) fn own_processes() -> Vec<Pid> {
    let locked = GATE.get().and_then(|gate| gate.table.lock());
    locked.map(|locked| locked.own_processes()).unwrap_or_default()
}

impl Gate {
    /// Enters the table. Mostly it is let in at once. Where too many wait, somebody gives way: whoever may be gone, or the
    /// last of those who wait for the script that most wait for.
    fn queue(&'static self, name: &str, host: &str, rules: &Rules) -> Result<Seat, Refusal> {
        let memory = self.memory(READ_RELAXED);
        let locked = self.table.lock().ok_or_else(Refusal::stuck)?;
        let script = locked.script(name);
        let enter = || locked.enter(script, host, rules.most.unwrap_or(u64::MAX));
        let entry = enter().or_else(|| {
            locked.sweep();
            enter()
        });
        let Some(entry) = entry else {
            return Err(self.refusal(&locked, script, "too many scripts run and wait".into(), memory.available));
        };
        let must_wait = || !self.table.is_running(entry) && locked.is_full(rules);
        let mut told = self.admit(&locked, memory);
        if !self.table.is_running(entry) && locked.end_leaving() {
            told.extend(self.admit(&locked, memory));
        }
        if must_wait() {
            // Some of them may be dead.
            locked.sweep();
            told.extend(self.admit(&locked, memory));
        }
        let mut refusal = None;
        if must_wait() {
            let (entries, waiting) = locked.guests(EntryState::Waiting);
            match policy::gives_way(&waiting).map(|index| entries[index]) {
                Some(other) if other != entry => {
                    locked.turn_away(other);
                    told.push(other);
                }
                _ => {
                    let text = format!("{} requests wait for scripts already", locked.waiting() - 1);
                    refusal = Some(self.refusal(&locked, script, text, memory.available));
                    locked.leave(entry);
                }
            }
        }
        drop(locked);
        self.tell(told.into_iter().filter(|other| *other != entry));
        match refusal {
            None => Ok(Seat { gate: self, entry }),
            Some(refusal) => Err(refusal),
        }
    }

    /// Lets in who may come in now. Returns them: they are to be told, without the lock.
    fn admit(&self, locked: &Locked<'_>, memory: Memory) -> Vec<usize> {
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

    fn tell(&self, entries: impl IntoIterator<Item = usize>) {
        entries.into_iter().for_each(|entry| WakeUp::send(&self.name, entry));
    }

    /// The memory, as it was so long ago at most. Without the lock: files are read for it.
    fn memory(&self, age: Duration) -> Memory {
        if let Some((available, total)) = self.table.memory(age) {
            return Memory { available, total };
        }
        // Where the system does not tell, nothing can be decided by it.
        let memory = self.gauges.read().unwrap_or(Memory { available: u64::MAX / 4, total: u64::MAX / 4 });
        self.table.set_memory(memory.available, memory.total);
        memory
    }

    /// Lets in who may come in, since something has ended.
    fn go_on(&self) {
        if self.table.waiting() == 0 {
            return;
        }
        let memory = self.memory(READ_EAGER);
        let told = self.table.lock().map(|locked| self.admit(&locked, memory));
        self.tell(told.unwrap_or_default());
    }

    /// What who waits does from time to time, one of them for all.
    fn look(&self) {
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
    fn end_leaving(&self) {
        if !self.table.is_anybody_leaving() {
            return;
        }
        let memory = self.memory(READ_EAGER);
        let told = self.table.lock().filter(Locked::end_leaving).map(|locked| self.admit(&locked, memory));
        self.tell(told.unwrap_or_default());
    }

    fn refusal(&self, locked: &Locked<'_>, script: usize, what: String, available: u64) -> Refusal {
        let known = locked.described(script, 0, 0);
        let retry = known.median.max(RETRY);
        if !locked.refuse(script) {
            return Refusal { reason: what, retry };
        }
        let needs = match known.expected {
            0 => "what it needs is not known yet".into(),
            bytes => format!("it needs {}", mib(bytes)),
        };
        let mut holders = locked.running_scripts();
        let crowd = match holders.iter().map(|script| script.running).sum::<u64>() >= self.most {
            true => format!("; there is room for {} scripts at once, whatever they need", self.most),
            false => String::new(),
        };
        holders.sort_by_key(|script| std::cmp::Reverse(script.running * script.expected));
        let holders: Vec<String> = holders.iter().take(5).map(|script| script.to_string()).collect();
        let holders = match holders.is_empty() {
            true => "no script runs".into(),
            false => format!("running: {}", holders.join(", ")),
        };
        Refusal { reason: format!("{what}: {needs}; {} are available{crowd}; {holders}", mib(available)), retry }
    }
}

impl Refusal {
    /// The table cannot be had.
    fn stuck() -> Refusal {
        let reason = "a process of the server that has the table of scripts does not go on";
        Refusal { reason: reason.into(), retry: RETRY }
    }
}

impl fmt::Display for ScriptStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} with {} each", self.running, self.name, mib(self.expected))
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// What scripts that do not run yet may have, as if those that run had nothing more to come. Where programs wait for memory
/// there is none.
fn free(allowance: Allowance, memory: Memory, running: &[Guest]) -> u64 {
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

/// An entry of the table, given back on drop: somebody else may come in then.
#[derive(Debug)]
struct Seat {
    gate: &'static Gate,
    entry: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        match self.gate.table.lock() {
            Some(locked) => locked.leave(self.entry),
            None => self.gate.table.abandon(self.entry),
        }
        self.gate.go_on();
    }
}

impl Seat {
    fn is_let_in(&self) -> bool {
        self.gate.table.is_running(self.entry)
    }

    /// Waits to be let in.
    async fn wait(
        &self,
        deadline: Instant,
        rules: &Rules,
        script: &str,
        doubtful: impl Fn() -> bool,
    ) -> Result<(), Refusal> {
        // Without one it looks from time to time, as all do.
        let mut wake_up = WakeUp::of(&self.gate.name, self.entry);
        let mut timer = seam::executor::Timer::default();
        let mut rounds = 0;
        loop {
            self.gate.end_leaving();
            // What those that run have taken meanwhile need not be kept for them.
            self.gate.look();
            if self.is_let_in() {
                return Ok(());
            }
            let now = Instant::now();
            let turned_away = self.gate.table.is_turned_away(self.entry);
            if turned_away || now >= deadline {
                let memory = self.gate.memory(READ_RELAXED);
                let locked = self.gate.table.lock().ok_or_else(Refusal::stuck)?;
                if self.is_let_in() {
                    return Ok(());
                }
                let text = match turned_away {
                    true => "gave way to requests for other scripts, because too many wait".into(),
                    false => format!("waited {:?} for its turn", rules.timeout),
                };
                return Err(self.gate.refusal(&locked, locked.script(script), text, memory.available));
            }
            if doubtful() {
                self.gate.table.doubt(self.entry);
            }
            rounds += 1;
            let soon = rounds <= LEAVING_ROUNDS && self.gate.table.is_anybody_leaving();
            let pause = if soon { LEAVING } else { LOOK };
            seam::release_worker(timer.until(deadline.min(now + pause), wake_up.arrives())).await;
        }
    }
}

impl Permit {
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
