//! URLs and virtual hosts that are asked for often, or take long: a table of fixed size that forgets what is rare.
//!
//! A visit costs a hash, a look at one cache line of keys, and a few additions; nobody waits for anybody. Counts are kept for
//! the present five minutes and for the five before, so the table says what happens now. There are four tables of 90 KiB, each
//! for a quarter of the children, so that a URL that everybody wants is not one cache line for all processors.

use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use sys::shm::Shared;

use super::clock::{micros, now};

const TABLES: usize = 4;
/// A key may stand in one of so many slots.
const WAYS: usize = 8;
/// Sets of slots for URLs, and for virtual hosts.
const URLS: usize = 32;
const HOSTS: usize = 8;
const SETS: usize = URLS + HOSTS;

/// Words of a slot: twelve numbers, a name of 48 bytes and a path of 112. The first row of a set holds its keys.
const WORDS: usize = COUNTS + 2 * KINDS + NAME + PATH;
const COUNTS: usize = 2;
const NAME: usize = 6;
const PATH: usize = 14;
type Row = [AtomicU64; WORDS];
type Set = [Row; 1 + WAYS];

/// Counts are kept for so many seconds, and for as many before.
const PERIOD: u64 = 300;
/// A key that is being replaced.
const TAKEN: u64 = u64::MAX;
/// How heavy a slot gets at most: so many visits of others push it out when it is not visited any more.
const HEAVIEST: u64 = 10_000;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// The virtual host with its port.
    pub host: &'a [u8],
    /// The path of the URL, as it was sent.
    pub path: &'a [u8],
    /// The status of the response.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
    /// When it was answered: time since 1970.
    pub ended: Duration,
    /// A script ran for it.
    pub script: bool,
}

/// The keys of a virtual host and of a URL there.
#[derive(Clone, Copy, Debug)]
pub struct VisitKeys {
    host: u64,
    url: u64,
}

impl VisitKeys {
    /// Of a virtual host with its port, and a path as it was sent.
    pub fn new(host: &[u8], path: &[u8]) -> VisitKeys {
        let host = key(0, host);
        VisitKeys { host, url: key(host, path) }
    }
}

/// What is known of a URL or a virtual host: its visits of the last five to ten minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisitStats {
    /// The virtual host with its port, cut to 48 bytes.
    pub host: String,
    /// The path, cut to 112 bytes; empty for a virtual host.
    pub path: String,
    /// Requests.
    pub requests: u64,
    /// Requests answered with 5xx.
    pub failures: u64,
    /// Requests for which a script ran.
    pub scripts: u64,
    /// How long all took together, in µs.
    pub time: u64,
    /// How long the slowest took, in µs.
    pub slowest: u64,
}

/// What was visited, in no order.
#[derive(Clone, Debug, Default)]
pub struct Visited {
    /// By URL.
    pub urls: Vec<VisitStats>,
    /// By virtual host.
    pub hosts: Vec<VisitStats>,
}

#[derive(Debug)]
pub(super) struct Visits(Shared<Set>);

/// The numbers of a period.
#[derive(Clone, Copy)]
enum VisitField {
    Requests,
    Failures,
    Scripts,
    Time,
    Slowest,
}
const KINDS: usize = 5;

impl Visits {
    pub(super) fn new() -> io::Result<Visits> {
        Ok(Visits(Shared::new(TABLES * SETS)?))
    }

    /// Counts a visit that the child in a slot answered.
    pub(super) fn count(&self, slot: usize, VisitKeys { host, url }: VisitKeys, visit: Visit<'_>) {
        let period = micros(visit.ended) / 1_000_000 / PERIOD;
        let (urls, hosts) = self.table(slot).split_at(URLS);
        count(&hosts[index(host, HOSTS)], host, &Visit { path: b"", ..visit }, period);
        count(&urls[index(url, URLS)], url, &visit, period);
    }

    /// What was visited in the last minutes.
    pub(super) fn visited(&self) -> Visited {
        let period = now() / 1_000_000 / PERIOD;
        let mut visited = Visited::default();
        for table in 0..TABLES {
            for (index, set) in self.table(table).iter().enumerate() {
                let into = if index < URLS { &mut visited.urls } else { &mut visited.hosts };
                known(set, period).for_each(|stats| join(into, stats));
            }
        }
        visited
    }

    pub(super) fn forget(&self) {
        self.0.iter().flatten().flatten().for_each(|word| word.store(0, Relaxed));
    }

    /// The table of a process slot.
    fn table(&self, slot: usize) -> &[Set] {
        &self.0[slot % TABLES * SETS..][..SETS]
    }
}

/// What another table knows of the same URL or virtual host is added to what is known.
fn join(all: &mut Vec<VisitStats>, new: VisitStats) {
    match all.iter_mut().find(|known| known.path == new.path && known.host == new.host) {
        None => all.push(new),
        Some(known) => {
            known.requests += new.requests;
            known.failures += new.failures;
            known.scripts += new.scripts;
            known.time += new.time;
            known.slowest = known.slowest.max(new.slowest);
        }
    }
}

/// A number for a text, never one that means something else.
fn key(start: u64, text: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (whole, rest) = text.as_chunks();
    let last = rest.iter().fold(rest.len() as u64, |word, byte| word << 8 | u64::from(*byte));
    let words = whole.iter().map(|word| u64::from_ne_bytes(*word)).chain([last]);
    let mixed = words.fold(start, |key, word| (key.rotate_left(23) ^ word).wrapping_mul(FACTOR));
    (mixed ^ mixed >> 32).clamp(1, TAKEN - 1)
}

fn index(key: u64, sets: usize) -> usize {
    (key >> 8) as usize % sets
}

fn count([keys, slots @ ..]: &Set, key: u64, visit: &Visit<'_>, period: u64) {
    let keys = &keys[..WAYS];
    let found = keys.iter().position(|known| known.load(Relaxed) == key);
    let Some(way) = found.or_else(|| claim(keys, slots, key, visit, period)) else { return };
    let slot = &slots[way];
    let [began, weight, ..] = slot;
    begin_period(slot, began, period);
    let took = micros(visit.took);
    // What takes long counts for more than what is asked for often: it is kept, too.
    if weight.load(Relaxed) < HEAVIEST {
        weight.fetch_add(1 + took / 10_000, Relaxed);
    }
    let add = |kind, by| at(slot, kind, 0).fetch_add(by, Relaxed);
    add(VisitField::Requests, 1);
    add(VisitField::Time, took);
    if visit.status >= 500 {
        add(VisitField::Failures, 1);
    }
    if visit.script {
        add(VisitField::Scripts, 1);
    }
    if at(slot, VisitField::Slowest, 0).load(Relaxed) < took {
        at(slot, VisitField::Slowest, 0).fetch_max(took, Relaxed);
    }
}

/// A number of the present period (`age` 0), or of the one before.
fn at(slot: &Row, kind: VisitField, age: usize) -> &AtomicU64 {
    &slot[COUNTS + age * KINDS + kind as usize]
}

const ALL: [VisitField; KINDS] =
    [VisitField::Requests, VisitField::Failures, VisitField::Scripts, VisitField::Time, VisitField::Slowest];

/// Where a new period has begun, its counts begin again. A visit that is counted at that very moment may be lost.
fn begin_period(slot: &Row, began: &AtomicU64, period: u64) {
    let seen = began.load(Relaxed);
    // Whoever ended just before counts into the new period.
    if seen == period || seen == period + 1 || began.compare_exchange(seen, period, AcqRel, Relaxed).is_err() {
        return;
    }
    for kind in ALL {
        let past = at(slot, kind, 0).swap(0, Relaxed);
        at(slot, kind, 1).store(if seen + 1 == period { past } else { 0 }, Relaxed);
    }
}

/// Takes the lightest slot of a set, or makes it lighter; `None`: not yet.
fn claim(keys: &[AtomicU64], slots: &[Row], key: u64, visit: &Visit<'_>, period: u64) -> Option<usize> {
    // What was not visited for two periods is nothing any more.
    let weight = |way: &usize| {
        let [began, weight, ..] = &slots[*way];
        if began.load(Relaxed) + 1 < period { 0 } else { weight.load(Relaxed) }
    };
    let way = (0..WAYS).min_by_key(weight)?;
    let ([began, rest @ ..], before) = (&slots[way], keys[way].load(Relaxed));
    if weight(&way) > 1 {
        rest[0].fetch_sub(1, Relaxed);
        return None;
    }
    // Somebody takes it now, or has died with it: then it is free in a few minutes.
    if before == TAKEN && began.load(Relaxed) + 1 >= period {
        return None;
    }
    keys[way].compare_exchange(before, TAKEN, AcqRel, Relaxed).ok()?;
    began.store(period, Relaxed);
    fence(Release);
    rest.iter().for_each(|word| word.store(0, Relaxed));
    let (name, path) = slots[way][COUNTS + 2 * KINDS..].split_at(NAME);
    for (words, text) in [(name, visit.host), (path, visit.path)] {
        for (word, bytes) in words.iter().zip(text.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
    }
    keys[way].store(key, Release);
    Some(way)
}

/// What a set knows of the last two periods.
fn known([keys, slots @ ..]: &Set, period: u64) -> impl Iterator<Item = VisitStats> {
    keys.iter().zip(slots).filter_map(move |(key, slot)| {
        let before = key.load(Acquire);
        if before == 0 || before == TAKEN {
            return None;
        }
        let age = period.saturating_sub(slot[0].load(Relaxed));
        let number = |kind, past: usize| if age as usize + past < 2 { at(slot, kind, past).load(Relaxed) } else { 0 };
        let sum = |kind| number(kind, 0) + number(kind, 1);
        let (name, path) = slot[COUNTS + 2 * KINDS..].split_at(NAME);
        let read = VisitStats {
            host: text(name),
            path: text(path),
            requests: sum(VisitField::Requests),
            failures: sum(VisitField::Failures),
            scripts: sum(VisitField::Scripts),
            time: sum(VisitField::Time),
            slowest: number(VisitField::Slowest, 0).max(number(VisitField::Slowest, 1)),
        };
        fence(Acquire);
        (key.load(Relaxed) == before && read.requests > 0).then_some(read)
    })
}

fn text(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
