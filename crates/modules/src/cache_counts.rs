//! What caches have done, for the metrics: counts that all processes share, from the start of the server on.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use server::Server;
use sys::shm::Shared;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Responses that came from a cache.
    Hit,
    /// Stored responses that went out after the origin had confirmed them.
    Revalidate,
    /// Responses of the origin.
    Miss,
    /// Stored responses that a request has made invalid.
    Invalidate,
    /// Responses that were stored.
    Store,
}

impl Counted {
    /// All of them, with their words.
    pub(crate) const ALL: [(Counted, &str); 5] = [
        (Counted::Hit, "hit"),
        (Counted::Revalidate, "revalidate"),
        (Counted::Miss, "miss"),
        (Counted::Invalidate, "invalidate"),
        (Counted::Store, "store"),
    ];
}

type Words = [AtomicU64; Counted::ALL.len()];

static COUNTS: OnceLock<Shared<Words>> = OnceLock::new();

/// Makes the places to count in, once for all configurations.
pub(crate) fn start(_: &Server) -> Result<(), String> {
    if COUNTS.get().is_none() {
        let counts = Shared::new(1).map_err(|error| format!("{}: no shared memory", sys::describe(&error)))?;
        // Only the parent comes here, and has one thread.
        let _ = COUNTS.set(counts);
    }
    Ok(())
}

/// Counts one.
pub(crate) fn count(what: Counted) {
    COUNTS.get().iter().for_each(|counts| _ = counts[0][what as usize].fetch_add(1, Relaxed));
}

/// What was counted. `None`: there is no cache.
pub(crate) fn counted(what: Counted) -> Option<u64> {
    COUNTS.get().map(|counts| counts[0][what as usize].load(Relaxed))
}
