//! The stages of a connection's life, and who may poll them.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use sys::cred::Identity;

use crate::HelperProcess;
use crate::scoreboard::Workers;

/// What a connection does next. All but [`Stage::Serve`] only wait for the client and need no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Process a request whose head is there, write the answer.
    Serve,
    /// The rest of a head is waited for (`RequestReadTimeout`).
    ReadHead,
    /// The rest of an answer goes out as fast as the client reads it (`Timeout`).
    WriteCompletion,
    /// Wait for the next request (`KeepAliveTimeout`).
    KeepAlive,
    /// The client and a handler speak over a tunnel (`Timeout` without a byte).
    Tunnel,
    /// Our side is shut; drain what the client still sends, 30 s at most.
    Linger,
    /// The same after a time-out, 2 s at most.
    ShortLinger,
    /// Nothing is left to do: drop the connection.
    Closed,
}

/// A stage that was begun.
pub enum Stepping<'a> {
    /// It is over already: nothing had to be waited for.
    Done(Stage),
    /// It waits; polling it to its end says which stage is next.
    Waiting(Pin<Box<dyn Future<Output = Stage> + Send + 'a>>),
}

impl<'a> Stepping<'a> {
    /// A stage that waits.
    pub fn waiting(stage: impl Future<Output = Stage> + Send + 'a) -> Stepping<'a> {
        Stepping::Waiting(Box::pin(stage))
    }
}

/// Ends with the next stage.
impl Future for Stepping<'_> {
    type Output = Stage;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Stage> {
        match &mut *self {
            Stepping::Done(stage) => Poll::Ready(*stage),
            Stepping::Waiting(stage) => stage.as_mut().poll(cx),
        }
    }
}

/// A connection between two stages: a value that may move to another thread.
pub trait Connection: Send {
    /// Runs `stage` to its end and says which one is next. Never called with [`Stage::Closed`].
    ///
    /// What a stage can do without waiting it may do at once, before the result is polled. A connection takes its row of
    /// the scoreboard in [`Stage::Serve`], or in [`Stage::ReadHead`] where a row is not a thread's, and gives it back at the
    /// end of that stage or of the answer; what else it does is for the MPM to
    /// show.
    fn step(&mut self, stage: Stage) -> Stepping<'_>;

    /// Whether anything has come from the client that no stage has taken: asks the system, as the reactor may not have seen
    /// it yet.
    fn has_input(&self) -> bool;
}

/// An accepted socket on its way from the listener to the server.
#[derive(Debug)]
pub struct Accepted {
    /// The socket: non-blocking, close-on-exec, not yet registered with any reactor.
    pub socket: OwnedFd,
    /// The client's address.
    pub peer: SocketAddr,
    /// The scoreboard slots of this child, from which the connection takes one while it serves a request.
    pub workers: Arc<Workers>,
}

/// The server, as an MPM sees it.
pub trait Service: Send + Sync {
    /// Makes a connection of a socket. Cheap; waits for nothing. It starts with [`Stage::Serve`]. A child serves with one
    /// service to its end, so what a connection needs of it is borrowed, not counted.
    fn connect(&'static self, accepted: Accepted) -> Box<dyn Connection>;
    /// Called once in a new child, after it dropped its privileges and before it accepts. `children`: how many there may be.
    fn child_started(&self, children: usize);
    /// Opens what a configuration has beside children, for which `children` is who they become, if that is somebody else.
    /// Called once, in the parent, when nothing else can fail any more. An error is a message for the log.
    fn helpers(&self, children: Option<&Identity>) -> Result<Vec<HelperProcess>, String>;
    /// Called before a child waits for something to happen: the moment to write what was kept back (log lines).
    fn before_wait(&self);
    /// Called where an event loop looks for events without waiting, and others of its tasks may run before that: what these
    /// ask the system is no answer to what the look announces.
    fn before_pass(&self);
    /// Called once, before a child ends: what was kept back is written now, also what other threads are about to write.
    fn before_end(&self);
}

thread_local! {
    static RELEASED: Cell<bool> = const { Cell::new(false) };
}

/// Waits for a future that nothing but a wake-up can bring on, as for a turn in a queue. Where an MPM can poll one request in
/// turns with others, no worker has to wait with it: polled in vain, it says so to whoever polls.
pub async fn release_worker<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        RELEASED.set(polled.is_pending());
        polled
    })
    .await
}

/// Whether what was polled in this thread waits without a worker ([`release_worker`]). For the MPM, which asks after each poll.
pub fn is_worker_released() -> bool {
    RELEASED.take()
}

thread_local! {
    static BRIEFLY: Cell<bool> = const { Cell::new(false) };
}

/// Polls a stage in a thread that others wait for: what [needs a worker](needs_worker) is not begun. For the MPM.
pub fn briefly<T>(poll: impl FnOnce() -> T) -> T {
    /// Also where it panics.
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            BRIEFLY.set(false);
        }
    }
    BRIEFLY.set(true);
    let _over = Over;
    poll()
}

/// What follows computes for long, or may block for a moment, as a handler or a filter does. Under event the listener
/// serves requests itself for which nobody has to wait; here it leaves the request to a worker, which polls it next.
/// Anywhere else this is over at once.
pub async fn needs_worker() {
    poll_fn(|_| if BRIEFLY.get() { Poll::Pending } else { Poll::Ready(()) }).await;
}

static DRAINING: AtomicBool = AtomicBool::new(false);

/// Tells every connection of this process that it serves its last request: the child is being replaced or stopped.
pub fn drain() {
    DRAINING.store(true, Ordering::Relaxed);
}

/// Whether this process takes no further requests than those on their way: answers say `Connection: close`.
#[inline]
pub fn draining() -> bool {
    DRAINING.load(Ordering::Relaxed)
}
