//! Caches in memory shared by all children.
//!
//! A cache is divided into buckets of a few entries each; a key belongs to exactly one bucket. In a full bucket, the
//! entry that expires first is replaced.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};
use sys::shared_lock;
use sys::shm::Shared;

const END: usize = 4;
const LENGTH: usize = 5;
const CONTENT: usize = 6;
/// Entries of a bucket.
const PLACES: usize = 4;

/// The words of a bucket with entries of `place` words: key, expiry, length and content, after the lock of the bucket.
pub(crate) const fn bucket(place: usize) -> usize {
    1 + PLACES * place
}

/// A digest of texts: nobody can make another text with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u64; 4]);

impl Key {
    /// The key for several words of a kind.
    pub(crate) fn of(words: &[&str], kind: u8) -> Key {
        let mut digest = Sha256::new();
        digest.update([kind]);
        for word in words {
            digest.update(word.len().to_be_bytes());
            digest.update(word);
        }
        let digest: [u8; 32] = digest.finalize().into();
        let mut key = [0; 4];
        for (word, bytes) in key.iter_mut().zip(digest.chunks_exact(8)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        Key(key)
    }
}

/// A cache whose buckets have `N` words.
pub(crate) struct Cache<const N: usize>(Shared<[AtomicU64; N]>);

/// The cache of a module, if it has one.
pub(crate) struct Slot<const N: usize>(RwLock<Option<Arc<Cache<N>>>>);

impl<const N: usize> Slot<N> {
    /// Without a cache.
    pub(crate) const fn new() -> Slot<N> {
        Slot(RwLock::new(None))
    }

    /// Makes room for this many bytes. Runs in the parent, before there are children. A cache of the same size stays,
    /// with its content.
    pub(crate) fn prepare(&self, bytes: u64) -> io::Result<()> {
        let mut cache = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let count = usize::try_from(bytes / (N * size_of::<u64>()) as u64).unwrap_or(usize::MAX).max(1);
        if cache.as_ref().is_none_or(|cache| cache.0.len() != count) {
            *cache = Some(Arc::new(Cache(Shared::new(count)?)));
        }
        Ok(())
    }

    /// Removes it.
    pub(crate) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn get(&self) -> Option<Arc<Cache<N>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn now() -> u64 {
    sys::time::monotonic().as_secs()
}

/// The result of storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In a free place, or in that of an expired entry.
    Free,
    /// In the place of another entry.
    Instead,
    /// Not stored: it is too long.
    Not,
}

impl<const N: usize> Cache<N> {
    /// Words of a place.
    const PLACE: usize = (N - 1) / PLACES;
    /// The longest content, in bytes.
    const CONTENT_MAX: usize = (Self::PLACE - CONTENT) * 8;

    /// How many entries there is room for.
    pub(crate) fn places(&self) -> usize {
        self.0.len() * PLACES
    }

    /// How many entries have not expired. An estimate: they may change meanwhile.
    pub(crate) fn used(&self) -> usize {
        let now = now();
        let places = self.0.iter().flat_map(|bucket| bucket[1..].chunks_exact(Self::PLACE));
        places.filter(|place| place[END].load(Relaxed) > now).count()
    }

    /// A bucket under its lock.
    fn open(&self, key: &Key) -> Option<(&[AtomicU64], shared_lock::Held<'_>)> {
        let bucket = &self.0[key.0[0] as usize % self.0.len()];
        let held = shared_lock::lock(&bucket[0])?;
        if held.inherited {
            // A process was killed in the middle of a change.
            bucket[1..].iter().for_each(|word| word.store(0, Relaxed));
        }
        Some((&bucket[1..], held))
    }

    /// Stores something for this many seconds.
    pub(crate) fn put(&self, key: &Key, content: &[u8], seconds: u64) -> Stored {
        if content.len() > Self::CONTENT_MAX {
            return Stored::Not;
        }
        let Some((bucket, _held)) = self.open(key) else { return Stored::Not };
        let own = bucket.chunks_exact(Self::PLACE).find(|place| is(place, key));
        let oldest = || bucket.chunks_exact(Self::PLACE).min_by_key(|place| place[END].load(Relaxed));
        let Some(place) = own.or_else(oldest) else { return Stored::Not };
        let is_free = own.is_some() || place[END].load(Relaxed) <= now();
        place[..END].iter().zip(key.0).for_each(|(word, part)| word.store(part, Relaxed));
        place[END].store(now().saturating_add(seconds), Relaxed);
        place[LENGTH].store(content.len() as u64, Relaxed);
        for (word, part) in place[CONTENT..].iter().zip(content.chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
        if is_free { Stored::Free } else { Stored::Instead }
    }

    /// The content for a key, unless it has expired.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let (bucket, _held) = self.open(key)?;
        let place = bucket.chunks_exact(Self::PLACE).find(|place| is(place, key))?;
        if place[END].load(Relaxed) <= now() {
            return None;
        }
        let mut bytes: Vec<u8> = place[CONTENT..].iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        bytes.truncate(place[LENGTH].load(Relaxed) as usize);
        Some(bytes)
    }
}

fn is(place: &[AtomicU64], key: &Key) -> bool {
    place[..END].iter().zip(key.0).all(|(word, part)| word.load(Relaxed) == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = 32;
    const LONGEST: usize = (WORDS - CONTENT) * 8;

    #[test]
    fn contents_are_kept_for_a_while() {
        let slot = Slot::<{ bucket(WORDS) }>::new();
        assert!(slot.get().is_none());
        slot.prepare(1).expect("memory");
        let cache = slot.get().expect("a cache");
        let key = |name: &str| Key::of(&[name], 0);
        let put = |name: &str, content: &str, seconds| cache.put(&key(name), content.as_bytes(), seconds);
        let get = |name: &str| cache.get(&key(name)).map(|bytes| String::from_utf8(bytes).expect("text"));
        assert_eq!([put("a", "one", 100), put("b", "", 100)], [Stored::Free; 2]);
        assert_eq!((get("a").as_deref(), get("b").as_deref()), (Some("one"), Some("")));
        assert_eq!(put("a", &"x".repeat(LONGEST), 100), Stored::Free);
        assert_eq!(put("a", &"x".repeat(LONGEST + 1), 100), Stored::Not);
        assert_eq!(get("a"), Some("x".repeat(LONGEST)));
        assert!(put("c", "over", 0) == Stored::Free && get("c").is_none());
        // There are four places: the entry that expires first makes room.
        assert_eq!([put("d", "d", 200), put("e", "e", 200)], [Stored::Free; 2]);
        assert_eq!(put("f", "f", 200), Stored::Instead);
        assert_eq!(["d", "e", "f"].map(|name| get(name).is_some()), [true; 3]);
        assert_eq!((cache.places(), cache.used()), (4, 4));
        assert_ne!(Key::of(&["a", "b"], 0), Key::of(&["ab", ""], 0));
        assert_ne!(Key::of(&["a"], 0), Key::of(&["a"], 1));
        // The same size again: the content stays.
        slot.prepare(1).expect("memory");
        assert!(slot.get().expect("a cache").get(&key("f")).is_some());
        slot.clear();
        assert!(slot.get().is_none());
    }
}
