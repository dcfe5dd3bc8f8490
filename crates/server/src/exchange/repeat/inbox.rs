//! The way back of a request to the thread that remembers it.
//!
//! Under event the listener looks for a request in its table, and a worker may end it. The listener is the one who will meet such
//! a request again, so the worker puts it into the listener's inbox. The listener empties the inbox before it goes the long way
//! with a request that it did not find: one that it finds costs nothing more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;

use super::{Remembered, Repeats};

/// How many requests wait in an inbox at most; others are forgotten.
const ROOM: usize = 32;

/// Where other threads put what a thread shall remember.
pub(super) struct Inbox {
    /// That of the thread's table.
    hasher: RandomState,
    is_empty: AtomicBool,
    requests: Mutex<Vec<Remembered>>,
}

impl Inbox {
    pub(super) fn new(hasher: RandomState) -> Inbox {
        Inbox { hasher, is_empty: AtomicBool::new(true), requests: Mutex::default() }
    }

    pub(super) fn hasher(&self) -> &RandomState {
        &self.hasher
    }

    /// Whether this is the inbox of the thread that has this table.
    pub(super) fn is_of(self: &Arc<Self>, repeats: &Repeats) -> bool {
        Arc::ptr_eq(self, &repeats.inbox)
    }

    /// Takes all requests.
    pub(super) fn take(&self) -> Vec<Remembered> {
        if self.is_empty.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_empty.store(true, Ordering::Relaxed);
        std::mem::take(&mut *requests)
    }
}

impl Remembered {
    /// Goes to the thread whose table had it, or shall have it.
    pub(super) fn go_back(self) {
        let inbox = self.repeat.inbox.clone();
        let mut requests = inbox.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() < ROOM {
            requests.push(self);
            inbox.is_empty.store(false, Ordering::Relaxed);
        } else {
            // What is forgotten ends while nobody waits for the inbox.
            drop(requests);
        }
    }
}
