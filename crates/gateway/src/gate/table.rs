//! What all processes of the server know of scripts: who runs, who waits, and what scripts needed before. In memory that they
//! share, under one lock that survives whoever held it.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sys::process::Pid;
use sys::shm::Shared;
use sys::time::monotonic;

use super::policy::Guest;
use super::{Allowance, Rules};

mod record;

pub use record::ScriptStats;
pub(super) use record::Usage;

/// How many may run and wait at once, over the whole server.
const ENTRIES: usize = 4096;
/// How many scripts are known apart; what comes after is one script to us.
const SCRIPTS: usize = 1024;
/// The longest name that is kept, in words of eight bytes; of longer ones it is the end.
const NAME: usize = 16;
/// How often a lock is tried before it is looked who has it, how long is waited then, and how often: somebody may have
/// stopped the process that has it.
const TRIES: u32 = 2000;
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES: u32 = 100;

const HEADER: usize = 11;
const ENTRY: usize = 12;
const RECORD: usize = 10;
const SCRIPT: usize = RECORD + NAME + 2 * record::STEPS;

#[derive(Clone, Copy)]
enum Header {
    /// The process that has the lock, as [`own`] says it; 0: nobody.
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
    /// Of all scripts, also of those that were forgotten: runs that have ended, those that did not end well, requests that
    /// were refused.
    Runs,
    Failures,
    Refused,
}

#[derive(Clone, Copy)]
enum Field {
    State,
    /// The process of the server, as [`own`] says it.
    Holder,
    Script,
    Host,
    Since,
    Has,
    /// The most it had when it was weighed.
    Peak,
    Most,
    /// The process of the script; 0 as long as there is none.
    Process,
    /// By when that was started, in clock ticks, so that no later one with its number is taken for it.
    StartedBy,
    /// Whether whoever asked may be gone.
    Doubtful,
    /// Whether its script has closed its outputs, and nobody may take notice of its end at once.
    Leaving,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    Free = 0,
    Waiting = 1,
    Running = 2,
    /// It waited, and had to give way to somebody else.
    Turned = 3,
    /// Its script runs no more, though nobody has taken notice of that yet.
    Ended = 4,
}

/// The memory itself. Made before the first fork.
#[derive(Debug)]
pub(super) struct Table {
    header: Shared<[AtomicU64; HEADER]>,
    entries: Shared<[AtomicU64; ENTRY]>,
    scripts: Shared<[AtomicU64; SCRIPT]>,
}

/// µs on the monotonic clock.
pub(super) fn now() -> u64 {
    micros(monotonic())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
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
        self.entries[entry][Field::State as usize].load(Acquire) == EntryState::Running as u64
    }

    /// Where it stands which process a running entry has; 0 as long as it has none. It is started within a second.
    pub(super) fn process(&self, entry: usize) -> &AtomicU64 {
        self.set(entry, Field::StartedBy, sys::process::ticks());
        &self.entries[entry][Field::Process as usize]
    }

    /// The memory as it was last read, at most so long ago: what is available, and all. Without the lock.
    pub(super) fn memory(&self, age: Duration) -> Option<(u64, u64)> {
        let load = |field| self.header(field).load(Relaxed);
        let fresh = now().saturating_sub(load(Header::Read)) <= micros(age);
        (fresh && load(Header::Total) > 0).then(|| (load(Header::Available), load(Header::Total)))
    }

    pub(super) fn set_memory(&self, available: u64, total: u64) {
        let values = [(Header::Available, available), (Header::Total, total), (Header::Read, now())];
        values.into_iter().for_each(|(field, value)| self.header(field).store(value, Relaxed));
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

    /// How many wait, without the lock.
    pub(super) fn waiting(&self) -> usize {
        self.header(Header::Waiting).load(Relaxed) as usize
    }

    /// Whether an entry had to give way. Without the lock.
    pub(super) fn is_turned_away(&self, entry: usize) -> bool {
        self.entries[entry][Field::State as usize].load(Acquire) == EntryState::Turned as u64
    }

    /// Notes that whoever asked may be gone.
    pub(super) fn doubt(&self, entry: usize) {
        self.set(entry, Field::Doubtful, 1);
    }

    /// Notes that a script is about to end. Whoever comes to wait sees that, or is seen waiting.
    pub(super) fn note_leaving(&self, entry: usize) {
        self.entries[entry][Field::Leaving as usize].store(1, SeqCst);
        fence(SeqCst);
    }

    /// Whether any run of an entry's script has told what it needs. Without the lock.
    pub(super) fn is_known(&self, entry: usize) -> bool {
        record::is_known(&self.scripts[(self.get(entry, Field::Script) as usize).min(SCRIPTS - 1)])
    }

    /// Whether any script is about to end. Without the lock.
    pub(super) fn is_anybody_leaving(&self) -> bool {
        let used = (self.header(Header::Used).load(Relaxed) as usize).min(ENTRIES);
        (0..used).any(|entry| self.get(entry, Field::Leaving) != 0 && self.is_running(entry))
    }

    /// Gives an entry back without the lock, because nobody lets go of that.
    pub(super) fn abandon(&self, entry: usize) {
        self.entries[entry][Field::State as usize].store(EntryState::Free as u64, Release);
    }

    /// Takes the lock. `None`: whoever has it does not let go of it.
    pub(super) fn lock(&self) -> Option<Locked<'_>> {
        let lock = self.header(Header::Lock);
        let own = own();
        for pause in 0..PAUSES {
            for attempt in 0..TRIES {
                if lock.compare_exchange_weak(0, own, Acquire, Relaxed).is_ok() {
                    return Some(Locked(self));
                }
                if attempt < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
            let holder = lock.load(Relaxed);
            // Whoever was killed here has left single numbers, each of them whole.
            if holder != 0 && !is_there(holder) && lock.compare_exchange(holder, own, AcqRel, Relaxed).is_ok() {
                let locked = Locked(self);
                locked.count_waiting();
                return Some(locked);
            }
            if pause + 1 < PAUSES {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the lock is held for a few instructions, or its holder was killed or stopped"
                )]
                std::thread::sleep(PAUSE);
            }
        }
        None
    }
}

/// The bits of a word that hold the number of a process: more than any number needs (`PID_MAX_LIMIT`).
const NUMBER_BITS: u32 = 22;

/// This process, for others to find out whether it is there: its number, and above that when it was started.
fn own() -> u64 {
    static STARTED: Mutex<(u64, u64)> = Mutex::new((0, 0));
    let number = u64::from(Pid::own().number().unsigned_abs());
    let mut known = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    // A child is not the process it was forked from.
    if known.0 != number {
        *known = (number, sys::process::started(Pid::own()).ok().flatten().unwrap_or(0));
    }
    number | known.1 << NUMBER_BITS
}

/// Whether the process is there that a word of [`own`] stands for. Another one with its number is not meant.
fn is_there(word: u64) -> bool {
    let (number, at) = (word & ((1 << NUMBER_BITS) - 1), word >> NUMBER_BITS);
    let Some(pid) = pid(number).filter(|pid| pid.exists()) else { return false };
    match sys::process::started(pid) {
        Ok(started) => started.is_some_and(|started| started == at || at == 0),
        // The system does not tell when.
        Err(_) => pid.exists(),
    }
}

fn pid(number: u64) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::new)
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
        let waiting = (0..self.used()).filter(|entry| self.state(*entry) == EntryState::Waiting).count();
        self.0.header(Header::Waiting).store(waiting as u64, Relaxed);
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.header(Header::Waiting).load(Relaxed) as usize
    }

    /// Runs, failures and refusals of all scripts since the table was made.
    pub(super) fn totals(&self) -> [u64; 3] {
        [Header::Runs, Header::Failures, Header::Refused].map(|field| self.0.header(field).load(Relaxed))
    }

    /// Whether too many wait.
    pub(super) fn is_full(&self, rules: &Rules) -> bool {
        let running = (0..self.used()).filter(|entry| self.state(*entry) == EntryState::Running).count();
        self.waiting() > rules.queue.max(1) || self.waiting() + running > rules.places.max(1)
    }

    fn state(&self, entry: usize) -> EntryState {
        let state = self.0.get(entry, Field::State);
        let known = [EntryState::Waiting, EntryState::Running, EntryState::Turned, EntryState::Ended];
        known.into_iter().find(|known| *known as u64 == state).unwrap_or(EntryState::Free)
    }

    fn set_state(&self, entry: usize, state: EntryState) {
        let waiting = self.0.header(Header::Waiting);
        let before = self.state(entry);
        waiting.fetch_add(u64::from(state == EntryState::Waiting), Relaxed);
        if before == EntryState::Waiting {
            waiting.fetch_sub(1, Relaxed);
        }
        self.0.entries[entry][Field::State as usize].store(state as u64, Release);
    }

    /// Takes an entry for somebody who waits from now on. `None`: there are too many already.
    pub(super) fn enter(&self, script: usize, host: &str, most: u64) -> Option<usize> {
        let used = self.used();
        let entry = (0..ENTRIES).find(|entry| *entry >= used || self.state(*entry) == EntryState::Free)?;
        self.0.header(Header::Used).fetch_max(entry as u64 + 1, Relaxed);
        let values = [
            (Field::Holder, own()),
            (Field::Script, script as u64),
            (Field::Host, hash(host)),
            (Field::Since, now()),
            (Field::Has, 0),
            (Field::Peak, 0),
            (Field::Most, most),
            (Field::Process, 0),
            (Field::StartedBy, 0),
            (Field::Doubtful, 0),
            (Field::Leaving, 0),
        ];
        for (field, value) in values {
            self.0.set(entry, field, value);
        }
        self.set_state(entry, EntryState::Waiting);
        Some(entry)
    }

    /// Lets somebody know that others are to be let in.
    pub(super) fn turn_away(&self, entry: usize) {
        self.set_state(entry, EntryState::Turned);
    }

    /// Lets somebody in.
    pub(super) fn admit(&self, entry: usize) {
        self.0.set(entry, Field::Since, now());
        self.set_state(entry, EntryState::Running);
    }

    /// Gives an entry back.
    pub(super) fn leave(&self, entry: usize) {
        self.set_state(entry, EntryState::Free);
    }

    /// All in a state, with their entries.
    pub(super) fn guests(&self, state: EntryState) -> (Vec<usize>, Vec<Guest>) {
        let entries = (0..self.used()).filter(|entry| self.state(*entry) == state);
        entries.map(|entry| (entry, self.guest(entry))).unzip()
    }

    fn script_of(&self, entry: usize) -> usize {
        (self.0.get(entry, Field::Script) as usize).min(SCRIPTS - 1)
    }

    fn guest(&self, entry: usize) -> Guest {
        let get = |field| self.0.get(entry, field);
        let script = self.script_of(entry);
        let expected = self.expected(script);
        Guest {
            script,
            host: get(Field::Host),
            since: get(Field::Since),
            needs: expected.unwrap_or(0),
            has: get(Field::Has),
            known: expected.is_some(),
            most: get(Field::Most),
            doubtful: get(Field::Doubtful) != 0,
        }
    }

    /// The processes of running entries that were let in so long ago at least.
    pub(super) fn processes(&self, age: Duration) -> Vec<(usize, Pid)> {
        let number = |entry: &usize| pid(self.0.get(*entry, Field::Process));
        let before = now().saturating_sub(micros(age));
        let is_old = |entry: &usize| self.0.get(*entry, Field::Since) <= before;
        let running = (0..self.used()).filter(|entry| self.state(*entry) == EntryState::Running).filter(is_old);
        running.filter_map(|entry| Some((entry, number(&entry)?))).collect()
    }

    /// The processes of this process's entries that run and have not closed their outputs.
    pub(super) fn own_processes(&self) -> Vec<Pid> {
        let own = own();
        let is_own =
            |entry: &usize| self.0.get(*entry, Field::Holder) == own && self.0.get(*entry, Field::Leaving) == 0;
        let running = (0..self.used()).filter(|entry| self.state(*entry) == EntryState::Running).filter(is_own);
        running.filter_map(|entry| pid(self.0.get(entry, Field::Process))).collect()
    }

    /// Notes what a running entry has; nothing is what a process has that has ended.
    pub(super) fn weigh(&self, entry: usize, pid: Pid, has: u64) {
        let is_the_same = self.0.get(entry, Field::Process) == u64::from(pid.number().unsigned_abs());
        if self.state(entry) != EntryState::Running || !is_the_same {
            return;
        }
        self.0.set(entry, Field::Has, has);
        self.0.set(entry, Field::Peak, self.0.get(entry, Field::Peak).max(has));
        if has == 0 {
            self.set_state(entry, EntryState::Ended);
        }
    }

    /// Looks whether scripts that were about to end have done so; returns whether one has.
    pub(super) fn end_leaving(&self) -> bool {
        let is_leaving =
            |entry: &usize| self.state(*entry) == EntryState::Running && self.0.get(*entry, Field::Leaving) != 0;
        let leaving = (0..self.used()).filter(is_leaving);
        let ended: Vec<usize> = leaving.filter(|entry| !self.script_is_there(*entry)).collect();
        ended.iter().for_each(|entry| self.set_state(*entry, EntryState::Ended));
        !ended.is_empty()
    }

    /// Forgets those whose process of the server is gone: who waited at once, who runs when its script is gone too.
    pub(super) fn sweep(&self) {
        let mut holders = HashMap::new();
        for entry in (0..self.used()).filter(|entry| self.state(*entry) != EntryState::Free) {
            let holder = self.0.get(entry, Field::Holder);
            let lives = *holders.entry(holder).or_insert_with(|| is_there(holder));
            let waits = matches!(self.state(entry), EntryState::Waiting | EntryState::Turned);
            if !lives && (waits || !self.script_is_there(entry)) {
                self.leave(entry);
            }
        }
        self.count_waiting();
    }

    fn script_is_there(&self, entry: usize) -> bool {
        let started_by = self.0.get(entry, Field::StartedBy);
        pid(self.0.get(entry, Field::Process)).is_some_and(|pid| sys::process::is_there_since(pid, started_by))
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

    pub(super) fn allowance(&self) -> Allowance {
        let word = self.0.header(Header::Allowance).load(Relaxed);
        match word & 3 {
            1 => Allowance::Bytes(word >> 2),
            2 => Allowance::Percent(u8::try_from(word >> 2).unwrap_or(100)),
            3 => Allowance::Unlimited,
            _ => Allowance::Auto,
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
