//! What a module does with the connections that its listener accepts.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

/// The most connections taken in one go before the open ones get their turn.
pub(super) const BATCH: usize = 32;
/// How many connections that only wait are closed at a time, when others need their places or descriptors.
pub(crate) const MAKE_ROOM: usize = 32;

/// Decides what happens to accepted connections.
pub(crate) trait Dispatcher: Send + Sync + 'static {
    /// Starts a connection. Called within the listener's event loop.
    fn start(&self, socket: OwnedFd, peer: SocketAddr);

    /// How many connections may be accepted now; pending while that is none.
    fn poll_room(&self, _cx: &mut Context<'_>) -> Poll<usize> {
        Poll::Ready(BATCH)
    }

    /// A connected client has waited for room in vain: called after a tenth of a second, and again for each further
    /// one.
    fn insist(&self) {}

    /// Whether another thread is in the middle of a response.
    fn is_answering(&self) -> bool {
        false
    }

    /// Whether any connection is open, or on its way to a worker.
    fn is_serving(&self) -> bool;
}
