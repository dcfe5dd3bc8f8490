//! The statistics of pools: rows in memory that all processes of the server share. The process manager and the holders
//! of leases write them, and pages read them without asking anybody.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
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
const FIELDS: usize = 12 + Reason::ALL.len();
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

/// Counts a request that a backend of this row's pool has served for `worked`.
pub(super) fn count_served(index: u64, worked: Duration) {
    if let Some(row) = usize::try_from(index).ok().and_then(row) {
        row[Field::Served as usize].fetch_add(1, Relaxed);
        row[Field::Worked as usize].fetch_add(u64::try_from(worked.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }
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
            let mut end = name.len().min(NAME);
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            for (word, bytes) in row[FIELDS..].iter().zip(name.as_bytes()[..end].chunks(NUMBER)) {
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

    pub(super) fn raise(&self, field: Field, value: u64) {
        if let Some((_, row)) = self.0 {
            row[field as usize].fetch_max(value, Relaxed);
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
        let (name, cells) = row[FIELDS..].split_at(ROW - LEASE_CELLS - FIELDS);
        let bytes: Vec<u8> = name.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
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
        pool.waiting += number(Field::Waiting);
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
