//! The cache of directories' answers, for all children (`LDAPSharedCacheSize`, `LDAPCacheEntries` …).

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use sys::shm::Shared;

use crate::shared_cache::{Cache, Key, Slot, Stored, bucket};

/// Words per entry: the name of an entry, and a few values.
const PLACE: usize = 64;
const BUCKET: usize = bucket(PLACE);

/// One of the two caches of answers, with its counters; all children share it.
pub(crate) struct Table {
    /// Its name on mod_ldap's page.
    pub(super) name: &'static str,
    slot: Slot<BUCKET>,
    counts: OnceLock<Shared<AtomicU64>>,
}

/// Successful log-ins, and results of searches.
pub(crate) static SEARCHES: Table = Table::new("Searches");
/// Results of comparisons.
pub(crate) static COMPARES: Table = Table::new("Compares");

/// The counters of a table, in order.
#[derive(Clone, Copy, Debug)]
enum Count {
    Asked,
    Found,
    Kept,
    Removed,
}

/// The counts of a table so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) places: usize,
    pub(super) used: usize,
    pub(super) asked: u64,
    pub(super) found: u64,
    pub(super) kept: u64,
    pub(super) removed: u64,
}

impl Table {
    const fn new(name: &'static str) -> Table {
        Table { name, slot: Slot::new(), counts: OnceLock::new() }
    }

    /// Makes room for this many entries, within this many bytes. Runs in the parent, before there are children.
    pub(super) fn prepare(&self, entries: u64, bytes: u64) -> io::Result<()> {
        const OF_ENTRY: u64 = (PLACE * size_of::<u64>()) as u64;
        let bytes = entries.saturating_mul(OF_ENTRY).min(bytes);
        // A restart forgets everything, as in Apache.
        self.slot.clear();
        if bytes == 0 {
            return Ok(());
        }
        if self.counts.get().is_none() {
            // A second configuration continues the counts.
            let _ = self.counts.set(Shared::new(4)?);
        }
        self.slot.prepare(bytes)
    }

    fn cache(&self) -> Option<Arc<Cache<BUCKET>>> {
        self.slot.get()
    }

    /// Whether there is a cache.
    pub(super) fn is_there(&self) -> bool {
        self.cache().is_some()
    }

    fn count(&self, what: Count) {
        if let Some(counts) = self.counts.get() {
            counts[what as usize].fetch_add(1, Relaxed);
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let cache = self.cache()?;
        self.count(Count::Asked);
        let found = cache.get(key)?;
        self.count(Count::Found);
        Some(found)
    }

    pub(super) fn put(&self, key: &Key, content: &[u8], seconds: u64) {
        let Some(cache) = self.cache() else { return };
        match cache.put(key, content, seconds) {
            Stored::Not => {}
            Stored::Free => self.count(Count::Kept),
            Stored::Instead => {
                self.count(Count::Kept);
                self.count(Count::Removed);
            }
        }
    }

    /// The counts, if there is a cache.
    pub(super) fn counts(&self) -> Option<Counts> {
        let cache = self.cache()?;
        let counts = self.counts.get()?;
        let of = |what: Count| counts[what as usize].load(Relaxed);
        Some(Counts {
            places: cache.places(),
            used: cache.used(),
            asked: of(Count::Asked),
            found: of(Count::Found),
            kept: of(Count::Kept),
            removed: of(Count::Removed),
        })
    }
}

/// Joins texts, each after its length.
pub(super) fn joined(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u32).to_ne_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Splits the texts again; `None`: this is something else.
pub(super) fn divided(mut bytes: &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (text, rest) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
        texts.push(String::from_utf8(text.to_vec()).ok()?);
        bytes = rest;
    }
    bytes.is_empty().then_some(texts)
}

/// The length of a mark, in bytes.
pub(super) const MARK: usize = 32;

/// Stands for a password: a digest with a secret shared by these processes, useless to anybody who cannot read their
/// memory.
pub(super) fn mark(password: &[u8]) -> [u8; MARK] {
    let mut digest = Sha256::new();
    digest.update(secret());
    digest.update(password);
    digest.finalize().into()
}

/// Whether a mark belongs to this password; takes the same time for every one.
pub(super) fn is_mark_of(kept: &[u8], password: &[u8]) -> bool {
    kept.ct_eq(&mark(password)).into()
}

/// Drawn in the parent, before there are children.
pub(super) fn secret() -> &'static [u8; 32] {
    static SECRET: OnceLock<[u8; 32]> = OnceLock::new();
    SECRET.get_or_init(sys::random::bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_and_divided() {
        for texts in [&[][..], &[""], &["a", "", "bc"]] {
            assert_eq!(
                divided(&joined(texts)).as_deref(),
                Some(&texts.iter().map(ToString::to_string).collect::<Vec<_>>()[..])
            );
        }
        assert_eq!(divided(b"abc"), None);
        assert_eq!(divided(&[9, 0, 0, 0, b'x']), None);
    }

    #[test]
    fn a_table_counts() {
        let table = Table::new("x");
        let key = Key::of(&["a"], 0);
        assert!(table.get(&key).is_none() && table.counts().is_none());
        table.prepare(1024, 1 << 20).expect("memory");
        assert!(table.get(&key).is_none());
        table.put(&key, b"x", 100);
        assert_eq!(table.get(&key).as_deref(), Some(&b"x"[..]));
        let counts = table.counts().expect("counts");
        assert_eq!((counts.used, counts.asked, counts.found, counts.kept, counts.removed), (1, 2, 1, 1, 0));
        table.prepare(0, 1 << 20).expect("nothing");
        assert!(!table.is_there());
        assert!(is_mark_of(&mark(b"a"), b"a") && !is_mark_of(&mark(b"a"), b"b"));
    }
}
