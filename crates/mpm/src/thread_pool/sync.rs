//! The building blocks of [`queue`](super::queue) and [`room`](super::room); a test replaces them with the model checker's.

pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(super) use std::sync::{Mutex, MutexGuard};

/// A thread's means to rest.
#[derive(Debug)]
pub(super) struct Rest(std::thread::Thread);

impl Rest {
    /// For the current thread.
    pub(super) fn new() -> Rest {
        Rest(std::thread::current())
    }

    /// Rests until [`end`](Rest::end), also an earlier one, or for no reason. Call it only in the thread that made
    /// it.
    pub(super) fn begin(&self) {
        std::thread::park();
    }

    pub(super) fn end(&self) {
        self.0.unpark();
    }
}

/// The order that `SeqCst` gives on both sides of this; the model checker does not know that order and needs a
/// fence.
pub(super) fn in_order() {}
