//! Connections that wait for their clients without a worker, and how they move between threads.
//!
//! A connection is a future that two kinds of threads poll in turn. In the stages that only wait it is *parked*: it is
//! registered with the listener's event loop, and a wake-up puts it into the list of those that the listener polls
//! next. When its next stage is [`Stage::Serve`] it says so. The listener tries to serve it on the spot; if that does
//! not finish at once, it passes the connection to a worker, which goes on with it. A worker that has served polls the
//! waiting stage once, which tells the event loop to watch, and leaves the connection. So nothing has to be sent back
//! to the listener, and the listener alone handles the end of an idle connection.

mod connections;

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use runtime::{NextPoller, Stage};
use sys::event_loop::WakeState;

use crate::stages;
pub(crate) use connections::Connections;

/// The state of a connection.
#[repr(u8)]
enum Where {
    /// A worker has to poll it.
    Serving = 0,
    /// Waits for its client.
    Parked = 1,
    /// Waits for its client's next request.
    KeptAlive = 2,
    /// Waits for its client's next request, and the listener has seen it do so before: it is idle.
    Idle = 3,
    /// Waited for a request, and should be closed.
    Unwanted = 4,
}

/// A connection's own record of its state.
#[derive(Debug, Default)]
struct ConnectionState(AtomicU8);

impl ConnectionState {
    fn is(&self, at: Where) -> bool {
        self.0.load(Ordering::Acquire) == at as u8
    }

    /// Changes the state to `to`, if it is `from`.
    fn change(&self, from: Where, to: Where) -> bool {
        self.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl stages::PollSite for Arc<ConnectionState> {
    fn poll_enter(&self, stage: Stage) -> Poll<()> {
        let next = match stage {
            Stage::Serve => Where::Serving,
            Stage::KeepAlive => Where::KeptAlive,
            Stage::ReadHead
            | Stage::WriteCompletion
            | Stage::Tunnel
            | Stage::Linger
            | Stage::ShortLinger
            | Stage::Closed => Where::Parked,
        };
        let serves = stage == Stage::Serve;
        let before = self.0.swap(next as u8, Ordering::AcqRel);
        // The poller passes the connection on, and the next poll finds it in its place.
        if (before == Where::Serving as u8) == serves { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_unwanted(&self) -> bool {
        self.is(Where::Unwanted)
    }
}

/// A connection, parked or served.
pub(crate) struct Task {
    /// Locked only by the thread that holds the connection, so no lock ever blocks. `None` when it is over.
    life: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    state: Arc<ConnectionState>,
    wake_state: WakeState,
    /// Being served, and no worker waits with it.
    released: AtomicBool,
    /// While it is released: the listener may go on with it.
    is_for_any: AtomicBool,
    number: u64,
    connections: Arc<Connections>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("number", &self.number).field("state", &self.state).finish_non_exhaustive()
    }
}

/// The state of a connection after a poll.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// Waits for its client.
    Parked,
    /// The connection needs a worker.
    Serving,
    /// The connection is over.
    Closed,
}

impl Task {
    /// Polls it as a worker, to the end of [`Stage::Serve`]. `Pending`: it has to wait, and `waker` reports the end of
    /// the wait. A connection that waits [without a worker](runtime::release_worker) needs none meanwhile: after a wake-up
    /// the listener passes it to one again.
    pub(crate) fn poll_serve(self: &Arc<Self>, waker: &Waker) -> Poll<PollOutcome> {
        self.take_back();
        if self.poll(waker) {
            return Poll::Ready(PollOutcome::Closed);
        }
        if self.state.is(Where::Serving) && runtime::worker_released().is_some() {
            self.wake_state.hold();
            if self.poll(&Waker::from(self.clone())) {
                return Poll::Ready(PollOutcome::Closed);
            }
            if self.state.is(Where::Serving) {
                // The connection may now wait for something else; then a worker has to see what that is.
                let released = runtime::worker_released();
                self.release(released.unwrap_or(NextPoller::Worker));
                match released {
                    Some(_) => self.rest(),
                    None => self.call(),
                }
                return Poll::Ready(PollOutcome::Parked);
            }
        }
        if self.state.is(Where::Serving) {
            return Poll::Pending;
        }
        // An earlier wake-up does not count: it is polled now.
        self.wake_state.hold();
        Poll::Ready(self.park())
    }

    /// Polls it for the listener, if it waits for its client.
    fn waits(self: &Arc<Self>) -> PollOutcome {
        self.wake_state.hold();
        if self.state.is(Where::Serving) { PollOutcome::Serving } else { self.park() }
    }

    /// Serves it as the listener, to the end of [`Stage::Serve`], while nothing has to be waited for. A connection that
    /// waits without a worker stays where it is; everything else goes to a worker.
    fn serves_briefly(self: &Arc<Self>) -> PollOutcome {
        if self.released.load(Ordering::Acquire) && !self.is_for_any.load(Ordering::Acquire) {
            return PollOutcome::Serving;
        }
        self.take_back();
        if runtime::briefly(|| self.poll(&Waker::from(self.clone()))) {
            return PollOutcome::Closed;
        }
        if !self.state.is(Where::Serving) {
            self.wake_state.hold();
            return self.park();
        }
        let Some(next) = runtime::worker_released() else { return PollOutcome::Serving };
        self.release(next);
        self.rest();
        PollOutcome::Parked
    }

    /// It no longer waits without a worker: this thread polls it.
    fn take_back(&self) {
        if self.released.swap(false, Ordering::AcqRel) {
            self.connections.count_released(false);
        }
        runtime::worker_released();
    }

    /// Records that it is served, that no worker waits with it, and who goes on with it.
    fn release(&self, next: NextPoller) {
        self.is_for_any.store(next == NextPoller::Any, Ordering::Release);
        self.released.store(true, Ordering::Release);
        self.connections.count_released(true);
    }

    /// Polls it where it waits.
    fn park(self: &Arc<Self>) -> PollOutcome {
        if self.poll(&Waker::from(self.clone())) {
            return PollOutcome::Closed;
        }
        if self.state.is(Where::Serving) {
            return PollOutcome::Serving;
        }
        self.rest();
        PollOutcome::Parked
    }

    /// Leaves it until it is woken, unless it already was.
    fn rest(self: &Arc<Self>) {
        if !self.wake_state.rest() {
            self.call();
        }
    }

    /// Hands it to the listener.
    fn call(self: &Arc<Self>) {
        self.wake_state.call();
        self.connections.push(self.clone());
    }

    /// Whether it is over. A panic ends this connection only.
    fn poll(&self, waker: &Waker) -> bool {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = &mut *life else { return true };
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(waker))));
        let over = match polled {
            Ok(polled) => polled.is_ready(),
            Err(_) => {
                runtime::log!("mpm_event", Crit, "a panic: the connection is closed, the child goes on");
                true
            }
        };
        if over {
            let rest = life.take();
            if catch_unwind(AssertUnwindSafe(|| drop(rest))).is_err() {
                runtime::log!("mpm_event", Crit, "a panic at the end of a connection");
            }
            self.connections.all().tasks.remove(&self.number);
        }
        over
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.wake_state.wake() {
            self.connections.push(self.clone());
        }
    }
}

#[cfg(test)]
mod tests;
