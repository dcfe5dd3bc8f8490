//! How many connections each client has open, summed over all children.
//!
//! Each child has a table of its own, which nobody else changes. When a child has ended, in whatever way, the parent makes its table
//! void with one number: nothing has to be taken back, so a child that is killed leaves no client with connections that do not exist.
//! A client is a number, such as a digest of its address; only the module that counts knows what it stands for.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use sys::shm::Shared;

/// Under how many numbers a connection may count: as the client's, as one of its network, and so on.
pub const NUMBERS_MAX: usize = 8;

/// Places of a child whose workers have several connections at a time: 512 KiB, of which memory that was never used costs nothing.
const PLACES: usize = 1 << 16;
/// A client of such a child has one of so many places: a cache line.
const WAYS: usize = 8;

/// A place, in one word: whose connections, in which life of the child's slot, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u64,
    life: u64,
    count: u64,
}

const TAG_BITS: u32 = 28;
const LIFE_BITS: u32 = 20;
const COUNT_MAX: u64 = (1 << (64 - TAG_BITS - LIFE_BITS)) - 1;

impl Entry {
    fn of(word: u64) -> Entry {
        Entry {
            tag: word & mask(TAG_BITS),
            life: word >> TAG_BITS & mask(LIFE_BITS),
            count: word >> (TAG_BITS + LIFE_BITS),
        }
    }

    fn word(self) -> u64 {
        if self.count == 0 { 0 } else { self.tag | self.life << TAG_BITS | self.count << (TAG_BITS + LIFE_BITS) }
    }

    fn is(self, client: u64, life: u64) -> bool {
        self.count > 0 && self.life == life && self.tag == client & mask(TAG_BITS)
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The tables of all children.
#[derive(Debug)]
pub(super) struct ClientCounts {
    places: Shared<AtomicU64>,
    /// The life of each slot: entries of earlier lives are void.
    lives: Shared<AtomicU64>,
    per_process: usize,
    ways: usize,
}

impl ClientCounts {
    /// For so many children, each with so many workers. `one_each`: a worker has one connection at a time, so a child cannot have more
    /// clients.
    pub(super) fn new(processes: usize, workers: usize, one_each: bool) -> io::Result<ClientCounts> {
        let all = workers * NUMBERS_MAX;
        let (per_process, ways) = if one_each { (all, all) } else { (PLACES, WAYS) };
        let places = processes.checked_mul(per_process).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(ClientCounts { places: Shared::new(places)?, lives: Shared::new(processes)?, per_process, ways })
    }

    /// The places that a client may have in the table of a child.
    fn ways(&self, slot: usize, client: u64) -> &[AtomicU64] {
        let sets = (self.per_process / self.ways).max(1);
        let set = (client >> TAG_BITS) as usize % sets;
        &self.places[slot * self.per_process + set * self.ways..][..self.ways]
    }

    fn life(&self, slot: usize) -> u64 {
        self.lives[slot].load(Relaxed) & mask(LIFE_BITS)
    }

    /// Counts one more. `false`: there is no place for a further client.
    pub(super) fn enter(&self, slot: usize, client: u64) -> bool {
        let life = self.life(slot);
        loop {
            let seen = self.ways(slot, client).iter().map(|place| (place, place.load(Relaxed)));
            let mut free = None;
            let mut own = None;
            for (place, word) in seen {
                match Entry::of(word) {
                    entry if entry.is(client, life) => own = Some((place, word, entry.count)),
                    entry if entry.count == 0 || entry.life != life => free = free.or(Some((place, word, 0))),
                    _ => {}
                }
            }
            let Some((place, word, count)) = own.or(free).filter(|(.., count)| *count < COUNT_MAX) else {
                return false;
            };
            let next = Entry { tag: client & mask(TAG_BITS), life, count: count + 1 };
            if place.compare_exchange_weak(word, next.word(), Relaxed, Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Counts one fewer.
    pub(super) fn leave(&self, slot: usize, client: u64) {
        let life = self.life(slot);
        let fewer = |word| {
            let entry = Entry::of(word);
            entry.is(client, life).then(|| Entry { count: entry.count - 1, ..entry }.word())
        };
        // Threads that have entered at the same moment may have taken two places.
        let _ = self.ways(slot, client).iter().find(|place| place.fetch_update(Relaxed, Relaxed, fewer).is_ok());
    }

    /// How many connections a client has in the first `used` children.
    pub(super) fn of(&self, used: usize, client: u64) -> u64 {
        let of_child = |slot| {
            let life = self.life(slot);
            let entries = self.ways(slot, client).iter().map(|place| Entry::of(place.load(Relaxed)));
            entries.filter(|entry| entry.is(client, life)).map(|entry| entry.count).sum::<u64>()
        };
        (0..used).map(of_child).sum()
    }

    /// Makes the table of a child void that has ended.
    pub(super) fn retire(&self, slot: usize) {
        self.lives[slot].fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: u64 = 0x1234_5678_9abc_def0;

    #[test]
    fn a_child_that_is_gone_has_no_clients() {
        for one_each in [true, false] {
            let counts = ClientCounts::new(3, 4, one_each).expect("memory");
            for slot in [0, 0, 2, 2, 2] {
                assert!(counts.enter(slot, CLIENT));
            }
            assert!(counts.enter(0, !CLIENT));
            assert_eq!((counts.of(3, CLIENT), counts.of(2, CLIENT), counts.of(3, !CLIENT)), (5, 2, 1), "{one_each}");
            counts.leave(0, CLIENT);
            assert_eq!(counts.of(3, CLIENT), 4);
            counts.retire(2);
            assert_eq!(counts.of(3, CLIENT), 1);
            // Nothing is left to leave, and the places are free again.
            counts.leave(2, CLIENT);
            assert!((0..4).all(|other| counts.enter(2, CLIENT + other)));
            assert_eq!(counts.of(3, CLIENT), 2);
        }
    }

    #[test]
    fn a_full_table_takes_nobody_else() {
        let counts = ClientCounts::new(1, 1, true).expect("memory");
        assert!((1..=8).all(|client| counts.enter(0, client)) && !counts.enter(0, 9) && counts.enter(0, 2));
        assert_eq!([1, 2, 9].map(|client| counts.of(1, client)), [1, 2, 0]);
        counts.leave(0, 9);
        counts.leave(0, 1);
        assert!(counts.enter(0, 9));
    }

    #[test]
    fn threads_count_together() {
        let counts = ClientCounts::new(1, 64, false).expect("memory");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..1000 {
                        assert!(counts.enter(0, CLIENT));
                        if round >= 10 {
                            counts.leave(0, CLIENT);
                        }
                    }
                });
            }
        });
        assert_eq!(counts.of(1, CLIENT), 40);
    }
}
