//! Certificates that a running server takes in without a restart, in memory that all its processes share.
//!
//! The parent makes the memory when a configuration is about to be served, before it forks anybody. Whichever of its processes may
//! read keys ([`Published::publish`]) puts a new set there, as DER, and raises a number; a child looks at the number with every
//! handshake, and reads its part when that has changed. Two places take turns: what children read is never written to, unless two
//! more sets come while one of them reads, which it notices by the number. A set that was not written to its end is never seen.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use sys::shared_lock;
use sys::shm::Shared;

/// Room for what comes later, in words, beside four times of what there is: pages that nobody writes to cost nothing.
const SPARE: usize = 32 << 10;
/// The same for each virtual host.
const SPARE_OF_HOST: usize = 2 << 10;
/// Words in front: a lock for those who write, and the number of the set.
const HEAD: usize = 2;
/// Words that a place has for a virtual host: where its part begins, how many certificates it has, how many bytes they are.
const ENTRY: usize = 3;

/// The certificates of one virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// When each of them ends, in seconds since 1970.
    pub(super) ends: Vec<i64>,
    /// What they are, in a form of the reader's own.
    pub(super) bytes: Vec<u8>,
}

impl Part {
    fn words(&self) -> usize {
        self.ends.len() + self.bytes.len().div_ceil(8)
    }
}

/// The memory.
pub(super) struct Published {
    words: Shared<AtomicU64>,
    /// Words of one of the two places.
    room: usize,
}

impl Published {
    /// Makes it, for a server that begins with `parts`, which are not put into it: its processes have them already.
    pub(super) fn new(parts: &[Part]) -> io::Result<Published> {
        let begin: usize = parts.iter().map(|part| ENTRY + SPARE_OF_HOST + 4 * part.words()).sum();
        let room = begin + SPARE;
        Ok(Published { words: Shared::new(HEAD + 2 * room)?, room })
    }

    /// The number of the set that is in effect; 0: the one that the server began with.
    pub(super) fn number(&self) -> u64 {
        self.words[1].load(Acquire)
    }

    /// Puts a new set in effect. `Err`: why it cannot be.
    pub(super) fn publish(&self, parts: &[Part]) -> Result<u64, String> {
        let needed: usize = parts.iter().map(|part| ENTRY + part.words()).sum();
        if needed > self.room {
            return Err(format!(
                "the certificates need {} KiB, and there is room for {} KiB",
                needed / 128,
                self.room / 128
            ));
        }
        let held =
            shared_lock::lock(&self.words[0]).ok_or("another process is writing certificates, and does not end")?;
        let number = self.number() + 1;
        let place = self.place(number);
        // Whoever still reads what stood here before, and sees any of what is written now, sees the number that made it old, too.
        fence(Release);
        let mut start = ENTRY * parts.len();
        for (entry, part) in place.chunks(ENTRY).zip(parts) {
            let numbers = [start, part.ends.len(), part.bytes.len()];
            entry.iter().zip(numbers).for_each(|(word, number)| word.store(number as u64, Relaxed));
            let ends = part.ends.iter().map(|end| end.cast_unsigned());
            let bytes = part.bytes.chunks(8).map(word_of);
            place[start..].iter().zip(ends.chain(bytes)).for_each(|(word, value)| word.store(value, Relaxed));
            start += part.words();
        }
        self.words[1].store(number, Release);
        drop(held);
        Ok(number)
    }

    /// The part of a virtual host in the set that is in effect, with the set's number. `None`: there is none, but that which the
    /// server began with.
    pub(super) fn part(&self, host: usize) -> Option<(u64, Part)> {
        self.read(|place| {
            let [start, count, length] = entry(place, host)?;
            let words = place.get(start..)?.get(..count + length.div_ceil(8))?;
            let (ends, bytes) = words.split_at(count);
            let mut bytes: Vec<u8> = bytes.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
            bytes.truncate(length);
            Some(Part { ends: ends.iter().map(|end| end.load(Relaxed).cast_signed()).collect(), bytes })
        })
    }

    /// When the certificates of a virtual host end, as [`part`](Self::part) has it.
    pub(super) fn ends(&self, host: usize) -> Option<Vec<i64>> {
        let read = self.read(|place| {
            let [start, count, _] = entry(place, host)?;
            let ends = place.get(start..)?.get(..count)?;
            Some(ends.iter().map(|end| end.load(Relaxed).cast_signed()).collect())
        });
        read.map(|(_, ends)| ends)
    }

    /// Reads until nobody has written meanwhile.
    fn read<T>(&self, read: impl Fn(&[AtomicU64]) -> Option<T>) -> Option<(u64, T)> {
        loop {
            let number = self.number();
            let found = if number == 0 { return None } else { read(self.place(number)) };
            fence(Acquire);
            if self.words[1].load(Relaxed) == number {
                return found.map(|found| (number, found));
            }
        }
    }

    fn place(&self, number: u64) -> &[AtomicU64] {
        let start = HEAD + self.room * usize::from(number % 2 == 1);
        &self.words[start..start + self.room]
    }
}

/// Never more than the place has: what stands there may be of two sets at once while somebody writes.
fn entry(place: &[AtomicU64], host: usize) -> Option<[usize; ENTRY]> {
    let words = place.get(host * ENTRY..)?.get(..ENTRY)?;
    let number = |at: usize| usize::try_from(words[at].load(Relaxed)).ok().filter(|number| *number <= place.len() * 8);
    Some([number(0)?, number(1)?, number(2)?])
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(ends: &[i64], bytes: &[u8]) -> Part {
        Part { ends: ends.to_vec(), bytes: bytes.to_vec() }
    }

    #[test]
    fn sets_follow_one_another() {
        let first = [part(&[5], b"one"), Part::default(), part(&[-1, 7], b"two and more")];
        let published = Published::new(&first).expect("memory");
        assert_eq!((published.number(), published.part(0), published.ends(2)), (0, None, None));
        for number in 1..5 {
            let set = [part(&[number], b"eightbyt"), Part::default(), part(&[1, number], &[number as u8; 21])];
            assert_eq!(published.publish(&set), Ok(number.cast_unsigned()));
            for (host, part) in set.into_iter().enumerate() {
                assert_eq!(published.ends(host), Some(part.ends.clone()));
                assert_eq!(published.part(host), Some((number.cast_unsigned(), part)));
            }
            assert_eq!(published.part(1 << 20), None);
        }
    }

    #[test]
    fn what_has_no_room_changes_nothing() {
        let published = Published::new(&[Part::default()]).expect("memory");
        assert!(published.publish(&[part(&[], &vec![0; 1 << 20])]).is_err());
        assert_eq!(published.number(), 0);
    }

    /// A reader sees one set or the other, never both.
    #[test]
    fn nobody_reads_half_a_set() {
        let published = Published::new(&[Part::default()]).expect("memory");
        let set = |byte: u8| part(&[i64::from(byte)], &[byte; 4000]);
        published.publish(&[set(1)]).expect("room");
        std::thread::scope(|scope| {
            scope.spawn(|| (2..=200).for_each(|byte| _ = published.publish(&[set(byte)]).expect("room")));
            loop {
                let (_, read) = published.part(0).expect("a set");
                let byte = read.bytes[0];
                assert_eq!(read, set(byte));
                if byte == 200 {
                    break;
                }
            }
        });
    }
}
