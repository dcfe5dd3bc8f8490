//! A response that goes out no faster than its pace.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use runtime::executor::Timer;
use sys::time::Instant;

/// How often more may go out: often enough that no deadline on the client's side passes meanwhile.
const PULSE: Duration = Duration::from_millis(500);

/// How much of a response may have gone out by now. A timer waits for the next time, so a paced response keeps the server
/// no busier than a slow client does.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes for each pulse.
    share: u64,
    /// Bytes that may have gone out in all.
    allowed: u64,
    next: Instant,
    timer: Timer,
}

impl Pace {
    /// A pace of this many bytes a second; the first `free` bytes do not count.
    pub(crate) fn new(bytes_per_second: u32, free: usize) -> Pace {
        let share = u64::from(bytes_per_second / 2).max(1);
        Pace { share, allowed: free as u64 + share, next: Instant::now() + PULSE, timer: Timer::default() }
    }

    /// How many bytes may go out after the first `sent`; pending while there are none.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, sent: u64) -> Poll<usize> {
        while sent >= self.allowed {
            ready!(self.timer.poll_passed(cx, self.next));
            self.next += PULSE;
            self.allowed += self.share;
        }
        Poll::Ready(usize::try_from(self.allowed - sent).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// The timer may take a moment longer than it should, never less.
    #[test]
    fn half_of_it_each_half_second() {
        let event_loop = sys::event_loop::EventLoop::new(|| ());
        let done = event_loop.and_then(|mut event_loop| {
            event_loop.run(async {
                let begun = Instant::now();
                let mut pace = Pace::new(300, 1000);
                assert_eq!(poll_fn(|cx| pace.poll(cx, 0)).await, 1150);
                assert_eq!(poll_fn(|cx| pace.poll(cx, 1149)).await, 1);
                assert_eq!(poll_fn(|cx| pace.poll(cx, 1150)).await, 150);
                assert!(begun.elapsed() >= PULSE);
            })
        });
        done.expect("event loop");
    }
}
