//! Deadlines of a connection, with one timer that is moved as rarely as possible.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::time::Sleep;

/// A deadline that may move. The timer behind it is set when a wait first needs it, and set again only when it fires
/// too early: a deadline that keeps moving on costs nothing.
#[derive(Debug, Default)]
pub struct Timer {
    armed: Option<Pin<Box<Armed>>>,
}

pin_project_lite::pin_project! {
    /// What a connection has only once it had to wait.
    #[derive(Debug)]
    struct Armed {
        #[pin]
        sleep: Sleep,
        // Whom it wakes, by the data of the waker that it holds; 0 is nobody.
        wakes: usize,
    }
}

fn identity(waker: &Waker) -> usize {
    waker.data().addr()
}

impl Timer {
    /// Waits for `future`, but not beyond `deadline`: then `None`.
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
        let deadline = tokio::time::Instant::from_std(deadline);
        let new = || Box::pin(Armed { sleep: tokio::time::sleep_until(deadline), wakes: 0 });
        let armed = self.armed.get_or_insert_with(new).as_mut().project();
        let (mut sleep, wakes) = (armed.sleep, armed.wakes);
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
            *wakes = 0;
        }
        // It is set already, not beyond the deadline, and will wake whoever asks.
        if *wakes == identity(cx.waker()) && !sleep.is_elapsed() {
            return Poll::Pending;
        }
        loop {
            match sleep.as_mut().poll(cx) {
                Poll::Pending => {
                    *wakes = identity(cx.waker());
                    return Poll::Pending;
                }
                Poll::Ready(()) if tokio::time::Instant::now() >= deadline => return Poll::Ready(()),
                Poll::Ready(()) => sleep.as_mut().reset(deadline),
            }
        }
    }
}
