//! Messages from other threads to the thread of an event loop, and how they wake it.

use std::collections::VecDeque;

use super::sync::{Arc, Mutex, MutexGuard, PoisonError, Raise, Wakeup};

/// A queue, and the [wake-up](Wakeup) of the thread that empties it.
#[derive(Debug)]
pub(super) struct Inbox<T, E> {
    queue: Mutex<VecDeque<T>>,
    wakeup: Wakeup<E>,
}

impl<T, E: Raise> Inbox<T, E> {
    /// For a thread that watches `event` whenever it sleeps.
    pub(super) fn new(event: Arc<E>) -> Inbox<T, E> {
        Inbox { queue: Mutex::new(VecDeque::new()), wakeup: Wakeup::with(event) }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends something.
    pub(super) fn push(&self, item: T) {
        self.queue().push_back(item);
        self.wakeup.wake();
    }

    /// Wakes the thread, which finds its work by itself.
    pub(super) fn wake(&self) {
        self.wakeup.wake();
    }

    /// For the thread, before it waits for its event. `false`: there is already something to do.
    #[must_use]
    pub(super) fn fall_asleep(&self) -> bool {
        self.wakeup.fall_asleep()
    }

    /// For the thread, after it has waited, or instead of that: moves all messages to the end of `into`.
    pub(super) fn take(&self, into: &mut VecDeque<T>) {
        if self.wakeup.awake() {
            into.append(&mut self.queue());
        }
    }
}
