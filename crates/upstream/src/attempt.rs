//! What became of an attempt to let a server answer a request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// An attempt to let a server answer a request, for whoever could ask another server.
#[derive(Debug, Default)]
pub struct Attempt {
    is_unreached: AtomicBool,
    is_unanswered: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Attempt {
    /// The server could not be reached: it has got nothing of the request.
    pub fn set_unreached(&self) {
        self.is_unreached.store(true, Relaxed);
    }

    /// Whether the server could not be reached.
    pub fn is_unreached(&self) -> bool {
        self.is_unreached.load(Relaxed)
    }

    /// The server has not begun to answer, and sending the request twice does no harm (RFC 9110 section 9.2.2).
    pub fn set_unanswered(&self) {
        self.is_unanswered.store(true, Relaxed);
    }

    /// Whether another server may get the request.
    pub fn may_be_repeated(&self) -> bool {
        self.is_unreached() || self.is_unanswered.load(Relaxed)
    }

    /// Counts bytes of the request that go to the server.
    pub fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes of the response beside its body.
    pub fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Relaxed);
    }

    /// The bytes of the response beside its body.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// The bytes of the request that went to the server.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }
}
