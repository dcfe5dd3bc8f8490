//! percore: a child for each processor, and in it one event loop for many connections.
//!
//! All children accept from the same sockets. A child that has clearly more connections than the others lets them go first
//! for a moment; it takes what is left, so that a child that hangs holds nobody up.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use conf::{Face, Notice, Slots};
use seam::Service;
use seam::scoreboard::Workers;
use sys::signal::SignalFd;
use sys::time::monotonic;
use sys::watch::{Watched, watch};
use tokio::io::Interest;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{sleep, timeout};

use crate::accept::{Accept, Shortage, accept};
use crate::child::{Child, FATAL, LAST_ROUND, Order};
use crate::limits::{Plan, When, percore};
use crate::listen::{Listener, Listeners};
use crate::{Mpm, Words, stages, tables};

/// How many requests of a child the status page can list at once; more are served and counted all the same.
const ROWS: usize = 64;
/// The most connections taken in one go, before those that are open get their turn.
const BATCH: usize = 32;
/// How long a child that is ahead of the others leaves new connections to them.
const AFTER_YOU: Duration = Duration::from_millis(1);
/// How often a child that leaves looks whether its last connection is closed.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The module.
pub(crate) struct Percore;

impl Mpm for Percore {
    fn face(&self) -> &'static Face {
        &tables::PERCORE
    }

    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn plan(&self, settings: &Slots, _: When) -> (Plan, Vec<Notice>) {
        (percore(settings, sys::affinity::cpus(), ROWS), Vec::new())
    }

    fn serve(&self, child: Child) -> i32 {
        let module = child.log_name;
        serve(child).map_or_else(
            |error| {
                seam::log!(module, Emerg, "{}: a child cannot serve", sys::describe(&error));
                FATAL
            },
            |()| 0,
        )
    }
}

static WORDS: Words = Words {
    configured: "",
    built: "",
    terminated: "caught SIGTERM, shutting down",
    graceful_stop: "caught SIGWINCH, shutting down gracefully",
    graceful: "SIGUSR1 received.  Doing graceful restart",
    restart: "SIGHUP received.  Attempting to restart",
    cannot_fork: "fork: Unable to fork new process",
    limit_reached: "",
    busy: |_, _, _| String::new(),
};

fn serve(child: Child) -> io::Result<()> {
    let service = child.service;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // All that one look for events announced is served before the next look: the fewest system calls, and what the
        // service asked the system about holds for all of them (`Service::before_wait`).
        .event_interval(u32::MAX)
        .on_thread_park(move || service.before_wait())
        .build()?;
    runtime.block_on(live(child))
}

/// Accepts until an order to leave comes, then waits for the last connection. An order to end ends it at once.
async fn live(child: Child) -> io::Result<()> {
    let orders = Orders { ready: watch(child.signals.descriptor(), Interest::READABLE)?, signals: child.signals };
    let entry = Entry { service: child.service, workers: child.workers };
    let mut doors = Vec::new();
    for listener in child.listeners.iter() {
        let door = Door {
            ready: watch(listener.descriptor(), Interest::READABLE)?,
            listener: listener.clone(),
            entry: entry.clone(),
            alone: child.plan.children == 1,
            max_connections: child.plan.max_connections,
            shortage: Shortage::new(child.log_name),
        };
        doors.push(tokio::spawn(door.watch()));
    }
    let order = orders.next().await?;
    if order == Order::End {
        return Ok(());
    }
    seam::drain();
    entry.workers.quiesce();
    doors.iter().for_each(JoinHandle::abort);
    if order == Order::LeaveLast {
        entry.take_what_waits(&child.listeners);
    }
    drop(child.listeners);
    while entry.workers.connections() > 0 {
        if let Ok(order) = timeout(LOOK_AGAIN, orders.next()).await
            && order? == Order::End
        {
            break;
        }
    }
    Ok(())
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

/// What a new connection needs.
#[derive(Clone)]
struct Entry {
    service: &'static dyn Service,
    workers: Arc<Workers>,
}

impl Entry {
    /// Starts a connection.
    fn start(&self, socket: std::os::fd::OwnedFd, peer: std::net::SocketAddr) {
        let connection = stages::connect(self.service, &self.workers, socket, peer);
        // What never waits lets others have their turn by itself; tokio need not count.
        tokio::spawn(tokio::task::unconstrained(stages::run(connection)));
    }

    /// Accepts until nothing is waiting or the batch is full.
    fn take_batch(&self, listener: &Listener, max_connections: u64) -> Batch {
        for _ in 0..BATCH {
            match accept(listener) {
                Accept::Taken(socket, peer) => {
                    self.start(socket, peer);
                    if self.workers.accepted() == max_connections {
                        // A wish: the parent starts another child, and then orders this one to leave.
                        self.workers.quiesce();
                    }
                }
                Accept::Gone => {}
                Accept::Nothing => return Batch::Empty,
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
                    Accept::Taken(socket, peer) => self.start(socket, peer),
                    Accept::Gone => {}
                    Accept::Nothing | Accept::Shortage(_) => break,
                }
            }
        }
    }

    /// Whether this child has clearly more than its share of the connections.
    fn is_ahead(&self) -> bool {
        let average = self.workers.average_connections();
        self.workers.connections() > average + average / 8 + 8
    }
}

/// A listener and what comes in through it.
struct Door {
    ready: Watched,
    listener: Listener,
    entry: Entry,
    /// There are no other children.
    alone: bool,
    max_connections: u64,
    shortage: Shortage,
}

/// How a batch ended.
enum Batch {
    /// More may be waiting.
    Full,
    /// Nothing is waiting any more.
    Empty,
    /// The system cannot give us more.
    Shortage(io::Error),
}

impl Door {
    async fn watch(mut self) {
        loop {
            let mut ready = match self.ready.readable().await {
                Ok(ready) => ready,
                Err(error) => {
                    // A child that cannot accept is of no use; the parent starts another one.
                    let text = sys::describe(&error);
                    seam::log!("mpm_percore", Crit, "{text}: a listening socket cannot be watched, this child ends");
                    std::process::exit(1);
                }
            };
            if !self.alone && self.entry.is_ahead() {
                sleep(AFTER_YOU).await;
            }
            match self.entry.take_batch(&self.listener, self.max_connections) {
                Batch::Full => {
                    self.entry.service.before_wait();
                    yield_now().await;
                }
                Batch::Empty => {
                    ready.clear_ready();
                    self.shortage.over();
                }
                Batch::Shortage(error) => sleep(self.shortage.wait(&error)).await,
            }
        }
    }
}
