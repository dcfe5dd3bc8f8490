//! A wake-up between processes or threads (eventfd(2)): anybody with the descriptor can raise it, which wakes one of
//! those that watch it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// A wake-up. Clones share it, and so do processes forked later.
#[derive(Clone, Debug)]
pub struct EventFd(Arc<OwnedFd>);

impl EventFd {
    /// A wake-up that is not raised.
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// The descriptor for a reactor to watch.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.0.clone()
    }

    /// Raises it: from now on the descriptor can be read. Never waits.
    pub fn raise(&self) {
        // Writing fails only after 2⁶⁴ - 2 raises that nobody has read.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Lowers it; returns whether it was raised.
    pub fn lower(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_until_lowered() {
        let event = EventFd::new().expect("event");
        assert!(!event.lower());
        event.raise();
        event.raise();
        assert!(event.lower());
        assert!(!event.lower());
    }
}
