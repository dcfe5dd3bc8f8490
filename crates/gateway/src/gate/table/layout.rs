//! The layout of the table in shared memory: a header, the entries, and a row of numbers for each script.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sys::shm::Shared;
use sys::time::monotonic;

/// How many may run and wait at once, over the whole server.
pub(super) const ENTRIES: usize = 4096;
/// How many scripts are distinguished; all further ones count as one script.
pub(super) const SCRIPTS: usize = 1024;
/// The longest stored name, in words of eight bytes; of longer names the end is stored.
pub(super) const NAME: usize = 16;

/// The number of steps in which durations of runs are counted.
pub(super) const STEPS: usize = 44;

const HEADER: usize = 16;
const ENTRY: usize = 14;
pub(super) const RECORD: usize = 10;
const SCRIPT: usize = RECORD + NAME + 2 * STEPS;

#[derive(Clone, Copy)]
pub(super) enum HeaderField {
    /// The process that holds the lock, in the form of [`sys::shared_lock::own`]; 0: nobody.
    Lock,
    /// Entries from here on were never used.
    Used,
    /// No entry before this one is free.
    FirstFree,
    /// How many entries wait.
    Waiting,
    /// How many run, and how many of these were admitted before their needs were known.
    Running,
    Unknown,
    /// No run of any script is expected to need more than this, in bytes.
    Largest,
    /// When the memory was last read, in µs.
    Read,
    /// The bytes available then.
    Available,
    Total,
    /// When running scripts were last weighed, in µs.
    Weighed,
    /// How much scripts may have, as an encoded [`Allowance`](crate::gate::rules::Allowance).
    Allowance,
    /// Over all scripts, including forgotten ones: runs that have ended, those that ended badly, and refused requests.
    Runs,
    Failures,
    Refused,
    /// Whether any entry was abandoned since the lock was last taken.
    Abandoned,
}

#[derive(Clone, Copy)]
pub(super) enum EntryField {
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
    /// Whether its needs were unknown when it was admitted.
    Unknown,
    /// The process of the script; 0 as long as there is none.
    Process,
    /// An upper bound for the process's start, in clock ticks, so that a later process with its number is not mistaken
    /// for it.
    StartedBy,
    /// Whether the client may be gone.
    Doubtful,
    /// Whether its script has closed its outputs, and perhaps nobody will notice its end at once.
    Exiting,
    /// Whether its owner has let go of it without the lock: whoever takes the lock next gives it back.
    Abandoned,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gate) enum EntryState {
    Free = 0,
    Waiting = 1,
    Running = 2,
    /// The request waited, and had to give way to another.
    TurnedAway = 3,
    /// Its script has ended, though nobody has noticed yet.
    Ended = 4,
}

/// The memory itself. Made before the first fork.
#[derive(Debug)]
pub(in crate::gate) struct Table {
    pub(super) header: Shared<[AtomicU64; HEADER]>,
    pub(super) entries: Shared<[AtomicU64; ENTRY]>,
    pub(super) scripts: Shared<[AtomicU64; SCRIPT]>,
}

/// The time in µs on the monotonic clock.
pub(in crate::gate) fn now() -> u64 {
    micros(monotonic())
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Table {
    pub(in crate::gate) fn new() -> std::io::Result<Table> {
        Ok(Table { header: Shared::new(1)?, entries: Shared::new(ENTRIES)?, scripts: Shared::new(SCRIPTS)? })
    }

    pub(super) fn header(&self, field: HeaderField) -> &AtomicU64 {
        &self.header[0][field as usize]
    }

    pub(super) fn get(&self, entry: usize, field: EntryField) -> u64 {
        self.entries[entry][field as usize].load(Relaxed)
    }

    pub(super) fn set(&self, entry: usize, field: EntryField, value: u64) {
        self.entries[entry][field as usize].store(value, Relaxed);
    }
}

/// Never 0. The same in all processes (FNV-1a).
pub(super) fn hash(name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash.max(1)
}
