//! Stored responses: with which a cache has answered a request, and may answer others.

use std::time::Duration;

use super::account::Account;

/// A stored response with which a cache has answered a request. Later requests that ask the same may get it without the cache.
pub trait Stored: Send + Sync {
    /// Its age in seconds (RFC 9111 section 4.2.3), if the cache would answer such a request with it as before. `account`: that of
    /// the request, which came at `now`, a time since 1970.
    fn age(&self, account: &Account, now: Duration) -> Option<i64>;

    /// A request gets it without the cache.
    fn count(&self);
}
