//! The clients whose nonce counts or one-time nonces are checked, in memory shared by all children.
//!
//! A client is a number in its `opaque` and its nonces, so nobody can make one up. The stored data is about what the
//! client has used, never about what it was given: anybody may request a challenge in its name.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use sys::shared_lock;
use sys::shm::Shared;

/// The data of a client: its lock, its number, the time of its last nonce, and the highest count with it.
type Entry = [AtomicU64; 4];

/// Apache's default, in bytes.
pub(super) const SIZE: u64 = 1000;
/// The smallest size that Apache accepts.
pub(super) const SIZE_MIN: u64 = 88;
/// The fewest clients to make room for: untouched memory costs nothing.
const ENTRIES_MIN: u64 = 2048;

/// The clients with a challenge of ours, and the counts that they have used.
pub(super) struct Clients {
    /// The next client number, and the next one-time nonce.
    next: Shared<[AtomicU64; 2]>,
    entries: Shared<Entry>,
}

/// The validity of a nonce and a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Neither was used.
    Fresh,
    /// The nonce may be used only once, and has been.
    Used,
    /// The count is not above this one, the highest so far.
    Repeated(u64),
    /// The client is unknown.
    Unknown,
}

/// Made in the parent, so that all children share it, and kept as long as its size stays.
static CLIENTS: RwLock<Option<Arc<Clients>>> = RwLock::new(None);

/// Makes room, according to `AuthDigestShmemSize`. Runs in the parent, before there are children.
pub(super) fn prepare(bytes: u64) -> io::Result<()> {
    let mut clients = CLIENTS.write().unwrap_or_else(PoisonError::into_inner);
    let count = usize::try_from((bytes / size_of::<Entry>() as u64).max(ENTRIES_MIN)).unwrap_or(usize::MAX);
    if clients.as_ref().is_none_or(|clients| clients.entries.len() != count) {
        *clients = Some(Arc::new(Clients::new(count)?));
    }
    Ok(())
}

/// The clients of this server.
pub(super) fn clients() -> Option<Arc<Clients>> {
    CLIENTS.read().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Clients {
    fn new(count: usize) -> io::Result<Clients> {
        Ok(Clients { next: Shared::new(1)?, entries: Shared::new(count)? })
    }

    /// A number for a new client, which takes the place of the oldest one if there is no room.
    pub(super) fn add(&self) -> Option<u32> {
        // Number 0 means no client.
        let number = (self.next[0][0].fetch_add(1, Relaxed) % u64::from(u32::MAX)) as u32 + 1;
        let [lock, own, time, count] = self.entry(number);
        let _held = shared_lock::lock(lock)?;
        own.store(u64::from(number), Relaxed);
        time.store(0, Relaxed);
        count.store(0, Relaxed);
        Some(number)
    }

    /// Whether a client is known.
    pub(super) fn knows(&self, number: u32) -> bool {
        self.entry(number)[1].load(Relaxed) == u64::from(number)
    }

    /// The counter that replaces the time in a one-time nonce.
    pub(super) fn once(&self) -> u64 {
        self.next[0][1].fetch_add(1, Relaxed) + 1
    }

    /// Records that a client uses the nonce of a time with a count, both checked before, and returns whether it may.
    /// `once`: a nonce may be used only once.
    pub(super) fn use_nonce(&self, number: u32, nonce: u64, nc: u64, once: bool) -> Use {
        let [lock, own, time, count] = self.entry(number);
        let Some(_held) = shared_lock::lock(lock) else { return Use::Unknown };
        if own.load(Relaxed) != u64::from(number) {
            return Use::Unknown;
        }
        let (last, highest) = (time.load(Relaxed), count.load(Relaxed));
        if nonce > last || nonce == last && nc > highest && !once {
            time.store(nonce, Relaxed);
            count.store(nc, Relaxed);
            return Use::Fresh;
        }
        if once { Use::Used } else { Use::Repeated(highest) }
    }

    fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize % self.entries.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_rise_and_nonces_are_used_once() {
        let clients = Clients::new(2).expect("memory");
        let first = clients.add().expect("a client");
        assert!(clients.knows(first) && !clients.knows(first + 2));
        assert_eq!(clients.use_nonce(first, 10, 1, false), Use::Fresh);
        assert_eq!(clients.use_nonce(first, 10, 1, false), Use::Repeated(1));
        assert_eq!(clients.use_nonce(first, 10, 5, false), Use::Fresh, "what it sent elsewhere counts too");
        assert_eq!(clients.use_nonce(first, 9, 9, false), Use::Repeated(5), "an older nonce");
        assert_eq!(clients.use_nonce(first, 11, 1, false), Use::Fresh, "a newer nonce begins anew");
        assert_eq!(clients.use_nonce(first, 12, 1, true), Use::Fresh);
        assert_eq!(clients.use_nonce(first, 12, 2, true), Use::Used);
        let others = [clients.add().expect("a client"), clients.add().expect("a client")];
        assert!(!clients.knows(first) && others.into_iter().all(|other| clients.knows(other)), "the oldest has to go");
        assert_eq!(clients.use_nonce(first, 13, 1, false), Use::Unknown);
        assert!(clients.once() < clients.once());
    }
}
