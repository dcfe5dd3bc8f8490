//! Descriptors in tokio's reactor.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that the reactor of the current runtime watches.
pub type Watched = AsyncFd<Arc<OwnedFd>>;

/// Registers a non-blocking descriptor. Must be called within a runtime that has I/O enabled.
pub fn watch(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<Watched> {
    // SAFETY: the descriptor is the same for the life of the `Arc`, which the result holds and never lets out by value
    // or mutably before it is deregistered.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
