//! A wake-up between processes or threads (eventfd(2)): anybody with the descriptor can raise it, and one of those that
//! watch it waits until that happens.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// A wake-up. Processes forked afterwards have the same one, and so have copies.
#[derive(Clone, Debug)]
pub struct EventFd(Arc<OwnedFd>);

impl EventFd {
    /// One that nobody has raised.
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// The descriptor, for a reactor to watch.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.0.clone()
    }

    /// Raises it: the descriptor can be read from now on. Never waits.
    pub fn raise(&self) {
        // It can fail only where it was raised 2⁶⁴ - 2 times and nobody has come.
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
