//! Deadlines of a connection, with one timer that moves as rarely as possible.

use std::future::{Future, poll_fn};
use std::task::{Context, Poll, Waker};

use sys::event_loop::Alarm;
use sys::time::Instant;

/// A deadline that may move. Its timer is set when a wait first needs it, and set again only when it fires too early: a
/// deadline that keeps moving costs nothing.
#[derive(Debug, Default)]
pub struct Timer {
    armed: Option<Box<Armed>>,
}

/// The part that a connection has only once it had to wait.
#[derive(Debug)]
struct Armed {
    alarm: Alarm,
    /// The task it wakes, identified by the data of the waker.
    wakes: usize,
}

fn identity(waker: &Waker) -> usize {
    waker.data().addr()
}

impl Timer {
    /// Waits for `future`, but not beyond `deadline`; after that, `None`.
    pub async fn until<T>(&mut self, deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => self.poll_passed(cx, deadline).map(|()| None),
        })
        .await
    }

    /// Ready when `deadline` has passed.
    #[expect(clippy::disallowed_methods, reason = "this is what is to be used instead")]
    pub fn poll_passed(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        if let Some(passed) = sys::block_on::has_passed(deadline) {
            return if passed { Poll::Ready(()) } else { Poll::Pending };
        }
        let wakes = identity(cx.waker());
        match &mut self.armed {
            // The alarm is already set, not beyond the deadline, and will wake the caller.
            Some(armed) if armed.wakes == wakes && armed.alarm.rings_by(deadline) => return Poll::Pending,
            _ if Instant::now() >= deadline => return Poll::Ready(()),
            Some(armed) => {
                armed.alarm.set(deadline, cx.waker());
                armed.wakes = wakes;
            }
            none => *none = Some(Box::new(Armed { alarm: Alarm::new(deadline, cx.waker()), wakes })),
        }
        Poll::Pending
    }
}
