//! Turns of the event loop: what the system was asked once in a turn need not be asked again in it.
//!
//! A turn begins when the process goes to wait for events, and all requests that these events announce were sent before
//! it returned. Whatever the system says of a file after that is at least as new as any of them. So requests that the
//! reactor announced in the same turn may share one look at a file, and still each sees the file as it was when the
//! request was sent, or newer. A request that was found without an announcement (the first one of a connection, one that
//! came in behind another) begins a look of its own.

use std::sync::atomic::{AtomicU64, Ordering};

static TURN: AtomicU64 = AtomicU64::new(1);

/// A new turn begins: called before the process waits, and before a task lets the reactor look for events.
pub(crate) fn next() {
    TURN.fetch_add(1, Ordering::Relaxed);
}

/// The present turn.
pub(crate) fn present() -> u64 {
    TURN.load(Ordering::Relaxed)
}

/// Lets the other tasks have their turn, and those that wait for events too: whoever wakes itself only lets those go first
/// that are ready already.
pub async fn pass() {
    next();
    tokio::task::yield_now().await;
}
