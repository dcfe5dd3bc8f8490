//! A bell between processes (eventfd(2)): whoever has it can ring it, and one of them waits until somebody does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// A bell. Processes forked afterwards have the same one.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that is silent.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Rings: the descriptor can be read from now on. Never waits.
    pub fn ring(&self) {
        // It can fail only where the bell was rung 2⁶⁴ - 2 times and nobody has come.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it silent; returns whether it was ringing.
    pub fn hush(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_until_hushed() {
        let bell = Bell::new().expect("bell");
        assert!(!bell.hush());
        bell.ring();
        bell.ring();
        assert!(bell.hush());
        assert!(!bell.hush());
    }
}
