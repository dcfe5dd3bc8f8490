//! Flow-control windows: how much a client may send before a handler reads it.
//!
//! Data that a handler does not read stays in memory: up to one window per connection. So the connections of a child
//! share a budget, and their windows shrink as their number grows, but never below the initial window of HTTP/2.

use std::sync::atomic::{AtomicU32, Ordering};

/// The sum of all windows of a child, in bytes, while it has few connections.
const BUDGET: u32 = 64 * 1024 * 1024;
/// The largest window of a connection, in bytes.
const LARGEST: u32 = 1024 * 1024;
/// The smallest window of a connection, in bytes (RFC 9113 section 6.9.2).
const SMALLEST: u32 = 65_535;

static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

/// A connection's share of the budget, held until it is dropped.
pub(super) struct Share {
    /// The size of its window, in bytes.
    pub(super) window: u32,
}

impl Share {
    pub(super) fn take() -> Share {
        let connections = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        Share { window: (BUDGET / connections).clamp(SMALLEST, LARGEST) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_there_are_the_less_has_each() {
        let shares: Vec<Share> = (0..2000).map(|_| Share::take()).collect();
        assert_eq!(shares[0].window, LARGEST);
        assert!((SMALLEST + 1..LARGEST).contains(&shares[200].window));
        assert_eq!(shares[1999].window, SMALLEST);
        drop(shares);
        assert_eq!(Share::take().window, LARGEST);
    }
}
