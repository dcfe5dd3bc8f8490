//! Room for connections, and the listener's wait for it.

use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use super::sync::{AtomicBool, Mutex, Ordering, in_order};

/// The listener's place to wait while no connection may be accepted.
#[derive(Debug, Default)]
pub(super) struct RoomWait {
    /// Whether the listener waits: all that other threads have to check.
    waits: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl RoomWait {
    pub(super) fn poll(&self, cx: &mut Context<'_>, room: impl Fn() -> usize) -> Poll<usize> {
        if let room @ 1.. = room() {
            return Poll::Ready(room);
        }
        {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                wakers.push(cx.waker().clone());
            }
        }
        self.waits.store(true, Ordering::SeqCst);
        in_order();
        // Nobody reported room that was given back before this.
        match room() {
            0 => Poll::Pending,
            room => Poll::Ready(room),
        }
    }

    pub(super) fn update(&self, room: impl Fn() -> usize) {
        in_order();
        if self.waits.load(Ordering::SeqCst) && room() > 0 && self.waits.swap(false, Ordering::SeqCst) {
            let wakers = std::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}
