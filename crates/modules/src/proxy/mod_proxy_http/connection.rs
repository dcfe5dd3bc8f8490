//! Connections that carry one request after the other.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use upstream::{Address, Keep, pool};

/// The module's name in log lines.
pub(super) const NAME: &str = "proxy_http";

/// A connection that goes back to those that are kept.
pub(super) struct Back {
    /// Whose it is.
    pub(super) address: Address,
    pub(super) keep: Keep,
    pub(super) socket: Arc<OwnedFd>,
}

impl Back {
    /// Gives it back. Nobody else may watch it any more.
    pub(super) fn give(self) {
        pool::give(self.address, self.keep, self.socket);
    }
}
