//! The acceptor: takes the connections that come in at the listening sockets.
//!
//! All children accept from the same sockets. The kernel wakes one child for a connection: of those that sleep, the one
//! that has been registered at the socket the longest ([`watch_exclusively`]). The others sleep on, so there are two
//! rules:
//!
//! - A child that is woken accepts until no connection waits. If it cannot, it leaves the sockets and raises their
//!   wake events, on which the children wait in the same way, so another one looks. When it can accept again it comes back,
//!   and finds whatever waits.
//! - A child that has more connections than the others goes to the end of the line once it has accepted. If it has
//!   clearly more, it even leaves the connections it is woken for to the others for a moment; then it takes what is
//!   left, so that a child that hangs holds nobody up.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use runtime::executor::{sleep, timeout, yield_now};
use runtime::scoreboard::Workers;
use runtime::{Service, Tidying};
use sys::poll::readable;
use sys::time::monotonic;
use sys::watch::{Watched, watch_exclusively};

use super::dispatcher::{BATCH, Dispatcher, MAKE_ROOM};
use crate::accept::{Accept, Ceiling, Shortage, accept};
use crate::child::{Child, LAST_ROUND, SUCCESSION};
use crate::listen::{Listener, Listeners};

/// How many connections a child may be ahead of the others before it lets them go first.
const AHEAD: u64 = 2;
/// How many of those that the others have left it takes at a time: they may only be slow to wake up.
const LEFT_OVER: usize = 8;
/// How long a child that is ahead of the others leaves new connections to them.
const AFTER_YOU: Duration = Duration::from_millis(1);
/// How often a full child checks whether a connection has ended.
const CROWDED: Duration = Duration::from_millis(10);
/// How often a dispatcher hears that a connected client is kept waiting.
const INSIST: Duration = Duration::from_millis(100);

/// The listening sockets of a child, and the connections that come in through them.
pub(super) struct Acceptor<H> {
    module: &'static str,
    service: &'static dyn Service,
    entry: Entry<H>,
    listeners: Listeners,
    /// This child's registrations, one per listener; empty while it is away.
    registrations: Vec<Registration>,
    /// There are no other children.
    alone: bool,
    shortage: Shortage,
}

/// How a child's number of connections compares with the others'.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// Its share, or less.
    Fair,
    More,
    ClearlyMore,
}

impl<H: Dispatcher> Acceptor<H> {
    /// For a new child.
    pub(super) fn open(child: Child, dispatcher: Arc<H>) -> io::Result<Acceptor<H>> {
        let entry = Entry { workers: child.workers, dispatcher, ceiling: Ceiling::here()?, crowded: false };
        let registrations = registrations(&child.listeners)?;
        Ok(Acceptor {
            module: child.log_name,
            service: child.service,
            entry,
            listeners: child.listeners,
            registrations,
            alone: child.plan.children == 1,
            shortage: Shortage::new(child.log_name),
        })
    }

    /// Accepts while it is polled.
    pub(super) async fn attend(&mut self) -> Infallible {
        loop {
            self.come_back();
            poll_fn(|cx| self.poll_woken(cx)).await;
            if self.entry.workers.is_quiescing() {
                // The order to leave is on its way.
                return pending().await;
            }
            let share = self.share();
            if share == Share::ClearlyMore {
                // Children that sleep are woken: the kernel may have woken nobody but this child for all of a burst.
                self.go_away();
                sleep(AFTER_YOU).await;
                self.come_back();
                self.registrations.iter_mut().for_each(|registration| registration.called = true);
            }
            let Poll::Ready(mut room) = poll_fn(|cx| Poll::Ready(self.entry.poll_room(cx))).await else {
                self.go_away();
                self.room().await;
                continue;
            };
            room = room.min(match share {
                Share::ClearlyMore => LEFT_OVER,
                Share::Fair | Share::More => self.until_clearly_more(),
            });
            match poll_fn(|cx| Poll::Ready(self.take(cx, room))).await {
                Batch::Full => {
                    self.shortage.over();
                    self.service.before_pass();
                    yield_now().await;
                }
                Batch::Empty => self.shortage.over(),
                Batch::Last => {
                    self.go_away();
                    sleep(SUCCESSION).await;
                }
                Batch::Crowded(error) => self.shortage.log(&error),
                Batch::Shortage(error) => {
                    self.service.make_room(MAKE_ROOM);
                    let wait = self.shortage.wait(&error);
                    self.go_away();
                    sleep(wait).await;
                }
            }
            if share != Share::Fair {
                // On its return it joins the end of the line.
                self.registrations.clear();
            }
        }
    }

    /// Announces that this child accepts no more.
    pub(super) fn quiesce(&self) {
        self.entry.workers.quiesce();
    }

    /// Stops accepting. Returns whether any connection waits; if so, another child was called.
    pub(super) fn close(&mut self) -> bool {
        self.registrations.clear();
        let mut waits = false;
        for listener in self.listeners.iter().filter(|listener| has_pending(listener)) {
            listener.wake_event().raise();
            waits = true;
        }
        waits
    }

    /// Accepts one connection from each listener, if it is there.
    pub(super) fn take_first(&self) {
        for listener in self.listeners.iter() {
            self.entry.take_one(listener);
        }
    }

    /// Accepts the connections that wait in the listen queues, for a limited time: no other child comes after us.
    pub(super) fn accept_pending(&mut self) {
        self.registrations.clear();
        let end = monotonic() + LAST_ROUND;
        for listener in self.listeners.iter() {
            while monotonic() < end && self.entry.take_one(listener) {}
        }
    }

    fn come_back(&mut self) {
        if !self.registrations.is_empty() {
            return;
        }
        match registrations(&self.listeners) {
            Ok(registrations) => self.registrations = registrations,
            Err(error) => {
                // A child that cannot accept is useless; the parent starts another one.
                let text = sys::describe(&error);
                runtime::log!(self.module, Crit, "{text}: a listening socket cannot be watched, this child ends");
                self.service.before_end();
                std::process::exit(1);
            }
        }
    }

    /// Leaves the waiting connections to other children, for a while.
    fn go_away(&mut self) {
        if !self.alone {
            self.close();
        }
    }

    /// Ready when a connection may be waiting.
    fn poll_woken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut woken = false;
        for registration in &mut self.registrations {
            woken |= registration.is_woken(cx);
        }
        if woken { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Accepts a batch from each listener where connections may wait, but no more than `room`.
    fn take(&mut self, cx: &mut Context<'_>, mut room: usize) -> Batch {
        let mut whole = Batch::Empty;
        for registration in &mut self.registrations {
            let ready = match registration.socket.poll_read_ready(cx) {
                Poll::Ready(ready) => ready.ok(),
                Poll::Pending if registration.called => None,
                Poll::Pending => continue,
            };
            match self.entry.take_batch(&registration.listener, &mut room) {
                Batch::Empty => {
                    registration.called = false;
                    if let Some(mut ready) = ready {
                        ready.clear_ready();
                    }
                }
                Batch::Full if room > 0 => whole = Batch::Full,
                ended => return ended,
            }
        }
        whole
    }

    /// What the service does beside the connections.
    pub(super) fn tidy(&self) -> Tidying {
        self.service.tidy()
    }

    /// Waits until connections may be accepted.
    async fn room(&self) {
        while self.entry.is_crowded() {
            // Clients that only wait leave their descriptors to those that want something.
            if self.listeners.iter().any(has_pending) {
                self.service.make_room(MAKE_ROOM);
            }
            sleep(CROWDED).await;
        }
        while timeout(INSIST, poll_fn(|cx| self.entry.dispatcher.poll_room(cx))).await.is_err() {
            if self.listeners.iter().any(has_pending) {
                self.entry.dispatcher.insist();
            }
        }
    }

    fn share(&self) -> Share {
        if self.alone {
            return Share::Fair;
        }
        let fair = self.fair();
        match self.entry.workers.connections() {
            own if own <= fair => Share::Fair,
            own if own <= fair + AHEAD => Share::More,
            _ => Share::ClearlyMore,
        }
    }

    /// How many connections this child may have without having more than the others.
    fn fair(&self) -> u64 {
        let average = self.entry.workers.average_connections();
        average + average / 8
    }

    /// How many connections make it clearly more, at least one.
    fn until_clearly_more(&self) -> usize {
        if self.alone {
            return BATCH;
        }
        let more = (self.fair() + AHEAD + 1).saturating_sub(self.entry.workers.connections());
        usize::try_from(more).unwrap_or(BATCH).max(1)
    }
}

fn has_pending(listener: &Listener) -> bool {
    readable(listener, Some(Duration::ZERO)).unwrap_or(true)
}

/// A registration at a listening socket.
struct Registration {
    listener: Listener,
    socket: Watched,
    wake_event: Watched,
    /// The wake event was raised: a connection may wait that the kernel does not report again.
    called: bool,
}

/// Registers at the end of the line.
fn registrations(listeners: &Listeners) -> io::Result<Vec<Registration>> {
    let registration = |listener: &Listener| {
        let socket = watch_exclusively(listener.descriptor())?;
        let wake_event = watch_exclusively(listener.wake_event().descriptor())?;
        Ok(Registration { listener: listener.clone(), socket, wake_event, called: false })
    };
    listeners.iter().map(registration).collect()
}

impl Registration {
    fn is_woken(&mut self, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(Ok(mut ready)) = self.wake_event.poll_read_ready(cx) {
            // If another child got there first, that one looks.
            self.called |= self.listener.wake_event().lower();
            ready.clear_ready();
        }
        self.socket.poll_read_ready(cx).is_ready() || self.called
    }
}

/// How a batch ended.
enum Batch {
    /// More may be waiting.
    Full,
    /// Nothing is waiting any more.
    Empty,
    /// The child has accepted all the connections of its lifetime.
    Last,
    /// The next one would take a descriptor that is reserved for other uses.
    Crowded(io::Error),
    /// The system cannot give us more.
    Shortage(io::Error),
}

/// Decides which connections come in, and where they go.
struct Entry<H> {
    workers: &'static Workers,
    dispatcher: Arc<H>,
    ceiling: Ceiling,
    /// A connection has reached the ceiling, and others have waited ever since.
    crowded: bool,
}

impl<H: Dispatcher> Entry<H> {
    /// How many connections may be accepted now. Pending: none.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.is_crowded() { Poll::Pending } else { self.dispatcher.poll_room(cx) }
    }

    /// Accepts until nothing is waiting or `room` is used up.
    fn take_batch(&mut self, listener: &Listener, room: &mut usize) -> Batch {
        for _ in 0..BATCH.min(*room) {
            if self.is_crowded() {
                return Batch::Full;
            }
            // Another generation has taken over since this child was woken; the order to leave is on its way.
            if self.workers.is_quiescing() {
                return Batch::Empty;
            }
            match accept(listener) {
                Accept::Taken(socket, peer) => {
                    *room -= 1;
                    let within = self.ceiling.check(&socket);
                    self.dispatcher.start(socket, peer);
                    if self.workers.accepted() {
                        return Batch::Last;
                    }
                    if let Err(error) = within {
                        self.crowded = true;
                        return Batch::Crowded(error);
                    }
                }
                Accept::Gone => {}
                Accept::Nothing => {
                    self.crowded = false;
                    return Batch::Empty;
                }
                Accept::Shortage(error) => return Batch::Shortage(error),
            }
        }
        Batch::Full
    }

    /// Accepts one connection. `false`: there was none.
    fn take_one(&self, listener: &Listener) -> bool {
        match accept(listener) {
            Accept::Taken(socket, peer) => {
                self.dispatcher.start(socket, peer);
                self.workers.accepted();
                true
            }
            Accept::Gone => true,
            Accept::Nothing | Accept::Shortage(_) => false,
        }
    }

    /// Whether the next connection would take a descriptor that is reserved for files and scripts. Checked before each
    /// one, from the moment a connection has reached the ceiling until none waits. An idle child takes one in any case:
    /// it must not wait for descriptors that are reserved for the next request.
    fn is_crowded(&self) -> bool {
        self.crowded && self.dispatcher.is_serving() && !self.ceiling.has_room()
    }
}
