//! The listener: an event loop that accepts connections and follows the parent's orders. What becomes of a connection is
//! the module's affair ([`Dispatcher`]).
//!
//! All children accept from the same sockets. A child that has clearly more connections than the others lets them go first
//! for a moment; it takes what is left, so that a child that hangs holds nobody up.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use seam::Service;
use seam::executor::{sleep, timeout, yield_now};
use seam::scoreboard::Workers;
use sys::signal::SignalFd;
use sys::time::monotonic;
use sys::watch::{Watched, watch};
use tokio::io::Interest;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::accept::{Accept, Ceiling, Shortage, accept};
use crate::child::{Child, LAST_ROUND, Order, SUCCESSION};
use crate::listen::{Listener, Listeners};

/// The most connections taken in one go, before those that are open get their turn.
const BATCH: usize = 32;
/// How long a child that is ahead of the others leaves new connections to them.
const AFTER_YOU: Duration = Duration::from_millis(1);
/// How often a child that has as many connections as it may have looks whether one has ended.
const CROWDED: Duration = Duration::from_millis(10);
/// How soon a child that leaves looks whether its last connection is closed: at first, then after twice that, and so on. A
/// client may take hours for its download.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_AGAIN: Duration = Duration::from_millis(640);
/// How long workers that are just answering may go on after an order to end, so that the log has what clients have got; and
/// how often they are looked at.
const LAST_WORDS: Duration = Duration::from_millis(100);
const LISTEN_AGAIN: Duration = Duration::from_millis(1);
/// How often a dispatcher hears that somebody who has connected is kept waiting.
const INSIST: Duration = Duration::from_millis(100);

/// What becomes of accepted connections.
pub(crate) trait Dispatcher: Send + Sync + 'static {
    /// Starts a connection. Called within the listener's event loop.
    fn start(&self, socket: OwnedFd, peer: SocketAddr);

    /// How many connections may be accepted now; waits while that is none.
    fn poll_room(&self, _cx: &mut Context<'_>) -> Poll<usize> {
        Poll::Ready(BATCH)
    }

    /// Somebody who has connected has waited for room in vain, for a tenth of a second and again for each further one.
    fn insist(&self) {}

    /// Whether another thread is just answering a request.
    fn is_answering(&self) -> bool {
        false
    }

    /// Whether any connection is open, or on its way to somebody who will serve it.
    fn is_serving(&self) -> bool;
}

/// An event loop. All that one look for events announced is served before the next look: the fewest system calls, and what
/// the service asked the system about holds for all of them (`Service::before_wait`).
pub(crate) fn runtime(service: &'static dyn Service) -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(u32::MAX)
        .on_thread_park(move || service.before_wait())
        .build()
}

/// Accepts until an order to leave comes, then waits for the last connection. An order to end ends it at once.
pub(crate) async fn live(child: Child, dispatcher: Arc<impl Dispatcher>) -> io::Result<()> {
    let orders = Orders { ready: watch(child.signals.descriptor(), Interest::READABLE)?, signals: child.signals };
    let entry = Arc::new(Entry {
        module: child.log_name,
        service: child.service,
        workers: child.workers,
        dispatcher,
        alone: child.plan.children == 1,
        ceiling: Ceiling::here()?,
        crowded: AtomicBool::new(false),
    });
    let mut acceptors = Vec::new();
    for listener in child.listeners.iter() {
        let acceptor = Acceptor {
            ready: watch(listener.descriptor(), Interest::READABLE)?,
            listener: listener.clone(),
            entry: entry.clone(),
            shortage: Shortage::new(child.log_name),
        };
        #[expect(clippy::disallowed_methods, reason = "the event loop itself")]
        acceptors.push(tokio::spawn(acceptor.watch()));
    }
    let order = orders.next().await?;
    acceptors.iter().for_each(JoinHandle::abort);
    if order == Order::End {
        last_words(&*entry.dispatcher).await;
        return Ok(());
    }
    seam::drain();
    entry.workers.quiesce();
    if order == Order::LeaveLast {
        entry.take_what_waits(&child.listeners);
    }
    drop(child.listeners);
    let mut look = LOOK_FIRST;
    while entry.dispatcher.is_serving() {
        if let Ok(order) = timeout(look, orders.next()).await
            && order? == Order::End
        {
            last_words(&*entry.dispatcher).await;
            break;
        }
        look = (look * 2).min(LOOK_AGAIN);
    }
    Ok(())
}

/// Lets workers that are just answering come to an end, for a moment.
async fn last_words(dispatcher: &impl Dispatcher) {
    let end = monotonic() + LAST_WORDS;
    while dispatcher.is_answering() && monotonic() < end {
        sleep(LISTEN_AGAIN).await;
    }
}

/// Where the parent's orders come from.
struct Orders {
    ready: Watched,
    signals: SignalFd,
}

impl Orders {
    async fn next(&self) -> io::Result<Order> {
        loop {
            let mut ready = self.ready.readable().await?;
            match Order::next(&self.signals) {
                Some(order) => return Ok(order),
                None => ready.clear_ready(),
            }
        }
    }
}

/// What all acceptors of a child lead to.
struct Entry<H> {
    module: &'static str,
    service: &'static dyn Service,
    workers: Arc<Workers>,
    dispatcher: Arc<H>,
    /// There are no other children.
    alone: bool,
    ceiling: Ceiling,
    /// A connection has reached the ceiling, and others have waited ever since.
    crowded: AtomicBool,
}

impl<H: Dispatcher> Entry<H> {
    /// How many connections may be accepted; waits while it is none.
    async fn room(&self) -> usize {
        loop {
            match timeout(INSIST, poll_fn(|cx| self.dispatcher.poll_room(cx))).await {
                Ok(room) => return room,
                Err(_) => self.dispatcher.insist(),
            }
        }
    }

    /// Accepts until nothing is waiting or `room` is used up.
    fn take_batch(&self, listener: &Listener, room: usize) -> Batch {
        for _ in 0..room.min(BATCH) {
            if self.is_crowded() {
                return Batch::Full;
            }
            match accept(listener) {
                Accept::Taken(socket, peer) => {
                    let within = self.ceiling.check(&socket);
                    self.dispatcher.start(socket, peer);
                    if self.workers.accepted() {
                        return Batch::Last;
                    }
                    if let Err(error) = within {
                        self.crowded.store(true, Ordering::Relaxed);
                        return Batch::Crowded(error);
                    }
                }
                Accept::Gone => {}
                Accept::Nothing => {
                    self.crowded.store(false, Ordering::Relaxed);
                    return Batch::Empty;
                }
                Accept::Shortage(error) => return Batch::Shortage(error),
            }
        }
        Batch::Full
    }

    /// Accepts what waits in the listen queues, for a while at most: nobody comes after us who could.
    fn take_what_waits(&self, listeners: &Listeners) {
        let end = monotonic() + LAST_ROUND;
        for listener in listeners.iter() {
            while monotonic() < end {
                match accept(listener) {
                    Accept::Taken(socket, peer) => self.dispatcher.start(socket, peer),
                    Accept::Gone => {}
                    Accept::Nothing | Accept::Shortage(_) => break,
                }
            }
        }
    }

    /// Whether the next connection would take a descriptor that is left to files and scripts. Looked at before each one, once a
    /// connection has reached the ceiling and as long as others wait. Who serves nobody takes one in any case: it must not
    /// wait for what is kept open for the next request.
    fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed) && self.dispatcher.is_serving() && !self.ceiling.has_room()
    }

    /// Whether this child has clearly more than its share of the connections.
    fn is_ahead(&self) -> bool {
        let average = self.workers.average_connections();
        self.workers.connections() > average + average / 8 + 8
    }
}

/// A listening socket and what comes in through it.
struct Acceptor<H> {
    ready: Watched,
    listener: Listener,
    entry: Arc<Entry<H>>,
    shortage: Shortage,
}

/// How a batch ended.
enum Batch {
    /// More may be waiting.
    Full,
    /// Nothing is waiting any more.
    Empty,
    /// The child has accepted as many as it should in its life.
    Last,
    /// The next ones would take descriptors that are left to others.
    Crowded(io::Error),
    /// The system cannot give us more.
    Shortage(io::Error),
}

impl<H: Dispatcher> Acceptor<H> {
    async fn watch(mut self) {
        loop {
            let mut ready = match self.ready.readable().await {
                Ok(ready) => ready,
                Err(error) => {
                    // A child that cannot accept is of no use; the parent starts another one.
                    let (module, text) = (self.entry.module, sys::describe(&error));
                    seam::log!(module, Crit, "{text}: a listening socket cannot be watched, this child ends");
                    std::process::exit(1);
                }
            };
            if !self.entry.alone && self.entry.is_ahead() {
                sleep(AFTER_YOU).await;
            }
            while self.entry.is_crowded() {
                sleep(CROWDED).await;
            }
            let room = self.entry.room().await;
            if self.entry.workers.is_quiescing() {
                // The order to leave is on its way.
                return;
            }
            match self.entry.take_batch(&self.listener, room) {
                Batch::Full => {
                    self.shortage.over();
                    self.entry.service.before_pass();
                    yield_now().await;
                }
                Batch::Empty => {
                    ready.clear_ready();
                    self.shortage.over();
                }
                Batch::Last => sleep(SUCCESSION).await,
                Batch::Crowded(error) => self.shortage.say(&error),
                Batch::Shortage(error) => sleep(self.shortage.wait(&error)).await,
            }
        }
    }
}
