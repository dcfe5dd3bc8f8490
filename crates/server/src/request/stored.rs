//! Stored responses: with which a cache has answered a request, and may answer others.

use std::sync::Arc;
use std::time::Duration;

use super::{Account, Request};

/// A stored response with which a cache has answered a request. Later requests that ask the same may get it without the cache.
pub trait Stored: Send + Sync {
    /// Its age in seconds (RFC 9111 section 4.2.3), if the cache would answer such a request with it as before. `account`: that of
    /// the request, which came at `now`, a time since 1970.
    fn age(&self, account: &Account, now: Duration) -> Option<i64>;

    /// A request gets it without the cache.
    fn count(&self);
}

impl Request {
    /// Says with what the cache answers it. With that the cache promises: as long as there is an [age](Stored::age), it would make
    /// the same response, but for the age, to any request that agrees in what was asked of this one.
    pub fn answered_from(&mut self, stored: Arc<dyn Stored>) {
        self.stored = Some(stored);
    }

    /// Whether later requests may get what the cache has answered.
    pub fn is_answered_from_store(&self) -> bool {
        self.stored.is_some()
    }
}
