//! The stages of a connection's life, and which threads may poll them.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use sys::cred::Identity;

use super::helper_process::HelperProcess;
use crate::scoreboard::Workers;

/// The next step of a connection. All but [`Stage::Serve`] only wait for the client and need no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Process a request whose head has arrived, and write the response.
    Serve,
    /// Wait for the rest of a head (`RequestReadTimeout`).
    ReadHead,
    /// Send the rest of a response as fast as the client reads it (`Timeout`).
    WriteCompletion,
    /// Wait for the next request (`KeepAliveTimeout`).
    KeepAlive,
    /// Let the client and a handler speak over a tunnel (`Timeout` without a byte).
    Tunnel,
    /// Our side is shut; drain what the client still sends, 30 s at most.
    Linger,
    /// Our side is shut after a time-out; drain what the client still sends, 2 s at most.
    ShortLinger,
    /// Nothing is left to do: drop the connection.
    Closed,
}

/// A stage that has begun.
pub enum Stepping<'a> {
    /// Already over: nothing had to be waited for.
    Done(Stage),
    /// The connection waits in its own memory: for its next request, as most do most of the time, or for an expected answer.
    Resting(&'a mut dyn Connection),
    /// The stage waits; polling the future to its end gives the next stage.
    Waiting(Pin<Box<dyn Future<Output = Stage> + Send + 'a>>),
}

impl<'a> Stepping<'a> {
    /// Makes a stage that waits.
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
            Stepping::Resting(connection) => connection.poll_resting(cx),
            Stepping::Waiting(stage) => stage.as_mut().poll(cx),
        }
    }
}

/// A connection between two stages: a value that may move to another thread.
pub trait Connection: Send {
    /// Runs `stage` to its end and returns the next one. Never called with [`Stage::Closed`].
    ///
    /// Work that needs no waiting may be done at once, before the result is polled. A connection takes its row of the
    /// scoreboard in [`Stage::Serve`], or in [`Stage::ReadHead`] if rows do not belong to threads, and gives it back at
    /// the end of that stage or of the response; the MPM shows everything else.
    fn step(&mut self, stage: Stage) -> Stepping<'_>;

    /// Waits in a stage whose step is [`Stepping::Resting`]: ready with the next stage.
    fn poll_resting(&mut self, _cx: &mut Context<'_>) -> Poll<Stage> {
        Poll::Ready(Stage::Closed)
    }

    /// Whether the client has sent anything that no stage has taken. Asks the system, as the reactor may not have seen
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
    pub workers: &'static Workers,
}

/// Work beside the connections, for as long as a child lives.
pub type Tidying = Pin<Box<dyn Future<Output = Infallible> + Send>>;

/// The server, from the view of an MPM.
pub trait Service: Send + Sync {
    /// Makes a connection from a socket. Cheap; never waits. It starts with [`Stage::Serve`]. A child has one service
    /// for its whole life, so a connection borrows it instead of counting references.
    fn connect(&'static self, accepted: Accepted) -> Box<dyn Connection>;
    /// Called once in a new child, after it dropped its privileges and before it accepts. `children`: how many there may be.
    fn child_started(&self, children: usize);
    /// Opens the processes that a configuration has beside children. `children` is the user that those become, if it is
    /// a different one. Called once, in the parent, when nothing else can fail any more. An error is a message for the
    /// log.
    fn helpers(&self, children: Option<&Identity>) -> Result<Vec<HelperProcess>, String>;
    /// Called before a child waits for events: the moment to write buffered log lines.
    fn before_wait(&self);
    /// Called when an event loop looks for events without waiting, after which other tasks may run first: an earlier
    /// answer of the system says nothing about the events of this look.
    fn before_pass(&self);
    /// Asks up to so many connections to close, of those that only wait for their clients, because others need their
    /// places or descriptors. Returns how many were asked.
    fn make_room(&self, _most: usize) -> usize {
        0
    }
    /// What a child does beside its connections: gives memory back that they have left.
    fn tidy(&self) -> Tidying {
        Box::pin(std::future::pending())
    }
    /// Called once, before a child ends: writes everything buffered, including what other threads are about to write.
    fn before_end(&self);
}

/// Who may go on with a stage that has waited without a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPoller {
    /// A worker: what comes next may take long.
    Worker,
    /// Any thread.
    Any,
}

thread_local! {
    static RELEASED: Cell<Option<NextPoller>> = const { Cell::new(None) };
}

/// Waits for a future that only a wake-up can bring on, such as a turn in a queue. If an MPM can poll one request in
/// turns with others, no worker waits with it: a poll in vain reports this to the poller. A part of the future may
/// [need a worker](needs_worker) all the same; then it gets one.
pub async fn release_worker<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        let is_released = polled.is_pending() && !NEEDED.take();
        RELEASED.set(is_released.then_some(NextPoller::Worker));
        polled
    })
    .await
}

/// The result of a poll in vain of a stage that neither waits with a worker nor needs one afterwards.
pub fn pending_without_worker<T>() -> Poll<T> {
    RELEASED.set(Some(NextPoller::Any));
    Poll::Pending
}

/// Whether the stage last polled in this thread waits without a worker ([`release_worker`]), and who goes on. For the MPM,
/// which asks after each poll.
pub fn worker_released() -> Option<NextPoller> {
    RELEASED.take()
}

thread_local! {
    static BRIEFLY: Cell<bool> = const { Cell::new(false) };
    /// Something that is polled briefly needs a worker.
    static NEEDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this poll is a [brief](briefly) one: what it has left to a worker is polled by that without a wake-up.
pub fn is_brief() -> bool {
    BRIEFLY.get()
}

/// Polls a stage in a thread that others wait for: anything that [needs a worker](needs_worker) does not begin. For the
/// MPM.
pub fn briefly<T>(poll: impl FnOnce() -> T) -> T {
    /// Resets it, even after a panic.
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            BRIEFLY.set(false);
        }
    }
    NEEDED.set(false);
    BRIEFLY.set(true);
    let _over = Over;
    poll()
}

/// Announces that the following code computes for long, or may block for a moment, as a handler or a filter does. Under
/// event the listener itself serves requests that need no waiting; at this point it leaves the request to a worker,
/// which polls it next. Everywhere else this is ready at once.
pub async fn needs_worker() {
    poll_fn(|_| {
        if BRIEFLY.get() {
            NEEDED.set(true);
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

static DRAINING: AtomicBool = AtomicBool::new(false);

/// Makes every connection of this process treat its current request as the last: the child is being replaced or
/// stopped.
pub fn drain() {
    DRAINING.store(true, Ordering::Relaxed);
}

/// Whether this process takes no further requests than those on their way: answers say `Connection: close`.
#[inline]
pub fn draining() -> bool {
    DRAINING.load(Ordering::Relaxed)
}
