//! Certificates that a running server replaces without a restart, in memory shared by all its processes.
//!
//! The parent allocates the memory before it forks any process to serve a configuration. A process that may read keys
//! writes a new set there as DER ([`Published::publish`]) and increments a number; a child checks the number in every
//! handshake, and reads its part if the number has changed. Sets alternate between two places, so a writer does not
//! touch the one in use. Only if two more sets are written during one read does a reader lose its place, and it notices
//! that by the number. An incomplete set never becomes visible.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use sys::shared_lock;
use sys::shm::Shared;

/// Spare room for later sets, in words, in addition to four times the initial size: untouched pages cost nothing.
const SPARE: usize = 32 << 10;
/// Additional spare room for each virtual host, in words.
const SPARE_OF_HOST: usize = 2 << 10;
/// Words at the start: the writers' lock, and the number of the set in effect.
const HEAD: usize = 2;
/// Words of a virtual host's entry in a place: the start of its part, the number of its certificates, the size of their
/// bytes, and the number of the set that brought this part.
const ENTRY: usize = 4;

/// The certificates of one virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// The end of each certificate's validity, in seconds since 1970.
    pub(super) ends: Vec<i64>,
    /// The certificates, in a format that the reader defines.
    pub(super) bytes: Vec<u8>,
}

impl Part {
    fn words(&self) -> usize {
        self.ends.len() + self.bytes.len().div_ceil(8)
    }
}

/// The shared memory.
pub(super) struct Published {
    words: Shared<AtomicU64>,
    /// The size of one of the two places, in words.
    room: usize,
}

impl Published {
    /// Allocates memory for a server that starts with `parts`. They are not stored: the server's processes have them
    /// already.
    pub(super) fn new(parts: &[Part]) -> io::Result<Published> {
        let begin: usize = parts.iter().map(|part| ENTRY + SPARE_OF_HOST + 4 * part.words()).sum();
        let room = begin + SPARE;
        Ok(Published { words: Shared::new(HEAD + 2 * room)?, room })
    }

    /// The number of the set in effect; 0: the server's initial set.
    pub(super) fn number(&self) -> u64 {
        self.words[1].load(Acquire)
    }

    /// Puts a new set into effect. `Err`: why that is impossible.
    pub(super) fn publish(&self, parts: &[Part]) -> Result<u64, String> {
        self.write(parts, None).map(Option::unwrap_or_default)
    }

    /// Puts a new set into effect in place of the set with the number `seen`. `None`: another one is in effect by now.
    pub(super) fn publish_after(&self, seen: u64, parts: &[Part]) -> Result<Option<u64>, String> {
        self.write(parts, Some(seen))
    }

    fn write(&self, parts: &[Part], seen: Option<u64>) -> Result<Option<u64>, String> {
        let needed: usize = parts.iter().map(|part| ENTRY + part.words()).sum();
        if needed > self.room {
            return Err(format!(
                "the certificates need {} KiB, and there is room for {} KiB",
                needed / 128,
                self.room / 128
            ));
        }
        let held =
            shared_lock::lock(&self.words[0]).ok_or("another process is writing certificates, and does not finish")?;
        let before = self.number();
        if seen.is_some_and(|seen| seen != before) {
            return Ok(None);
        }
        let number = before + 1;
        // A host whose part stays the same keeps its number, so that no child reads the part again.
        let brought: Vec<u64> =
            parts.iter().enumerate().map(|(host, part)| self.kept(before, host, part).unwrap_or(number)).collect();
        let place = self.place(number);
        // A reader that still reads the old contents of this place and sees any of the new ones also sees the number
        // that made the old ones obsolete.
        fence(Release);
        let mut start = ENTRY * parts.len();
        for ((entry, part), brought) in place.chunks(ENTRY).zip(parts).zip(brought) {
            let numbers = [start as u64, part.ends.len() as u64, part.bytes.len() as u64, brought];
            entry.iter().zip(numbers).for_each(|(word, number)| word.store(number, Relaxed));
            let ends = part.ends.iter().map(|end| end.cast_unsigned());
            let bytes = part.bytes.chunks(8).map(word_of);
            place[start..].iter().zip(ends.chain(bytes)).for_each(|(word, value)| word.store(value, Relaxed));
            start += part.words();
        }
        self.words[1].store(number, Release);
        drop(held);
        Ok(Some(number))
    }

    /// The number of the set that brought a host's part, if the set `before` has the same part.
    fn kept(&self, before: u64, host: usize, part: &Part) -> Option<u64> {
        let place = if before == 0 { return None } else { self.place(before) };
        let [start, count, length, brought] = entry(place, host)?;
        let words = place.get(start..)?.get(..part.words())?;
        let new = part.ends.iter().map(|end| end.cast_unsigned()).chain(part.bytes.chunks(8).map(word_of));
        let is_same = (count, length) == (part.ends.len(), part.bytes.len());
        (is_same && words.iter().map(|word| word.load(Relaxed)).eq(new)).then_some(brought as u64)
    }

    /// The number of the set that brought the part of a virtual host; 0: the initial set is in effect.
    pub(super) fn brought(&self, host: usize) -> u64 {
        self.read(|place| entry(place, host).map(|[.., brought]| brought as u64)).map_or(0, |(_, brought)| brought)
    }

    /// The part of a virtual host in the set in effect, with the set's number. `None`: the initial set is in effect.
    pub(super) fn part(&self, host: usize) -> Option<(u64, Part)> {
        self.read(|place| {
            let [start, count, length, _] = entry(place, host)?;
            let words = place.get(start..)?.get(..count + length.div_ceil(8))?;
            let (ends, bytes) = words.split_at(count);
            let mut bytes: Vec<u8> = bytes.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
            bytes.truncate(length);
            Some(Part { ends: ends.iter().map(|end| end.load(Relaxed).cast_signed()).collect(), bytes })
        })
    }

    /// The ends of validity of a virtual host's certificates, from its [`part`](Self::part).
    pub(super) fn ends(&self, host: usize) -> Option<Vec<i64>> {
        let read = self.read(|place| {
            let [start, count, ..] = entry(place, host)?;
            let ends = place.get(start..)?.get(..count)?;
            Some(ends.iter().map(|end| end.load(Relaxed).cast_signed()).collect())
        });
        read.map(|(_, ends)| ends)
    }

    /// Repeats a read until no writer has interfered.
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

/// The entry of a virtual host, limited to the size of the place: while a process writes, the words may come from two
/// sets.
fn entry(place: &[AtomicU64], host: usize) -> Option<[usize; ENTRY]> {
    let words = place.get(host * ENTRY..)?.get(..ENTRY)?;
    let word = |at: usize| usize::try_from(words[at].load(Relaxed)).ok();
    let number = |at: usize| word(at).filter(|number| *number <= place.len() * 8);
    Some([number(0)?, number(1)?, number(2)?, word(3)?])
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

    /// A part that stays is not read again; a set that somebody else has replaced meanwhile is not overwritten.
    #[test]
    fn a_part_that_stays_keeps_its_number() {
        let published = Published::new(&[Part::default(), Part::default()]).expect("memory");
        assert_eq!(published.brought(0), 0);
        let (one, other) = (part(&[1], b"one"), part(&[2], b"other"));
        for (set, brought) in [([&one, &other], [1, 1]), ([&other, &other], [2, 1]), ([&other, &one], [2, 3])] {
            published.publish(&set.map(Part::clone)).expect("room");
            assert_eq!([0, 1].map(|host| published.brought(host)), brought);
        }
        assert_eq!(published.publish_after(2, &[one.clone(), other.clone()]), Ok(None));
        assert_eq!(published.publish_after(3, &[one, other]), Ok(Some(4)));
    }

    #[test]
    fn a_set_that_does_not_fit_changes_nothing() {
        let published = Published::new(&[Part::default()]).expect("memory");
        assert!(published.publish(&[part(&[], &vec![0; 1 << 20])]).is_err());
        assert_eq!(published.number(), 0);
    }

    /// A reader sees one set or the other, never a mixture.
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
