//! What all processes of the server know of scripts: who runs, who waits, and what scripts needed before. In memory that they
//! share, under one lock that survives whoever held it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use sys::process::Pid;
use sys::shm::Shared;
use sys::time::monotonic;

use super::policy::Guest;
use super::{Allowance, UNKNOWN};

/// How many may run and wait at once, over the whole server.
const ENTRIES: usize = 4096;
/// How many scripts are known apart; what comes after is one script to us.
const SCRIPTS: usize = 1024;
/// The longest name that is kept, in words of eight bytes; of longer ones it is the end.
const NAME: usize = 16;
/// Durations are counted in steps of √2 from this many µs on.
const FIRST_STEP: u64 = 100;
const STEPS: usize = 44;
/// How often a lock is tried before it is looked who has it.
const TRIES: u32 = 2000;

const HEADER: usize = 8;
const ENTRY: usize = 12;
const SCRIPT: usize = 10 + NAME + STEPS;

#[derive(Clone, Copy)]
enum Header {
    /// The process that has the lock; 0: nobody.
    Lock,
    /// Entries from here on were never used.
    Used,
    /// How many entries wait.
    Waiting,
    /// When the memory was last looked at, in µs.
    Read,
    /// What there was then: bytes.
    Available,
    Total,
    /// When running scripts were last weighed, in µs.
    Weighed,
    /// How much scripts may have, as [`Allowance`] says it.
    Allowance,
}

#[derive(Clone, Copy)]
enum Field {
    State,
    /// The process of the server.
    Owner,
    Script,
    Host,
    Since,
    Has,
    /// The most it had when it was weighed.
    Peak,
    Most,
    /// The process of the script; 0 as long as there is none.
    Process,
}

#[derive(Clone, Copy)]
enum Known {
    Key,
    Runs,
    Failures,
    Refused,
    /// What the next run is expected to need; 0: it is not known.
    Expected,
    /// The most that any run needed.
    Peak,
    /// µs, over all runs.
    Cpu,
    Queued,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free = 0,
    Waiting = 1,
    Running = 2,
}

/// The memory itself. Made before the first fork.
#[derive(Debug)]
pub(super) struct Table {
    header: Shared<[AtomicU64; HEADER]>,
    entries: Shared<[AtomicU64; ENTRY]>,
    scripts: Shared<[AtomicU64; SCRIPT]>,
}

/// What a run needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) failed: bool,
    /// Bytes.
    pub(super) peak: u64,
    pub(super) cpu: Duration,
    pub(super) took: Duration,
    pub(super) queued: Duration,
}

/// What is known of a script, for a status page.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Its file; the end of it where it is long.
    pub name: String,
    /// How many runs have ended, how many of those not well, and how many requests were refused a run.
    pub runs: u64,
    /// See `runs`.
    pub failures: u64,
    /// See `runs`.
    pub refused: u64,
    /// Bytes the next run is expected to need; 0 where no run has ended.
    pub expected: u64,
    /// The most bytes that a run has needed.
    pub peak: u64,
    /// CPU time of all runs.
    pub cpu: Duration,
    /// Time that requests have waited to be let in.
    pub queued: Duration,
    /// Half of the runs, and 99 of 100, took no longer.
    pub median: Duration,
    /// See `median`.
    pub p99: Duration,
    /// How many run now.
    pub running: u64,
    /// How many wait now.
    pub waiting: u64,
}

/// µs on the monotonic clock.
pub(super) fn now() -> u64 {
    micros(monotonic())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What the next run is expected to need after one that needed `peak`: as much if that is more, otherwise a little less than
/// before.
fn expect(before: u64, peak: u64) -> u64 {
    if peak >= before { peak } else { before - (before - peak) / 8 }
}

/// The step that a duration belongs to.
fn step(took: Duration) -> usize {
    let times = micros(took).max(1) as f64 / FIRST_STEP as f64;
    ((times.log2() * 2.0).ceil().max(0.0) as usize).min(STEPS - 1)
}

/// The longest duration of a step.
fn duration_of(step: usize) -> Duration {
    Duration::from_micros((FIRST_STEP as f64 * (step as f64 / 2.0).exp2()) as u64)
}

impl Table {
    pub(super) fn new() -> std::io::Result<Table> {
        Ok(Table { header: Shared::new(1)?, entries: Shared::new(ENTRIES)?, scripts: Shared::new(SCRIPTS)? })
    }

    fn header(&self, field: Header) -> &AtomicU64 {
        &self.header[0][field as usize]
    }

    fn get(&self, entry: usize, field: Field) -> u64 {
        self.entries[entry][field as usize].load(Relaxed)
    }

    fn set(&self, entry: usize, field: Field, value: u64) {
        self.entries[entry][field as usize].store(value, Relaxed);
    }

    /// Whether an entry has been let in. Without the lock.
    pub(super) fn is_running(&self, entry: usize) -> bool {
        self.entries[entry][Field::State as usize].load(Acquire) == State::Running as u64
    }

    /// Notes which process a running entry has.
    pub(super) fn set_process(&self, entry: usize, pid: Pid) {
        self.set(entry, Field::Process, u64::from(pid.number().unsigned_abs()));
    }

    /// How much scripts may have. Without the lock: the parent, which says so, must not wait for a child that it has to reap.
    pub(super) fn set_allowance(&self, allowance: Allowance) {
        let (kind, value) = match allowance {
            Allowance::Auto => (0, 0),
            Allowance::Bytes(bytes) => (1, bytes),
            Allowance::Percent(percent) => (2, u64::from(percent)),
            Allowance::Unlimited => (3, 0),
        };
        self.header(Header::Allowance).store(value << 2 | kind, Relaxed);
    }

    /// Takes the lock.
    pub(super) fn lock(&self) -> Locked<'_> {
        let lock = self.header(Header::Lock);
        let own = u64::from(Pid::own().number().unsigned_abs());
        loop {
            for attempt in 0..TRIES {
                if lock.compare_exchange_weak(0, own, Acquire, Relaxed).is_ok() {
                    return Locked(self);
                }
                if attempt < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
            let holder = lock.load(Relaxed);
            // Whoever was killed here has left single numbers, each of them whole.
            if holder != 0 && !is_alive(holder) && lock.compare_exchange(holder, own, AcqRel, Relaxed).is_ok() {
                let locked = Locked(self);
                locked.count_waiting();
                return locked;
            }
        }
    }
}

/// Whether there is a process with a number from the table.
fn is_alive(number: u64) -> bool {
    i32::try_from(number).ok().and_then(Pid::new).is_some_and(Pid::exists)
}

/// The table while nobody else changes it.
pub(super) struct Locked<'a>(&'a Table);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.header(Header::Lock).store(0, Release);
    }
}

impl Locked<'_> {
    fn used(&self) -> usize {
        (self.0.header(Header::Used).load(Relaxed) as usize).min(ENTRIES)
    }

    fn count_waiting(&self) {
        let waiting = (0..self.used()).filter(|entry| self.state(*entry) == State::Waiting).count();
        self.0.header(Header::Waiting).store(waiting as u64, Relaxed);
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.header(Header::Waiting).load(Relaxed) as usize
    }

    fn state(&self, entry: usize) -> State {
        let state = self.0.get(entry, Field::State);
        [State::Waiting, State::Running].into_iter().find(|known| *known as u64 == state).unwrap_or(State::Free)
    }

    fn set_state(&self, entry: usize, state: State) {
        let waiting = self.0.header(Header::Waiting);
        let before = self.state(entry);
        waiting.fetch_add(u64::from(state == State::Waiting), Relaxed);
        if before == State::Waiting {
            waiting.fetch_sub(1, Relaxed);
        }
        self.0.entries[entry][Field::State as usize].store(state as u64, Release);
    }

    /// The row of a script, by its file. Where there is no room for it, the last row is that of all others.
    pub(super) fn script(&self, name: &str) -> usize {
        let key = hash(name);
        let start = (key % SCRIPTS as u64) as usize;
        for slot in (start..SCRIPTS - 1).chain(0..start.min(SCRIPTS - 1)) {
            let row = &self.0.scripts[slot];
            match row[Known::Key as usize].load(Relaxed) {
                0 => {
                    let bytes = &name.as_bytes()[name.len().saturating_sub(NAME * 8)..];
                    for (index, word) in bytes.chunks(8).enumerate() {
                        let mut whole = [0; 8];
                        whole[..word.len()].copy_from_slice(word);
                        row[10 + index].store(u64::from_ne_bytes(whole), Relaxed);
                    }
                    row[Known::Key as usize].store(key, Release);
                    return slot;
                }
                other if other == key => return slot,
                _ => {}
            }
        }
        SCRIPTS - 1
    }

    /// What the next run of a script is expected to need; `None`: no run has ended.
    fn expected(&self, script: usize) -> Option<u64> {
        Some(self.0.scripts[script][Known::Expected as usize].load(Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Takes an entry for somebody who waits from now on. `None`: there are too many already.
    pub(super) fn enter(&self, script: usize, host: &str, most: u64) -> Option<usize> {
        let used = self.used();
        let entry = (0..ENTRIES).find(|entry| *entry >= used || self.state(*entry) == State::Free)?;
        self.0.header(Header::Used).fetch_max(entry as u64 + 1, Relaxed);
        let values = [
            (Field::Owner, u64::from(Pid::own().number().unsigned_abs())),
            (Field::Script, script as u64),
            (Field::Host, hash(host)),
            (Field::Since, now()),
            (Field::Has, 0),
            (Field::Peak, 0),
            (Field::Most, most),
            (Field::Process, 0),
        ];
        for (field, value) in values {
            self.0.set(entry, field, value);
        }
        self.set_state(entry, State::Waiting);
        Some(entry)
    }

    /// Lets somebody in.
    pub(super) fn admit(&self, entry: usize) {
        self.0.set(entry, Field::Since, now());
        self.set_state(entry, State::Running);
    }

    /// Gives an entry back.
    pub(super) fn leave(&self, entry: usize) {
        self.set_state(entry, State::Free);
    }

    /// All in a state, with their entries.
    pub(super) fn guests(&self, state: State) -> (Vec<usize>, Vec<Guest>) {
        let entries = (0..self.used()).filter(|entry| self.state(*entry) == state);
        entries.map(|entry| (entry, self.guest(entry))).unzip()
    }

    fn guest(&self, entry: usize) -> Guest {
        let get = |field| self.0.get(entry, field);
        let script = (get(Field::Script) as usize).min(SCRIPTS - 1);
        let expected = self.expected(script);
        Guest {
            script,
            host: get(Field::Host),
            since: get(Field::Since),
            needs: expected.unwrap_or_else(|| self.pool() / UNKNOWN),
            has: get(Field::Has),
            known: expected.is_some(),
            most: get(Field::Most),
        }
    }

    /// How much all scripts together could ever have.
    fn pool(&self) -> u64 {
        let total = self.0.header(Header::Total).load(Relaxed);
        match self.allowance() {
            Allowance::Auto | Allowance::Unlimited => total,
            Allowance::Bytes(bytes) => bytes,
            Allowance::Percent(percent) => total / 100 * u64::from(percent),
        }
    }

    /// The processes of running entries.
    pub(super) fn processes(&self) -> Vec<(usize, Pid)> {
        let number = |entry: &usize| i32::try_from(self.0.get(*entry, Field::Process)).ok().and_then(Pid::new);
        let running = (0..self.used()).filter(|entry| self.state(*entry) == State::Running);
        running.filter_map(|entry| Some((entry, number(&entry)?))).collect()
    }

    /// Notes what a running entry has. One that has more than it was expected to need is expected to keep it.
    pub(super) fn weigh(&self, entry: usize, pid: Pid, has: u64) {
        let is_the_same = self.0.get(entry, Field::Process) == u64::from(pid.number().unsigned_abs());
        if self.state(entry) == State::Running && is_the_same {
            self.0.set(entry, Field::Has, has);
            self.0.set(entry, Field::Peak, self.0.get(entry, Field::Peak).max(has));
        }
    }

    /// Forgets those whose process of the server is gone: who waited at once, who runs when its script is gone too.
    pub(super) fn sweep(&self) {
        for entry in 0..self.used() {
            let state = self.state(entry);
            if state == State::Free || is_alive(self.0.get(entry, Field::Owner)) {
                continue;
            }
            if state == State::Waiting || !is_alive(self.0.get(entry, Field::Process)) {
                self.leave(entry);
            }
        }
    }

    /// Learns from a run that has ended.
    pub(super) fn learn(&self, entry: usize, run: Run) {
        let script = &self.0.scripts[self.guest(entry).script];
        let add = |field: Known, value: u64| script[field as usize].fetch_add(value, Relaxed);
        let peak = run.peak.max(self.0.get(entry, Field::Peak)).max(1);
        let expected = expect(script[Known::Expected as usize].load(Relaxed), peak);
        script[Known::Expected as usize].store(expected, Relaxed);
        script[Known::Peak as usize].fetch_max(peak, Relaxed);
        add(Known::Runs, 1);
        add(Known::Failures, u64::from(run.failed));
        add(Known::Cpu, micros(run.cpu));
        add(Known::Queued, micros(run.queued));
        script[10 + NAME + step(run.took)].fetch_add(1, Relaxed);
    }

    /// A run that has lasted long tells by what it has, before its end, what others may need.
    pub(super) fn presume(&self, script: usize, has: u64) {
        let expected = &self.0.scripts[script][Known::Expected as usize];
        expected.fetch_max(has.max(1), Relaxed);
    }

    /// Counts a request that was refused a run.
    pub(super) fn refuse(&self, script: usize) {
        self.0.scripts[script][Known::Refused as usize].fetch_add(1, Relaxed);
    }

    /// Whether something is due that everybody who waits would do, so that one of them does it: `Header::Weighed`.
    pub(super) fn is_due(&self, every: Duration) -> bool {
        let (now, last) = (now(), self.0.header(Header::Weighed).load(Relaxed));
        let due = now.saturating_sub(last) >= micros(every);
        if due {
            self.0.header(Header::Weighed).store(now, Relaxed);
        }
        due
    }

    /// The memory as it was last read, at most so long ago: what is available, and all.
    pub(super) fn memory(&self, age: Duration) -> Option<(u64, u64)> {
        let load = |field| self.0.header(field).load(Relaxed);
        let fresh = now().saturating_sub(load(Header::Read)) <= micros(age);
        (fresh && load(Header::Total) > 0).then(|| (load(Header::Available), load(Header::Total)))
    }

    pub(super) fn set_memory(&self, available: u64, total: u64) {
        let values = [(Header::Available, available), (Header::Total, total), (Header::Read, now())];
        values.into_iter().for_each(|(field, value)| self.0.header(field).store(value, Relaxed));
    }

    pub(super) fn allowance(&self) -> Allowance {
        let word = self.0.header(Header::Allowance).load(Relaxed);
        match word & 3 {
            1 => Allowance::Bytes(word >> 2),
            2 => Allowance::Percent(u8::try_from(word >> 2).unwrap_or(100)),
            3 => Allowance::Unlimited,
            _ => Allowance::Auto,
        }
    }

    /// What is known of all scripts.
    pub(super) fn scripts(&self) -> Vec<Script> {
        let (_, running) = self.guests(State::Running);
        let (_, waiting) = self.guests(State::Waiting);
        let all = (0..SCRIPTS).filter_map(|index| {
            let count = |guests: &[Guest]| guests.iter().filter(|guest| guest.script == index).count() as u64;
            let script = self.described(index, count(&running), count(&waiting));
            (self.0.scripts[index][Known::Key as usize].load(Relaxed) != 0 || script.runs > 0).then_some(script)
        });
        all.collect()
    }

    /// What is known of one.
    pub(super) fn described(&self, index: usize, running: u64, waiting: u64) -> Script {
        let row = &self.0.scripts[index];
        let get = |field: Known| row[field as usize].load(Relaxed);
        let bytes: Vec<u8> = row[10..10 + NAME].iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let steps: Vec<u64> = row[10 + NAME..].iter().map(|count| count.load(Relaxed)).collect();
        let quantile = |share: f64| {
            let all: u64 = steps.iter().sum();
            let mut left = (all as f64 * share).ceil() as u64;
            let reached = steps.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            reached.filter(|_| all > 0).map_or(Duration::ZERO, duration_of)
        };
        Script {
            name: if end == 0 { "(others)".into() } else { String::from_utf8_lossy(&bytes[..end]).into_owned() },
            runs: get(Known::Runs),
            failures: get(Known::Failures),
            refused: get(Known::Refused),
            expected: get(Known::Expected),
            peak: get(Known::Peak),
            cpu: Duration::from_micros(get(Known::Cpu)),
            queued: Duration::from_micros(get(Known::Queued)),
            median: quantile(0.5),
            p99: quantile(0.99),
            running,
            waiting,
        }
    }
}

/// Not 0. The same in all processes (FNV-1a).
fn hash(name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash.max(1)
}

#[cfg(test)]
mod tests;
