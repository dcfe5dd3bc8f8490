//! The statistics of pools: rows in memory that all processes of the server share. The process manager and the holders
//! of leases write them, and pages read them without asking anybody.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use sys::process::Pid;
use sys::shm::Shared;

use super::lease_state::{self, LeaseCell};
use super::reason::Reason;

/// How many pools can be shown at once; more work all the same.
const ROWS: usize = 256;
/// The stored length of a pool's name, in bytes.
const NAME: usize = 160;
const NUMBER: usize = size_of::<u64>();
const FIELDS: usize = 14 + Reason::ALL.len();
/// How many backends of a pool have a [`LeaseCell`]; more work all the same.
pub(super) const LEASE_CELLS: usize = 64;
const ROW: usize = FIELDS + NAME / NUMBER + LEASE_CELLS;

/// The numbers of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// The process manager that writes this row, or 0.
    Owner,
    Size,
    Busy,
    Waiting,
    Max,
    Memory,
    Started,
    Served,
    Refused,
    /// Total time that requests have waited and have been served, in µs.
    Waited,
    Worked,
    /// The longest wait, in µs.
    LongestWait,
    /// How many requests wait in children, behind those that have asked the manager.
    Behind,
    /// How many requests wait whose child has no lease at all.
    Wanted,
    /// The first of the reasons why backends ended.
    Ended,
}

/// A pool at a moment.
#[derive(Clone, Debug, Default)]
pub struct PoolStats {
    /// The name of its class.
    pub name: String,
    /// How many backends there are.
    pub size: u64,
    /// Backends that serve a request.
    pub busy: u64,
    /// The most backends there may be.
    pub max: u64,
    /// How many requests wait for a backend.
    pub waiting: u64,
    /// The memory of its backends in bytes, as last measured.
    pub memory: u64,
    /// How many backends have been started.
    pub started: u64,
    /// How many requests have been served.
    pub served: u64,
    /// How many requests got no backend.
    pub refused: u64,
    /// Total seconds that requests have waited for a backend.
    pub waited: f64,
    /// Total seconds that requests have been served.
    pub worked: f64,
    /// The longest wait of a request, in seconds.
    pub longest_wait: f64,
    /// Ended backends, by reason.
    pub ended: Vec<(&'static str, u64)>,
}

static TABLE: OnceLock<Shared<AtomicU64>> = OnceLock::new();

/// Makes the memory if there is none yet. For the parent, before it forks.
pub(super) fn open() -> io::Result<()> {
    if TABLE.get().is_none() {
        let table = Shared::new(ROWS * ROW)?;
        // Only one thread exists that could set it.
        let _ = TABLE.set(table);
    }
    Ok(())
}

fn row(index: usize) -> Option<&'static [AtomicU64]> {
    let start = index.checked_mul(ROW)?;
    TABLE.get()?.get(start..start.checked_add(ROW)?)
}

/// The row of a pool as children see it, which add what happens to their requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolRow(&'static [AtomicU64]);

impl PoolRow {
    /// The row with this number.
    pub(super) fn at(index: u64) -> Option<PoolRow> {
        usize::try_from(index).ok().and_then(row).map(PoolRow)
    }

    /// The row of the pool of a class with this name.
    pub(super) fn named(name: &str) -> Option<PoolRow> {
        let name = shortened(name);
        (0..ROWS)
            .filter_map(row)
            .find(|row| row[Field::Owner as usize].load(Acquire) != 0 && name_of(row) == name)
            .map(PoolRow)
    }

    /// Counts a request that a backend has served for `worked`.
    pub(super) fn count_served(self, worked: Duration) {
        self.add(Field::Served, 1);
        self.add(Field::Worked, micros(worked));
    }

    /// Counts the wait of a request.
    pub(super) fn count_wait(self, waited: Duration) {
        self.add(Field::Waited, micros(waited));
        self.0[Field::LongestWait as usize].fetch_max(micros(waited), Relaxed);
    }

    pub(super) fn add(self, field: Field, number: u64) {
        self.0[field as usize].fetch_add(number, Relaxed);
    }

    /// Counts one less.
    pub(super) fn take_one(self, field: Field) {
        // The manager may have set the number to zero.
        let _ = self.0[field as usize].fetch_update(Relaxed, Relaxed, |number| number.checked_sub(1));
    }

    /// Whether a request waits whose child has no lease at all.
    pub(super) fn is_wanted(self) -> bool {
        in_order();
        self.0[Field::Wanted as usize].load(Relaxed) > 0
    }

    /// How many requests wait for a backend of the pool.
    pub(super) fn waiting(self) -> u64 {
        [Field::Waiting, Field::Behind].into_iter().map(|field| self.0[field as usize].load(Relaxed)).sum()
    }
}

/// Between a write to a row and the read of a lease's cell, or the other way round: of a child that keeps a lease and
/// a manager that looks for one, at least one sees what the other has written.
pub(super) fn in_order() {
    fence(SeqCst);
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The part of a name that a row has room for.
fn shortened(name: &str) -> &str {
    let mut end = name.len().min(NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The name in a row.
fn name_of(row: &[AtomicU64]) -> String {
    let words = &row[FIELDS..ROW - LEASE_CELLS];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// The cell for a lease in a row, if there is such a place.
pub(super) fn lease_cell(index: u64, place: u64) -> Option<LeaseCell> {
    let place = usize::try_from(place).ok().filter(|place| *place < LEASE_CELLS)?;
    let row = row(usize::try_from(index).ok()?)?;
    Some(LeaseCell(&row[ROW - LEASE_CELLS + place]))
}

/// The row of a pool, as long as its manager holds it.
#[derive(Debug)]
pub(super) struct Row(Option<(usize, &'static [AtomicU64])>);

impl Row {
    /// Takes a free row, or one whose manager has died.
    pub(super) fn take(name: &str) -> Row {
        let own = u64::from(Pid::own().number().unsigned_abs());
        let is_dead = |owner: u64| {
            let pid = i32::try_from(owner).ok().and_then(Pid::new);
            owner != 0 && pid.is_none_or(|pid| !pid.exists())
        };
        let mut rows = (0..ROWS).filter_map(|index| Some((index, row(index)?)));
        let taken = rows.find(|(_, row)| {
            let owner = row[Field::Owner as usize].load(Acquire);
            (owner == 0 || is_dead(owner))
                && row[Field::Owner as usize].compare_exchange(owner, own, Release, Relaxed).is_ok()
        });
        if let Some((_, row)) = taken {
            row[1..].iter().for_each(|number| number.store(0, Relaxed));
            for (word, bytes) in row[FIELDS..].iter().zip(shortened(name).as_bytes().chunks(NUMBER)) {
                let mut whole = [0; NUMBER];
                whole[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_ne_bytes(whole), Relaxed);
            }
        }
        Row(taken)
    }

    /// The row of a pool that is shown nowhere.
    pub(super) fn none() -> Row {
        Row(None)
    }

    /// Its number; the largest number means none.
    pub(super) fn index(&self) -> u64 {
        self.0.map_or(u64::MAX, |(index, _)| index as u64)
    }

    pub(super) fn set(&self, field: Field, value: u64) {
        if let Some((_, row)) = self.0 {
            row[field as usize].store(value, Relaxed);
        }
    }

    /// The number, if there is a row.
    pub(super) fn get(&self, field: Field) -> Option<u64> {
        self.0.map(|(_, row)| row[field as usize].load(Relaxed))
    }

    pub(super) fn add(&self, field: Field, value: u64) {
        if let Some((_, row)) = self.0 {
            row[field as usize].fetch_add(value, Relaxed);
        }
    }

    pub(super) fn ended(&self, reason: Reason) {
        if let Some((_, row)) = self.0 {
            row[Field::Ended as usize + reason as usize].fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.set(Field::Owner, 0);
    }
}

impl PoolStats {
    /// The average times that a request waited for a backend and was served, in seconds.
    pub fn averages(&self) -> (f64, f64) {
        let each = |total: f64| total / self.served.max(1) as f64;
        (each(self.waited), each(self.worked))
    }

    /// The reasons why backends ended, if any did.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.ended.iter().copied().filter(|(_, number)| *number > 0)
    }
}

/// All pools as they are now, by name; those of several generations are merged.
pub fn pools() -> Vec<PoolStats> {
    let mut pools: Vec<PoolStats> = Vec::new();
    for row in (0..ROWS).filter_map(row).filter(|row| row[Field::Owner as usize].load(Acquire) != 0) {
        let number = |field: Field| row[field as usize].load(Relaxed);
        let seconds = |field: Field| number(field) as f64 / 1e6;
        let (name, cells) = (name_of(row), &row[ROW - LEASE_CELLS..]);
        let ended =
            Reason::ALL.map(|(reason, name)| (name, row[Field::Ended as usize + reason as usize].load(Relaxed)));
        let index = pools.iter().position(|pool| pool.name == name).unwrap_or_else(|| {
            let ended = ended.iter().map(|(name, _)| (*name, 0)).collect();
            pools.push(PoolStats { name, ended, ..PoolStats::default() });
            pools.len() - 1
        });
        let pool = &mut pools[index];
        pool.size += number(Field::Size);
        // Backends whose lease a child merely keeps serve nobody.
        let kept = cells.iter().filter(|cell| lease_state::is_kept(cell.load(Relaxed))).count() as u64;
        pool.busy += number(Field::Busy).saturating_sub(kept);
        pool.max = pool.max.max(number(Field::Max));
        pool.waiting += PoolRow(row).waiting();
        pool.memory += number(Field::Memory);
        pool.started += number(Field::Started);
        pool.served += number(Field::Served);
        pool.refused += number(Field::Refused);
        pool.waited += seconds(Field::Waited);
        pool.worked += seconds(Field::Worked);
        pool.longest_wait = pool.longest_wait.max(seconds(Field::LongestWait));
        pool.ended.iter_mut().zip(ended).for_each(|(sum, (_, number))| sum.1 += number);
    }
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    pools
}
