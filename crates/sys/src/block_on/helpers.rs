//! Tasks beside the one that a thread polls.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};

type Future = Pin<Box<dyn core::future::Future<Output = ()> + Send>>;

thread_local! {
    static HELPERS: RefCell<Vec<Arc<Slot>>> = const { RefCell::new(Vec::new()) };
}

/// A task, until it has ended or its handle was dropped.
struct Slot {
    future: Mutex<Option<Future>>,
    /// Its handle was dropped.
    unwanted: AtomicBool,
}

impl Slot {
    fn future(&self) -> MutexGuard<'_, Option<Future>> {
        self.future.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that the current thread polls beside its main one. Dropping this drops it.
pub struct Helper(Arc<Slot>);

impl std::fmt::Debug for Helper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Helper").finish_non_exhaustive()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.unwanted.store(true, Ordering::Release);
        let future = match self.0.future.try_lock() {
            Ok(mut future) => future.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            // The helper is being polled, and drops its own handle: `poll` handles that.
            Err(TryLockError::WouldBlock) => None,
        };
        drop(future);
    }
}

/// Adds a task to those of the current thread.
pub(super) fn add(future: Future) -> Helper {
    let slot = Arc::new(Slot { future: Mutex::new(Some(future)), unwanted: AtomicBool::new(false) });
    HELPERS.with_borrow_mut(|helpers| helpers.push(slot.clone()));
    Helper(slot)
}

/// Polls all of them once, including those that are added meanwhile.
pub(super) fn poll(cx: &mut Context<'_>) {
    let mut index = 0;
    // The list is not borrowed during a poll: the task may add others, or drop some.
    while let Some(helper) = HELPERS.with_borrow(|helpers| helpers.get(index).cloned()) {
        let ended = {
            let mut slot = helper.future();
            match slot.as_mut().map(|future| future.as_mut().poll(cx)) {
                Some(Poll::Pending) if !helper.unwanted.load(Ordering::Acquire) => None,
                _ => slot.take(),
            }
        };
        drop(ended);
        index += 1;
    }
    HELPERS.with_borrow_mut(|helpers| helpers.retain(|helper| helper.future().is_some()));
}

/// Drops all of them.
pub(super) fn clear() {
    while let Some(helper) = HELPERS.with_borrow_mut(Vec::pop) {
        let future = helper.future().take();
        drop(future);
    }
}
