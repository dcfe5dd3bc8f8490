//! Errands: work that no connection waits for, and that goes on when the one that began it has ended.
//!
//! | | polled by |
//! |---|---|
//! | prefork, worker, event | a thread that begins with the first errand and stays, with an event loop of its own: others may share connections that it polls |
//! | percore | the event loop: what only one thread uses stays with that |

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use sys::event_loop::EventLoop;

use super::offload::STACK;
use super::task::{Task, spawn};
use crate::draining;
use crate::scoreboard::one_thread_serves_all;

/// How many errands a process has at a time. They are polled together, and each may hold a connection and an open file.
const ERRANDS_MAX: usize = 16;
/// How long a process that ends waits for a poll of its errands.
const LAST_POLL: Duration = Duration::from_millis(100);

type Errand = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The errands of this process.
struct Errands {
    /// Those that nobody polls right now.
    resting: Vec<Errand>,
    /// The number of the others.
    polled: usize,
    /// Whether there is one that polls, and what wakes it.
    is_polled_at_all: bool,
    waker: Option<Waker>,
    /// The process ends.
    is_over: bool,
    /// The one that polls, under percore.
    task: Option<Task>,
}

static ERRANDS: Mutex<Errands> = Mutex::new(Errands {
    resting: Vec::new(),
    polled: 0,
    is_polled_at_all: false,
    waker: None,
    is_over: false,
    task: None,
});

/// The end of a poll, for a process that ends.
static POLLED: Condvar = Condvar::new();

fn errands() -> MutexGuard<'static, Errands> {
    ERRANDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs an errand to its end, beside everything else. `before_wait` is called before its thread waits, if it has one of its own.
/// `false`: there are enough errands, or this process is about to end; the errand is dropped.
pub fn begin_errand(errand: impl Future<Output = ()> + Send + 'static, before_wait: fn()) -> bool {
    begin(errand, before_wait, one_thread_serves_all())
}

/// `in_event_loop`: this thread's polls them.
fn begin(errand: impl Future<Output = ()> + Send + 'static, before_wait: fn(), in_event_loop: bool) -> bool {
    let mut all = errands();
    if all.is_over || draining() || all.resting.len() + all.polled >= ERRANDS_MAX {
        return false;
    }
    all.resting.push(Box::pin(errand));
    if all.is_polled_at_all {
        let waker = all.waker.clone();
        drop(all);
        waker.into_iter().for_each(Waker::wake);
        return true;
    }
    if in_event_loop {
        all.task = Some(spawn(poll_all()));
    } else if let Err(error) = start_thread(before_wait) {
        let dropped = all.resting.pop();
        drop(all);
        drop(dropped);
        crate::log!("core", Error, "{}: no thread can be started for an errand", sys::describe(&error));
        return false;
    }
    all.is_polled_at_all = true;
    true
}

/// Drops all errands: the process ends.
pub fn abandon_errands() {
    let mut all = errands();
    all.is_over = true;
    let (dropped, waker) = (std::mem::take(&mut all.resting), all.waker.take());
    if all.polled > 0 {
        let waited = POLLED.wait_timeout_while(all, LAST_POLL, |all| all.polled > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    } else {
        drop(all);
    }
    drop(dropped);
    waker.into_iter().for_each(Waker::wake);
}

fn start_thread(before_wait: fn()) -> io::Result<()> {
    let live = move || {
        let lived = EventLoop::new(before_wait).and_then(|mut event_loop| event_loop.run(poll_all()));
        if let Err(error) = lived {
            let mut all = errands();
            all.is_polled_at_all = false;
            let dropped = std::mem::take(&mut all.resting);
            drop(all);
            drop(dropped);
            crate::log!("core", Error, "{}: errands cannot be run", sys::describe(&error));
        }
    };
    thread::Builder::new().name("errands".into()).stack_size(STACK).spawn(live).map(drop)
}

/// Polls the errands until the process ends.
async fn poll_all() {
    poll_fn(|cx| {
        let mut all = errands();
        all.waker = Some(cx.waker().clone());
        let mut polled = std::mem::take(&mut all.resting);
        all.polled = polled.len();
        drop(all);
        polled.retain_mut(|errand| poll_one(errand, cx).is_pending());
        let mut all = errands();
        if all.is_over {
            drop(all);
            polled.clear();
            all = errands();
        }
        all.polled = 0;
        all.resting.append(&mut polled);
        POLLED.notify_all();
        if all.is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Polls an errand. A panic ends that one only.
fn poll_one(errand: &mut Errand, cx: &mut Context<'_>) -> Poll<()> {
    catch_unwind(AssertUnwindSafe(|| errand.as_mut().poll(cx))).unwrap_or_else(|_| {
        crate::log!("core", Crit, "a panic in an errand: it has ended");
        Poll::Ready(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::executor::yield_now;

    /// Everything that must happen does so within this time.
    const DEADLINE: Duration = Duration::from_secs(30);

    /// Tells when it is dropped.
    struct Told(mpsc::Sender<&'static str>, &'static str);

    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }

    /// All of it in one test: a process has one set of errands.
    #[test]
    fn errands_run_side_by_side_and_end_with_the_process() {
        let (sender, dropped) = mpsc::channel();
        let told = |name| Told(sender.clone(), name);
        let next = || dropped.recv_timeout(DEADLINE).expect("an errand that ends");
        let (slow, quick, bad) = (told("slow"), told("quick"), told("bad"));
        let begun = begin(
            async move {
                let _slow = slow;
                std::future::pending().await
            },
            || {},
            false,
        );
        assert!(begun);
        assert!(begin(
            async move {
                yield_now().await;
                drop(quick);
            },
            || {},
            false
        ));
        assert_eq!(next(), "quick");
        assert!(begin(
            async move {
                let _bad = bad;
                panic!("an errand that panics");
            },
            || {},
            false
        ));
        assert_eq!(next(), "bad");
        let begin_another = || begin(std::future::pending(), || {}, false);
        // Those that have just ended may still count.
        let begun = (0..2 * ERRANDS_MAX).filter(|_| begin_another()).count();
        assert!((ERRANDS_MAX - 3..ERRANDS_MAX).contains(&begun), "{begun}");
        abandon_errands();
        assert_eq!(next(), "slow");
        assert!(!begin_another());
    }
}
