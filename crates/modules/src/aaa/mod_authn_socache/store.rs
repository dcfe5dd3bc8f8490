//! The memory that all children share.
//!
//! It is divided into buckets of a few places each; a key may stand in one bucket only. Where that is full, what ends first has
//! to go.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};
use sys::shared_lock;
use sys::shm::Shared;

/// How much memory there is where nothing is said, in bytes; that of mod_socache_shmcb.
pub(super) const SIZE: u64 = 512_000;
/// Words of a place: the key, the end, the length, the text.
const PLACE: usize = 32;
const END: usize = 4;
const LENGTH: usize = 5;
const TEXT: usize = 6;
/// The longest text, in bytes. Passwords are stored in less.
const TEXT_MAX: usize = (PLACE - TEXT) * 8;
const PLACES: usize = 4;

/// The first word is its lock.
type Bucket = [AtomicU64; 1 + PLACES * PLACE];

/// What stands for a text: nobody can make another one that gives the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key([u64; 4]);

impl Key {
    /// Of several words, and of which kind they are.
    pub(super) fn of(words: &[&str], kind: bool) -> Key {
        let mut digest = Sha256::new();
        digest.update([u8::from(kind)]);
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

/// The cache.
pub(super) struct Cache(Shared<Bucket>);

static CACHE: RwLock<Option<Arc<Cache>>> = RwLock::new(None);

/// Makes room for so many bytes. In the parent, before there are children.
pub(super) fn prepare(bytes: u64) -> io::Result<()> {
    let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
    let count = usize::try_from(bytes / size_of::<Bucket>() as u64).unwrap_or(usize::MAX).max(1);
    if cache.as_ref().is_none_or(|cache| cache.0.len() != count) {
        *cache = Some(Arc::new(Cache(Shared::new(count)?)));
    }
    Ok(())
}

/// The cache of this server, if it has one.
pub(super) fn cache() -> Option<Arc<Cache>> {
    CACHE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn now() -> u64 {
    sys::time::monotonic().as_secs()
}

impl Cache {
    /// A bucket that nobody else looks into, and the lock of it.
    fn open(&self, key: &Key) -> Option<(&[AtomicU64], shared_lock::Held<'_>)> {
        let bucket = &self.0[key.0[0] as usize % self.0.len()];
        let held = shared_lock::lock(&bucket[0])?;
        if held.inherited {
            // A process was killed in the middle of a change.
            bucket[1..].iter().for_each(|word| word.store(0, Relaxed));
        }
        Some((&bucket[1..], held))
    }

    /// Keeps a text for so many seconds. `false`: it is too long.
    pub(super) fn put(&self, key: &Key, text: &str, seconds: u64) -> bool {
        let bytes = text.as_bytes();
        if bytes.len() > TEXT_MAX {
            return false;
        }
        let Some((bucket, _held)) = self.open(key) else { return false };
        let own = bucket.chunks_exact(PLACE).find(|place| is(place, key));
        let oldest = || bucket.chunks_exact(PLACE).min_by_key(|place| place[END].load(Relaxed));
        let Some(place) = own.or_else(oldest) else { return false };
        place[..END].iter().zip(key.0).for_each(|(word, part)| word.store(part, Relaxed));
        place[END].store(now() + seconds, Relaxed);
        place[LENGTH].store(bytes.len() as u64, Relaxed);
        for (word, part) in place[TEXT..].iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
        true
    }

    /// The text of a key, unless its time is over.
    pub(super) fn get(&self, key: &Key) -> Option<String> {
        let (bucket, _held) = self.open(key)?;
        let place = bucket.chunks_exact(PLACE).find(|place| is(place, key))?;
        if place[END].load(Relaxed) <= now() {
            return None;
        }
        let mut bytes: Vec<u8> = place[TEXT..].iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        bytes.truncate(place[LENGTH].load(Relaxed) as usize);
        String::from_utf8(bytes).ok()
    }
}

fn is(place: &[AtomicU64], key: &Key) -> bool {
    place[..END].iter().zip(key.0).all(|(word, part)| word.load(Relaxed) == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_for_a_while() {
        let cache = Cache(Shared::new(1).expect("memory"));
        let key = |name: &str| Key::of(&[name], false);
        assert!(cache.put(&key("a"), "one", 100) && cache.put(&key("b"), "", 100));
        assert_eq!((cache.get(&key("a")).as_deref(), cache.get(&key("b")).as_deref()), (Some("one"), Some("")));
        assert!(
            cache.put(&key("a"), &"x".repeat(TEXT_MAX), 100) && !cache.put(&key("a"), &"x".repeat(TEXT_MAX + 1), 100)
        );
        assert_eq!(cache.get(&key("a")), Some("x".repeat(TEXT_MAX)));
        assert!(cache.put(&key("c"), "over", 0) && cache.get(&key("c")).is_none());
        // There are four places: what ends first makes room.
        assert!(cache.put(&key("d"), "d", 200) && cache.put(&key("e"), "e", 200) && cache.put(&key("f"), "f", 200));
        assert_eq!(["d", "e", "f"].map(|name| cache.get(&key(name)).is_some()), [true; 3]);
        assert_ne!(Key::of(&["a", "b"], false), Key::of(&["ab", ""], false));
        assert_ne!(Key::of(&["a"], false), Key::of(&["a"], true));
    }
}
