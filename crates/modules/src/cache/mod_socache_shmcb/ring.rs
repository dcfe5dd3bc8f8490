//! Objects of any size in memory that all children share.
//!
//! The memory is divided into segments. A segment is a ring of words, into which objects are written one behind the other: what a
//! new one overwrites is forgotten. Where an object lies is in one of a few places that belong to its key. Writing holds the lock of
//! the segment; reading copies without it, and looks afterwards whether the object is still there.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use server::module::Unchanged;
use sha2::{Digest, Sha256};
use sys::shared_lock;
use sys::shm::Shared;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// The size of a segment, unless there would be too many, in words.
const SEGMENT: usize = 512 * 1024 / WORD;
/// The most segments.
const SEGMENTS_MAX: usize = 64;
/// An object may take this part of a segment, so that one large object does not displace all others.
const PART: usize = 4;
/// Words of a ring for each place of an object, so many that small objects do not waste it.
const WORDS_OF_PLACE: usize = 64;
/// The places that belong to a key.
const SET: usize = 8;

/// The words of a segment before its places: its lock, and the number of words that were ever written.
const LOCK: usize = 0;
const HEAD: usize = 1;
const HEADER: usize = 2;

/// The words of a place: the key's digest, when the object expires, its position, its length in bytes.
const END: usize = 4;
const POSITION: usize = 5;
const LENGTH: usize = 6;
const PLACE: usize = 7;

/// The memory.
pub(super) struct Ring {
    words: Shared<AtomicU64>,
    segments: usize,
    /// The sets of places in a segment.
    sets: usize,
    /// The words of a segment's ring.
    length: usize,
}

/// The digest of a key: nobody can make another key with the same one.
type Key = [u64; 4];

fn digest(key: &[u8]) -> Key {
    let digest: [u8; 32] = Sha256::digest(key).into();
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(digest.chunks_exact(WORD)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    words
}

fn now() -> u64 {
    sys::time::monotonic().as_secs()
}

/// A place of a segment that has an object.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Found {
    position: u64,
    bytes: usize,
}

impl Ring {
    /// Makes room for objects, within about this many bytes.
    pub(super) fn new(bytes: u64) -> io::Result<Ring> {
        let words = usize::try_from(bytes).unwrap_or(usize::MAX) / WORD;
        let segments = (words / SEGMENT).clamp(1, SEGMENTS_MAX);
        let own = words / segments;
        let sets = (own / (WORDS_OF_PLACE * SET)).max(1);
        let length = own.saturating_sub(HEADER + sets * SET * PLACE).max(1);
        let all = (HEADER + sets * SET * PLACE + length).checked_mul(segments).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Ring { words: Shared::new(all)?, segments, sets, length })
    }

    /// The largest object, in bytes.
    pub(super) fn most(&self) -> usize {
        self.length / PART * WORD
    }

    fn segment(&self, key: &Key) -> Segment<'_> {
        let size = HEADER + self.sets * SET * PLACE + self.length;
        let start = (key[0] % self.segments as u64) as usize * size;
        let (header, rest) = self.words[start..start + size].split_at(HEADER);
        let (places, ring) = rest.split_at(self.sets * SET * PLACE);
        let set = (key[1] % self.sets as u64) as usize * SET * PLACE;
        Segment { header, places, set: &places[set..set + SET * PLACE], ring }
    }

    /// The object under a key, unless it has expired or was overwritten.
    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let key = digest(key);
        let segment = self.segment(&key);
        let look = || {
            let _held = segment.lock()?;
            segment.find(&key)
        };
        let found = look()?;
        let mut bytes = Vec::with_capacity(found.bytes.next_multiple_of(WORD));
        for at in 0..found.bytes.div_ceil(WORD) as u64 {
            bytes.extend(segment.word(found.position + at).load(Relaxed).to_ne_bytes());
        }
        bytes.truncate(found.bytes);
        // Somebody may have overwritten it meanwhile.
        look().filter(|still| *still == found).map(|_| bytes)
    }

    /// Whether there still is the object that is under a key now: each change puts another one in another place. `None`: there is
    /// none.
    pub(super) fn watch(ring: Arc<Ring>, key: &[u8]) -> Option<Unchanged> {
        let key = digest(key);
        let look = move |ring: &Ring| {
            let segment = ring.segment(&key);
            let _held = segment.lock()?;
            segment.find(&key)
        };
        let found = look(&ring)?;
        Some(Box::new(move || look(&ring) == Some(found)))
    }

    /// Stores an object for so many seconds. `false`: it is too large, or the memory cannot be locked.
    pub(super) fn put(&self, key: &[u8], object: &[u8], seconds: u64) -> bool {
        let key = digest(key);
        let segment = self.segment(&key);
        let Some(_held) = segment.lock().filter(|_| object.len() <= self.most()) else { return false };
        let place = segment.place_for(&key);
        place[END].store(0, Relaxed);
        let position = segment.header[HEAD].load(Relaxed);
        segment.header[HEAD].store(position + object.len().div_ceil(WORD) as u64, Relaxed);
        for (at, part) in (position..).zip(object.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..part.len()].copy_from_slice(part);
            segment.word(at).store(u64::from_ne_bytes(whole), Relaxed);
        }
        place.iter().zip(key).for_each(|(word, part)| word.store(part, Relaxed));
        place[POSITION].store(position, Relaxed);
        place[LENGTH].store(object.len() as u64, Relaxed);
        place[END].store(now().saturating_add(seconds), Relaxed);
        true
    }

    /// Removes the object under a key.
    pub(super) fn remove(&self, key: &[u8]) {
        let key = digest(key);
        let segment = self.segment(&key);
        let Some(_held) = segment.lock() else { return };
        segment.set.chunks_exact(PLACE).filter(|place| is(place, &key)).for_each(|place| place[END].store(0, Relaxed));
    }
}

/// A segment, and the places in it that belong to a key.
struct Segment<'a> {
    header: &'a [AtomicU64],
    places: &'a [AtomicU64],
    set: &'a [AtomicU64],
    ring: &'a [AtomicU64],
}

impl<'a> Segment<'a> {
    fn lock(&self) -> Option<shared_lock::Held<'a>> {
        let held = shared_lock::lock(&self.header[LOCK])?;
        if held.inherited {
            // A process was killed in the middle of a change.
            self.places.chunks_exact(PLACE).for_each(|place| place[END].store(0, Relaxed));
        }
        Some(held)
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.ring[(position % self.ring.len() as u64) as usize]
    }

    /// Whether a place has an object that has neither expired nor been overwritten.
    fn is_good(&self, place: &[AtomicU64]) -> bool {
        let written = self.header[HEAD].load(Relaxed).saturating_sub(place[POSITION].load(Relaxed));
        place[END].load(Relaxed) > now() && written <= self.ring.len() as u64
    }

    fn find(&self, key: &Key) -> Option<Found> {
        let place = self.set.chunks_exact(PLACE).find(|place| is(place, key) && self.is_good(place))?;
        let bytes = usize::try_from(place[LENGTH].load(Relaxed)).ok()?;
        let position = place[POSITION].load(Relaxed);
        (bytes <= self.ring.len() * WORD).then_some(Found { position, bytes })
    }

    /// The place for an object: that of its key, one without a good object, or that of the oldest.
    fn place_for(&self, key: &Key) -> &'a [AtomicU64] {
        let rank = |place: &&[AtomicU64]| match () {
            () if is(place, key) => (0, 0),
            () if !self.is_good(place) => (1, 0),
            () => (2, place[POSITION].load(Relaxed)),
        };
        self.set.chunks_exact(PLACE).min_by_key(rank).unwrap_or(self.set)
    }
}

fn is(place: &[AtomicU64], key: &Key) -> bool {
    place.iter().zip(key).all(|(word, part)| word.load(Relaxed) == *part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_any_size_are_found_until_they_are_overwritten() {
        let ring = Ring::new(512_000).expect("memory");
        assert!(ring.most() > 102_400, "{}", ring.most());
        let object = |number: usize| vec![number as u8; number * 37 % 60_000];
        let key = |number: usize| format!("key {number}").into_bytes();
        for number in 0..200 {
            assert!(ring.put(&key(number), &object(number), 100));
            assert_eq!(ring.get(&key(number)), Some(object(number)), "{number}");
        }
        let found: Vec<usize> = (0..200).filter(|number| ring.get(&key(*number)).is_some()).collect();
        assert!(found.len() > 30 && found.ends_with(&[198, 199]), "{found:?}");
        assert!(found.iter().all(|number| ring.get(&key(*number)) == Some(object(*number))));
        assert_eq!(ring.get(&key(0)), None);
    }

    #[test]
    fn objects_are_replaced_removed_and_expire() {
        let ring = Ring::new(8192).expect("memory");
        assert!(ring.put(b"a", b"one", 100) && ring.put(b"b", b"", 100));
        assert_eq!([ring.get(b"a"), ring.get(b"b"), ring.get(b"c")], [Some(b"one".to_vec()), Some(Vec::new()), None]);
        assert!(ring.put(b"a", b"another", 100));
        assert_eq!(ring.get(b"a").as_deref(), Some(&b"another"[..]));
        ring.remove(b"a");
        assert_eq!(ring.get(b"a"), None);
        assert!(ring.put(b"a", b"over", 0) && ring.get(b"a").is_none());
        let most = ring.most();
        assert!(ring.put(b"a", &vec![1; most], 100) && !ring.put(b"a", &vec![1; most + 1], 100));
        assert_eq!(ring.get(b"a"), Some(vec![1; most]));
    }

    #[test]
    fn changes_are_seen() {
        let ring = Arc::new(Ring::new(8192).expect("memory"));
        let watch = |key: &[u8]| Ring::watch(ring.clone(), key);
        assert!(watch(b"a").is_none() && ring.put(b"a", b"one", 100));
        let is_same = watch(b"a").expect("an object");
        assert!(is_same() && ring.put(b"b", b"two", 100) && is_same());
        // Another object, even if it is equal.
        assert!(ring.put(b"a", b"one", 100) && !is_same());
        let is_same = watch(b"a").expect("an object");
        ring.remove(b"a");
        assert!(!is_same());
        assert!(ring.put(b"a", b"", 100));
        let is_same = watch(b"a").expect("an object");
        (0..100).for_each(|_| assert!(ring.put(b"b", &vec![0; ring.most()], 100)));
        assert!(!is_same(), "it was overwritten");
    }

    /// Threads that read and write at the same time never see a part of one object and a part of another.
    #[test]
    fn readers_never_see_a_mixture() {
        let ring = Ring::new(65_536).expect("memory");
        std::thread::scope(|scope| {
            for writer in 0..2_u8 {
                let ring = &ring;
                scope.spawn(move || {
                    for round in 0..2000_u32 {
                        let (key, byte) = (round % 5, (round % 251) as u8 ^ writer);
                        assert!(ring.put(&key.to_le_bytes(), &vec![byte; 1000 + 2000 * key as usize], 100));
                    }
                });
            }
            let mut seen = 0;
            for round in 0..4000_u32 {
                if let Some(object) = ring.get(&(round % 5).to_le_bytes()) {
                    assert!(object.len() >= 1000 && object.iter().all(|byte| *byte == object[0]));
                    seen += 1;
                }
            }
            assert!(seen > 0);
        });
    }
}
