//! The shared table of scripts: which run, which wait, and how much memory they needed before. In memory shared by all
//! processes of the server, under one lock that survives the death of its holder.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use sys::shm::Shared;
use sys::time::monotonic;

use super::Allowance;

mod entries;
mod lock;
mod record;

pub(super) use lock::Locked;
pub use record::ScriptStats;
pub(super) use record::Usage;

/// How many may run and wait at once, over the whole server.
const ENTRIES: usize = 4096;
/// How many scripts are distinguished; all further ones count as one script.
const SCRIPTS: usize = 1024;
/// The longest stored name, in words of eight bytes; of longer names the end is stored.
const NAME: usize = 16;

const HEADER: usize = 12;
const ENTRY: usize = 13;
const RECORD: usize = 10;
const SCRIPT: usize = RECORD + NAME + 2 * record::STEPS;

#[derive(Clone, Copy)]
enum Header {
    /// The process that holds the lock, in the form of [`sys::shared_lock::own`]; 0: nobody.
    Lock,
    /// Entries from here on were never used.
    Used,
    /// How many entries wait.
    Waiting,
    /// When the memory was last read, in µs.
    Read,
    /// The bytes available then.
    Available,
    Total,
    /// When running scripts were last weighed, in µs.
    Weighed,
    /// How much scripts may have, as an encoded [`Allowance`].
    Allowance,
    /// Over all scripts, including forgotten ones: runs that have ended, those that ended badly, and refused requests.
    Runs,
    Failures,
    Refused,
    /// Whether any entry was abandoned since the lock was last taken.
    Abandoned,
}

#[derive(Clone, Copy)]
enum Field {
    State,
    /// The process of the server, in the form of [`sys::shared_lock::own`].
    Holder,
    Script,
    Host,
    Since,
    Has,
    /// The most memory it had at any weighing.
    Peak,
    Most,
    /// The process of the script; 0 as long as there is none.
    Process,
    /// An upper bound for the process's start, in clock ticks, so that a later process with its number is not mistaken
    /// for it.
    StartedBy,
    /// Whether the client may be gone.
    Doubtful,
    /// Whether its script has closed its outputs, and perhaps nobody will notice its end at once.
    Leaving,
    /// Whether its owner has let go of it without the lock: whoever takes the lock next gives it back.
    Abandoned,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    Free = 0,
    Waiting = 1,
    Running = 2,
    /// It waited, and had to give way to another.
    Turned = 3,
    /// Its script has ended, though nobody has noticed yet.
    Ended = 4,
}

/// The memory itself. Made before the first fork.
#[derive(Debug)]
pub(super) struct Table {
    header: Shared<[AtomicU64; HEADER]>,
    entries: Shared<[AtomicU64; ENTRY]>,
    scripts: Shared<[AtomicU64; SCRIPT]>,
}

/// The time in µs on the monotonic clock.
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

    /// Whether an entry has been admitted. Without the lock.
    pub(super) fn is_running(&self, entry: usize) -> bool {
        self.entries[entry][Field::State as usize].load(Acquire) == EntryState::Running as u64
    }

    /// The place for the process of a running entry; 0 until it has one. It starts within a second.
    pub(super) fn process(&self, entry: usize) -> &AtomicU64 {
        self.set(entry, Field::StartedBy, sys::process::ticks());
        &self.entries[entry][Field::Process as usize]
    }

    /// The last reading of the memory, at most this old: available and total. Without the lock.
    pub(super) fn memory(&self, age: Duration) -> Option<(u64, u64)> {
        let load = |field| self.header(field).load(Relaxed);
        let fresh = now().saturating_sub(load(Header::Read)) <= micros(age);
        (fresh && load(Header::Total) > 0).then(|| (load(Header::Available), load(Header::Total)))
    }

    pub(super) fn set_memory(&self, available: u64, total: u64) {
        let values = [(Header::Available, available), (Header::Total, total), (Header::Read, now())];
        values.into_iter().for_each(|(field, value)| self.header(field).store(value, Relaxed));
    }

    /// Sets how much scripts may have. Without the lock: the parent, which calls this, must not wait for a child that
    /// it has to reap.
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

    /// Records that the client may be gone.
    pub(super) fn doubt(&self, entry: usize) {
        self.set(entry, Field::Doubtful, 1);
    }

    /// Records that a script is about to end. A request that comes to wait either sees that, or is seen waiting.
    pub(super) fn note_leaving(&self, entry: usize) {
        self.entries[entry][Field::Leaving as usize].store(1, SeqCst);
        fence(SeqCst);
    }

    /// Whether any finished run of an entry's script has shown its needs. Without the lock.
    pub(super) fn is_known(&self, entry: usize) -> bool {
        record::is_known(&self.scripts[(self.get(entry, Field::Script) as usize).min(SCRIPTS - 1)])
    }

    /// Whether any script is about to end. Without the lock.
    pub(super) fn is_anybody_leaving(&self) -> bool {
        let used = (self.header(Header::Used).load(Relaxed) as usize).min(ENTRIES);
        (0..used).any(|entry| self.get(entry, Field::Leaving) != 0 && self.is_running(entry))
    }

    /// Lets go of an entry without the lock, because the lock's holder does not let go of that. The holder may be in the
    /// middle of admitting this very entry, or of counting, so the state stays as it is until the lock is taken next.
    pub(super) fn abandon(&self, entry: usize) {
        self.entries[entry][Field::Abandoned as usize].store(1, Release);
        self.header(Header::Abandoned).store(1, Release);
    }
}

impl Locked<'_> {
    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.header(Header::Waiting).load(Relaxed) as usize
    }

    /// Runs, failures and refusals of all scripts since the table was made.
    pub(super) fn totals(&self) -> [u64; 3] {
        [Header::Runs, Header::Failures, Header::Refused].map(|field| self.0.header(field).load(Relaxed))
    }

    /// Whether periodic work of the waiting requests is due, so that only one of them does it: `Header::Weighed`.
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

/// Never 0. The same in all processes (FNV-1a).
fn hash(name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash.max(1)
}

#[cfg(test)]
mod tests;
