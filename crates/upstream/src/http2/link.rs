//! A connection, as all its requests see it: the protocol's state, what has come, and what is to be sent.
//!
//! Where a thread polls many tasks, requests share connections, and a task of its own reads and writes for all of them: a request
//! whose client is slow does not hold up the others. Elsewhere a connection has one request at a time, which does that itself.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use http::h2::client::{Config, Connection, Event, Gone};
use http::h2::{At, FieldList, Reason};
use runtime::Awaited;
use runtime::executor::Timer;
use sys::time::Instant;

use crate::connect::NoConnection;
use crate::connection;
use crate::stream::Stream;

/// How many interim responses a server may send to a request, as in Apache's mod_proxy_http.
pub const INTERIM_MAX: usize = 10;
/// Requests wait as long as so much of a connection is unsent, in bytes; nothing is received while twice as much is.
const ROOM: usize = 64 * 1024;
/// The room for what is received at once, in bytes: a frame of the usual size.
const PIECE: usize = 16 * 1024 + 9;
/// How often in a row a connection is read from before others have a turn.
const STEPS: usize = 16;
/// What a server may send: so many requests at a time, each with so much of its response that the client has not taken (in bytes), and
/// heads of 64 KB.
const CONFIG: Config = Config { streams: 100, window: 128 * 1024, header_list: 64 * 1024 };

/// After so many streams that were given up, a connection takes no more requests. Servers close connections with many resets to
/// protect themselves, some after 100, and that would end the requests of others.
const RETIRES_AFTER: usize = 20;
/// After so many of them, the server does not hear of more: its streams stall until the connection ends.
const RESETS_MAX: usize = 40;

/// Told once whether a new connection can be used: the server has sent its settings.
pub(super) type Greeting = Awaited<Result<(), NoConnection>>;

/// Why a connection has ended.
#[derive(Clone, Debug)]
pub enum Lost {
    /// The server has closed it.
    Closed,
    /// The system says why.
    Failed(String),
    /// The server has violated the protocol.
    Violated(&'static str),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Closed => f.write_str("it closed the connection"),
            Lost::Failed(why) => f.write_str(why),
            Lost::Violated(what) => write!(f, "it violates the protocol: {what}"),
        }
    }
}

/// The head of a response.
#[derive(Debug)]
pub struct Head {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: FieldList,
    /// It is the whole response.
    pub ends: bool,
}

/// What has come of a response, and who waits for it.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) heads: VecDeque<Head>,
    pub(super) body: BytesMut,
    pub(super) trailers: Option<FieldList>,
    pub(super) has_begun: bool,
    pub(super) has_ended: bool,
    /// It has ended early.
    pub(super) gone: Option<Gone>,
    /// Its request waits for room.
    wants_room: bool,
    /// When something came last.
    pub(super) active: Option<Instant>,
    waker: Option<Waker>,
}

impl Slot {
    pub(super) fn await_by(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|have| have.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    fn wake_for_room(&mut self) {
        if std::mem::take(&mut self.wants_room) {
            self.wake();
        }
    }

    fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

/// The streams of a connection that were given up before they had ended, and what comes for them all the same.
#[derive(Default)]
struct GivenUp {
    streams: usize,
    /// In bytes.
    received: usize,
}

impl GivenUp {
    /// Counts bytes for streams that are over; `false`: they are more than the windows of these allowed.
    fn receive(&mut self, bytes: usize) -> bool {
        self.received = self.received.saturating_add(bytes);
        self.received <= (1 + self.streams) * CONFIG.window as usize
    }
}

/// A connection that speaks HTTP/2.
pub(super) struct Wire(Mutex<State>);

pub(super) struct State {
    /// `None`: it has ended.
    io: Option<Stream>,
    pub(super) protocol: Connection<Slot>,
    /// How much of the protocol's bytes is sent.
    sent: usize,
    /// Received, and not used.
    input: Vec<u8>,
    used: usize,
    /// Whether a task reads and writes for all requests, and how it is woken.
    is_driven: bool,
    driver: Option<Waker>,
    /// Nothing is received, because too much is unsent.
    is_paused: bool,
    /// A request waits for room in what is to be sent.
    is_full: bool,
    greeting: Option<Greeting>,
    /// When something came last, and when the last request has ended.
    heard: Instant,
    idle_since: Instant,
    /// No more requests may begin.
    is_retired: bool,
    given_up: GivenUp,
    pub(super) lost: Option<Lost>,
}

impl Wire {
    /// Takes a connection. `greeting`: told whether it can be used. `is_driven`: [`drive`] is to be polled.
    pub(super) fn new(connection: connection::Connection, is_driven: bool, greeting: Option<Greeting>) -> Arc<Wire> {
        let now = Instant::now();
        Arc::new(Wire(Mutex::new(State {
            io: Some(Stream::for_both_directions(connection)),
            protocol: Connection::new(CONFIG),
            sent: 0,
            input: Vec::new(),
            used: 0,
            is_driven,
            driver: None,
            is_paused: false,
            is_full: false,
            greeting,
            heard: now,
            idle_since: now,
            is_retired: false,
            given_up: GivenUp::default(),
            lost: None,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads and writes for all requests, until the connection ends or was idle for this time.
pub(super) async fn drive(wire: Arc<Wire>, idle: Duration) {
    let driven = Driven(wire);
    let wire = &driven.0;
    let mut timer = Timer::default();
    loop {
        let goes_on = poll_fn(|cx| {
            let mut state = wire.lock();
            if !state.driver.as_ref().is_some_and(|have| have.will_wake(cx.waker())) {
                state.driver = Some(cx.waker().clone());
            }
            let has_more = state.drive(cx);
            if state.is_done() {
                return Poll::Ready(false);
            }
            if has_more {
                return Poll::Ready(true);
            }
            if state.protocol.streams() > 0 {
                return Poll::Pending;
            }
            state.rest();
            timer.poll_passed(cx, state.idle_since + idle).map(|()| false)
        });
        if !goes_on.await {
            return wire.lock().close();
        }
        runtime::yield_now().await;
    }
}

/// A connection that a task reads and writes. However that ends, nobody waits for it afterwards.
struct Driven(Arc<Wire>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.lock().lose(Lost::Closed);
    }
}

impl State {
    /// Whether a request may begin now.
    pub(super) fn has_room(&self) -> bool {
        self.lost.is_none() && self.may_begin() && self.protocol.has_room()
    }

    /// Whether nothing happens on it any more, now or soon.
    pub(super) fn is_done(&self) -> bool {
        self.lost.is_some() || self.protocol.streams() == 0 && !self.may_begin()
    }

    /// Whether requests may begin, as soon as others have ended.
    fn may_begin(&self) -> bool {
        !self.is_retired && self.given_up.streams < RETIRES_AFTER && self.protocol.may_begin()
    }

    /// Whether it can carry a request later, and nothing is left to do now.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_done() && self.protocol.streams() == 0 && self.unsent() == 0
    }

    /// Reads and writes, if nobody else does; `true`: there may be more, but others get their turn.
    pub(super) fn drive_alone(&mut self, cx: &mut Context<'_>) -> bool {
        !self.is_driven && self.drive(cx)
    }

    /// Sends what a request has written.
    pub(super) fn kick(&mut self, cx: &mut Context<'_>) {
        if !self.is_driven {
            return self.flush(cx);
        }
        // Its task has not begun, and will send it.
        let Some(driver) = self.driver.clone() else { return };
        self.flush(&mut Context::from_waker(&driver));
        if self.is_paused || self.lost.is_some() {
            driver.wake();
        }
    }

    /// How much may be sent now on this stream, in bytes. If that is nothing, its request is woken when there is more.
    pub(super) fn room(&mut self, at: At) -> usize {
        let here = ROOM.saturating_sub(self.unsent());
        self.is_full |= here == 0;
        let room = self.protocol.room(at).min(here);
        if let Some(slot) = self.protocol.stream(at) {
            slot.wants_room = room == 0;
        }
        room
    }

    /// A request has waited in vain since then. If nothing at all has come meanwhile, no more requests begin here.
    pub(super) fn doubt(&mut self, since: Instant) {
        self.is_retired |= self.heard < since;
    }

    /// The request on this stream is over, or nobody wants its response.
    pub(super) fn release(&mut self, at: At) {
        let is_cut = match self.given_up.streams < RESETS_MAX {
            true => self.protocol.release(at),
            false => self.protocol.abandon(at),
        };
        self.given_up.streams += usize::from(is_cut);
        self.idle_since = Instant::now();
        self.kick(&mut Context::from_waker(Waker::noop()));
        if self.protocol.streams() == 0 {
            // Its time as an idle connection begins.
            self.driver.iter().for_each(Waker::wake_by_ref);
        }
    }

    /// Gives back what an idle connection does not need.
    pub(super) fn rest(&mut self) {
        self.protocol.rest();
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        if !self.is_driven {
            self.io.iter_mut().for_each(Stream::unwatch);
        }
    }

    /// Ends the connection, and lets the server know.
    pub(super) fn close(&mut self) {
        self.protocol.end(Reason::NO_ERROR);
        self.flush(&mut Context::from_waker(Waker::noop()));
        let connection = self.io.take().and_then(Stream::into_connection);
        connection.into_iter().for_each(connection::Connection::close);
        self.lose(Lost::Closed);
    }

    fn unsent(&self) -> usize {
        self.protocol.unsent() - self.sent
    }

    /// Reads and writes; `true`: there may be more, but others get their turn.
    fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..STEPS {
            self.flush(cx);
            self.is_paused = self.unsent() >= 2 * ROOM;
            let Some(io) = self.io.as_mut().filter(|_| !self.is_paused) else { return false };
            self.input.drain(..std::mem::take(&mut self.used));
            self.input.reserve(PIECE);
            match io.poll_read(cx, &mut self.input) {
                Poll::Pending => return false,
                Poll::Ready(Ok(0)) => self.lose(Lost::Closed),
                Poll::Ready(Err(error)) => self.lose(Lost::Failed(sys::describe(&error))),
                Poll::Ready(Ok(_)) => self.take(),
            }
        }
        true
    }

    /// Sends as much as possible.
    fn flush(&mut self, cx: &mut Context<'_>) {
        let Some(io) = &mut self.io else { return };
        while self.sent < self.protocol.unsent() {
            match io.poll_write(cx, &self.protocol.out()[self.sent..]) {
                Poll::Ready(Ok(count)) => {
                    self.sent += count;
                    self.protocol.sent(count);
                }
                Poll::Ready(Err(error)) => return self.lose(Lost::Failed(sys::describe(&error))),
                Poll::Pending => {
                    // A server that reads slowly and without end must not make this grow.
                    if self.sent >= ROOM {
                        self.protocol.out().drain(..std::mem::take(&mut self.sent));
                    }
                    break;
                }
            }
        }
        if self.sent == self.protocol.unsent() {
            self.sent = 0;
            *self.protocol.out() = Vec::new();
            if let Poll::Ready(Err(error)) = io.poll_flush(cx) {
                return self.lose(Lost::Failed(sys::describe(&error)));
            }
        }
        if self.unsent() < ROOM / 2 && std::mem::take(&mut self.is_full) {
            self.protocol.all().for_each(Slot::wake_for_room);
        }
    }

    /// Takes what has come.
    fn take(&mut self) {
        let now = Instant::now();
        self.heard = now;
        loop {
            let State { protocol, input, used, given_up, .. } = self;
            let rest = &input[*used..];
            let broken = match protocol.receive(rest) {
                Ok(None) => break,
                Ok(Some((length, event))) => {
                    // DATA that mean nothing are of a stream that is over.
                    let unwanted = if matches!(event, Event::Nothing) { Connection::<Slot>::flow(rest) } else { 0 };
                    given_up.streams += usize::from(matches!(event, Event::Gone(_, Gone::Malformed(_))));
                    *used += length;
                    took(protocol, event, now);
                    if given_up.receive(unwanted) {
                        continue;
                    }
                    protocol.end(Reason::FLOW_CONTROL_ERROR);
                    "DATA beyond the windows of streams that are over"
                }
                Err(broken) => broken.what,
            };
            // The server hears why.
            self.flush(&mut Context::from_waker(Waker::noop()));
            self.lose(Lost::Violated(broken));
            break;
        }
        if self.protocol.is_greeted()
            && let Some(greeting) = self.greeting.take()
        {
            greeting.set(Ok(()));
        }
    }

    fn lose(&mut self, lost: Lost) {
        if self.lost.is_none() {
            self.lost = Some(lost);
            self.io = None;
            if let Some(greeting) = self.greeting.take() {
                greeting.set(Err(NoConnection::Unreachable(502)));
            }
            self.protocol.all().for_each(Slot::wake);
        }
    }
}

/// Keeps what a frame says until its request asks for it.
fn took(protocol: &mut Connection<Slot>, event: Event<'_>, now: Instant) {
    let at = match &event {
        Event::Nothing => return,
        Event::Room(None) => return protocol.all().for_each(Slot::wake_for_room),
        Event::Leaves(all) => {
            for at in all {
                if let Some(slot) = protocol.stream(*at) {
                    let gone = if slot.has_begun { Gone::Reset(Reason::NO_ERROR) } else { Gone::Unprocessed };
                    slot.gone.get_or_insert(gone);
                    slot.wake();
                }
            }
            return;
        }
        Event::Head { at, .. }
        | Event::Data { at, .. }
        | Event::Trailers(at)
        | Event::Gone(at, _)
        | Event::Room(Some(at)) => *at,
    };
    let fields = match event {
        Event::Head { .. } | Event::Trailers(_) => protocol.fields().clone(),
        _ => FieldList::default(),
    };
    let Some(slot) = protocol.stream(at) else { return };
    match event {
        Event::Head { status, ends, .. } => {
            // Whoever waits for the response counts them, and gives it up.
            if slot.heads.len() <= INTERIM_MAX {
                slot.heads.push_back(Head { status, fields, ends });
            }
            slot.has_ended = ends;
        }
        Event::Data { bytes, ends, .. } => {
            slot.body.extend_from_slice(bytes);
            slot.has_ended = ends;
        }
        Event::Trailers(_) => {
            slot.trailers = Some(fields).filter(|fields| !fields.is_empty());
            slot.has_ended = true;
        }
        Event::Gone(_, gone) => slot.gone = Some(gone),
        Event::Nothing | Event::Leaves(_) | Event::Room(_) => return slot.wake_for_room(),
    }
    slot.has_begun |= !matches!(event, Event::Gone(..));
    // A server that sends DATA without content is as good as silent.
    if !matches!(event, Event::Data { bytes: [], ends: false, .. }) {
        slot.active = Some(now);
        slot.wake();
    }
}

#[cfg(test)]
mod tests;
