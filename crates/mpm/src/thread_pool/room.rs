//! Room for connections, and who waits for it.

use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use super::sync::{AtomicBool, Mutex, Ordering, in_order};

/// Where the listener waits while nobody may be let in.
#[derive(Debug, Default)]
pub(super) struct RoomWait {
    /// Somebody waits: all that others have to look at.
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
        // What was given back before that, nobody told us of.
        match room() {
            0 => Poll::Pending,
            room => Poll::Ready(room),
        }
    }

    pub(super) fn look(&self, room: impl Fn() -> usize) {
        in_order();
        if self.waits.load(Ordering::SeqCst) && room() > 0 && self.waits.swap(false, Ordering::SeqCst) {
            let wakers = std::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}
