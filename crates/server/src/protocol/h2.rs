//! HTTP/2 (RFC 9113): one connection with many concurrent exchanges.
//!
//! [`http::h2`] speaks the protocol: frames, header compression, windows. This module turns its streams into exchanges, and
//! moves its bytes. One future per connection drives the protocol and all streams, and polls a stream only when it was woken.
//! A connection with streams is in the stage `Serve`, and holds a worker only while something runs. Without streams it
//! waits as HTTP/1 does.

mod body;
mod expected;
pub mod head;
mod open_stream;
mod repeat;
mod response;
mod stream;
mod tasks;
mod tunnel;
mod window;
mod wire;

use std::future::{Future, poll_fn};
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use conf::Level;
use http::h2::{At, Broken, Config, Event, FieldList, Gone, Reason};
use runtime::executor::Timer;
use runtime::scoreboard::{Gauge, Workers};
use runtime::{Connection, Stage, Stepping, tick};
use sys::time::Instant;

use self::expected::Expecting;
use self::open_stream::OpenStream;
use self::repeat::Repeating;
use self::stream::{Asked, Common, NewStream};
use self::tasks::{Outside, Tasks};
use self::window::Share;
use self::wire::{State, StreamState, Wire};
use super::linger::{self, LINGER, SHORT_LINGER};
use crate::exchange::{self, Running};
use crate::message::buffers;
use crate::request::{Client, StreamId};
use crate::settings::http2::Http2;
use crate::transport::endpoint::Transport;
use crate::transport::park_state::{HeldMemory, WaitingFor};

/// How many rounds a connection may run before other connections get a turn.
const ROUNDS: u32 = 8;
/// A client that takes so many bytes is reading.
const READS: u64 = 64 * 1024;
/// The largest DATA frame that we send, in bytes.
const LARGEST_FRAME: usize = 16 * 1024;
/// After this many reads of one client, others get their turn.
const READS_AT_ONCE: u32 = 4;

/// The number of the newest connection.
static LAST: AtomicU64 = AtomicU64::new(0);

/// An HTTP/2 connection.
pub(super) struct Http2Connection {
    common: Arc<Common>,
    transport: Arc<dyn Transport>,
    course: Course,
    tasks: Tasks,
    /// The waker of the engine.
    outside: Outside,
    /// Requests whose heads have arrived, but that are not served yet.
    begun: Vec<NewStream>,
    timer: Timer,
    /// The deadline for the client's next request.
    idle_until: Instant,
    /// Whether a request has been served since `idle_until` was set.
    was_busy: bool,
    /// Whether the last look at what was received ended because much was unsent.
    was_paused: bool,
    /// Whether the last poll was one in which no stream gets a worker.
    was_brief: bool,
    /// Since when the client has owed a request.
    idle_since: Instant,
    /// How much had been sent when the client was last seen to read.
    read_before: u64,
    /// Whether the client has not read all pending bytes.
    is_blocked: bool,
    /// What it waits for in a stage without a future; `None`: for responses that are expected.
    waiting_for: Option<WaitingFor>,
    /// Whether it has been polled since that stage began.
    has_waited: bool,
    /// Whether its time is over, and it has looked once more for what the client may have sent in time.
    is_late: bool,
    _share: Share,
}

/// The state of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Open,
    /// It is over, and the client may still have to read our last words.
    Over,
    /// It is over because the client has violated the protocol: not much of what it sends yet is read.
    Broken,
    /// It is over because it failed: there is no point in lingering.
    Failed,
}

/// A request that came over HTTP/1.1, and asks for HTTP/2.
pub(super) struct Upgrade {
    /// The client's settings, as in a frame.
    pub(super) settings: Vec<u8>,
    /// The request's fields.
    pub(super) fields: FieldList,
}

impl Http2Connection {
    /// A connection over `transport`. `early`: bytes already received.
    pub(super) fn new(
        running: Running,
        transport: Arc<dyn Transport>,
        client: Arc<Client>,
        workers: &'static Workers,
        early: Vec<u8>,
    ) -> Http2Connection {
        // The server name in the TLS handshake has already selected a virtual host.
        let host = match client.session() {
            Some(session) => &running.server.hosts[session.host],
            None => exchange::virtual_host(running.server, &client, None).0,
        };
        let settings = host.settings.get::<Http2>();
        let share = Share::take();
        let plan = &host.plan;
        let config = config(settings, &plan.limits, &share);
        let protocol = http::h2::Connection::new(config, buffers::take());
        let wire = Wire::new(transport.clone(), protocol, early);
        let largest = settings.max_data_frame_len().map_or(LARGEST_FRAME, |most| most.min(LARGEST_FRAME));
        let first = plan.head_timeout.map_or(plan.timeout, |limit| limit.first.min(plan.timeout));
        let tasks = Tasks::new();
        workers.enter(Gauge::Http2);
        Http2Connection {
            common: Arc::new(Common {
                running,
                client,
                workers,
                first: StreamId {
                    process: std::process::id(),
                    connection: LAST.fetch_add(1, Ordering::Relaxed) + 1,
                    number: 0,
                },
                wire,
                host,
                largest,
                is_listed: AtomicBool::new(false),
                timeout: settings.stream_timeout(),
            }),
            transport,
            course: Course::Open,
            outside: tasks.outside(),
            tasks,
            begun: Vec::new(),
            timer: Timer::default(),
            idle_until: Instant::now() + first,
            idle_since: Instant::now(),
            read_before: 0,
            was_busy: false,
            was_paused: false,
            was_brief: false,
            is_blocked: false,
            waiting_for: None,
            has_waited: false,
            is_late: false,
            _share: share,
        }
    }

    /// A connection that spoke HTTP/1.1, and whose request asked for HTTP/2. `received`: what the client has sent since.
    pub(super) fn upgraded(
        running: Running,
        transport: Arc<dyn Transport>,
        client: Arc<Client>,
        workers: &'static Workers,
        (upgrade, received): (Upgrade, Vec<u8>),
    ) -> Http2Connection {
        let mut connection = Http2Connection::new(running, transport, client, workers, received);
        let at = connection.common.wire.lock().protocol.upgraded(&upgrade.settings);
        match at {
            Ok(at) => {
                let stream = OpenStream::new(connection.common.wire.clone(), at, None);
                if upgrade.fields.check_request(false).is_ok() {
                    let asked = head::read(&upgrade.fields, &connection.common.host.plan.limits);
                    let urgency = head::urgency(&upgrade.fields);
                    if let Some(stream) = connection.common.wire.lock().protocol.stream(at) {
                        stream.urgency = urgency;
                        stream.has_ended = true;
                    }
                    let asked = Asked::New(Box::new(asked), None);
                    connection.was_busy = true;
                    connection.begun.push(NewStream { stream, asked, ends: true, urgency, tick: None });
                } else {
                    stream.reset(Reason::PROTOCOL_ERROR);
                }
            }
            Err(broken) => connection.broken(broken),
        }
        connection
    }

    /// Serves what has come.
    fn serve(&mut self) -> Stepping<'_> {
        self.go_on();
        if self.begun.is_empty() && self.tasks.is_empty() {
            // The received bytes may not complete a request.
            let mut cx = Context::from_waker(Waker::noop());
            match self.poll(&mut cx, false, false) {
                Poll::Ready(Stage::Serve) => {}
                Poll::Ready(next) => return Stepping::Done(next),
                Poll::Pending if self.tasks.is_empty() => return Stepping::Done(self.rest()),
                Poll::Pending => {}
            }
        }
        if self.begun.is_empty() && self.tasks.only_expect() {
            self.waiting_for = None;
            return Stepping::Resting(self);
        }
        Stepping::waiting(runtime::release_worker(poll_fn(|cx| self.poll(cx, true, false))))
    }

    /// Waits for responses that are expected.
    fn poll_expected(&mut self, cx: &mut Context<'_>) -> Poll<Stage> {
        match self.poll(cx, false, false) {
            Poll::Pending if self.tasks.is_empty() => Poll::Ready(self.rest()),
            Poll::Pending => runtime::pending_without_worker(),
            next => next,
        }
    }

    /// The stage of a connection without streams.
    fn rest(&mut self) -> Stage {
        if self.is_blocked {
            return Stage::WriteCompletion;
        }
        self.tasks.rest();
        let mut state = self.common.wire.lock();
        state.rest();
        if state.protocol.is_greeted() { Stage::KeepAlive } else { Stage::ReadHead }
    }

    /// Begins to wait for the client's next request, or the first.
    fn wait(&mut self, what: WaitingFor) -> Stepping<'_> {
        (self.waiting_for, self.has_waited, self.is_late) = (Some(what), false, false);
        Stepping::Resting(self)
    }

    /// Waits for the client's next request, or the first.
    fn poll_waiting(&mut self, cx: &mut Context<'_>, what: WaitingFor) -> Poll<Stage> {
        let (announced, since) = (std::mem::replace(&mut self.has_waited, true), self.idle_since);
        let next = match self.poll(cx, false, announced) {
            Poll::Ready(next) => next,
            Poll::Pending if !self.tasks.is_empty() => Stage::Serve,
            Poll::Pending => {
                // Repeats may have been served meanwhile.
                if self.idle_since != since {
                    (self.waiting_for, self.is_late) = (Some(WaitingFor::Request), false);
                }
                let park_state = self.transport.park_state();
                park_state.wait(self.waiting_for.unwrap_or(what), self.idle_since);
                let away = park_state.poll_evicted(cx).map(drop);
                if away.is_pending() && self.timer.poll_passed(cx, self.idle_until).is_pending() {
                    return Poll::Pending;
                }
                // A request that arrived in time is served even if nothing has announced it yet: one more look is for that.
                if self.transport.has_input() && !std::mem::replace(&mut self.is_late, true) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Stage::Linger
            }
        };
        self.go_on();
        Poll::Ready(next)
    }

    /// The wait for the next request is over, or was given up.
    fn go_on(&mut self) {
        if std::mem::take(&mut self.has_waited) {
            self.transport.park_state().go_on();
        }
    }

    /// Sends pending bytes, as fast as the client reads them.
    async fn write_completion(&mut self) -> Stage {
        let timeout = self.common.host.plan.timeout;
        let (mut sent, mut deadline) = (self.common.wire.lock().sent(), Instant::now() + timeout);
        poll_fn(|cx| match self.poll(cx, false, false) {
            Poll::Ready(next) => Poll::Ready(next),
            // A request has come meanwhile.
            Poll::Pending if !self.tasks.is_empty() => Poll::Ready(Stage::Serve),
            Poll::Pending if !self.is_blocked => Poll::Ready(self.rest()),
            Poll::Pending => {
                let now = self.common.wire.lock().sent();
                if std::mem::replace(&mut sent, now) < now {
                    deadline = Instant::now() + timeout;
                }
                self.timer.poll_passed(cx, deadline).map(|()| Stage::Closed)
            }
        })
        .await
    }

    /// Sends GOAWAY, and waits until the client closes the connection.
    async fn linger(&mut self, at_most: Duration) -> Stage {
        self.common.wire.lock().protocol.end(Reason::NO_ERROR);
        // A single attempt: a client that no longer reads does not need the GOAWAY.
        let _ = self.poll(&mut Context::from_waker(Waker::noop()), false, false);
        let is_held = self.common.workers.are_held();
        linger::linger(&*self.transport, &mut self.timer, is_held, at_most).await
    }

    /// Drives the protocol and its streams until they have nothing left to do. Ready with the next stage. `serves`:
    /// requests may be served in this stage. `announced`: the present tick has announced the input.
    fn poll(&mut self, cx: &mut Context<'_>, serves: bool, announced: bool) -> Poll<Stage> {
        let wire = self.common.wire.clone();
        wire.lock().begin();
        // If a thread waits for only one connection, each wait asks for all events anew, and does not tell which stream
        // they wake: poll all streams. What a brief poll has left to a worker was not woken either.
        let mut all = !sys::watch::serves_many() || std::mem::replace(&mut self.was_brief, runtime::is_brief());
        let mut is_called = true;
        let mut rounds = 0;
        loop {
            if self.outside.was_called() || std::mem::take(&mut is_called) {
                self.poll_protocol(announced);
            }
            if !serves && !self.begun.is_empty() {
                self.outside.waker().wake_by_ref();
                return Poll::Ready(Stage::Serve);
            }
            for begun in std::mem::take(&mut self.begun) {
                let urgency = begun.urgency;
                self.tasks.add(Box::pin(stream::serve(self.common.clone(), begun)), urgency);
            }
            self.tasks.poll_round(std::mem::take(&mut all));
            self.begun.extend(self.tasks.take_unfinished());
            if self.tasks.is_empty() && wire.lock().protocol.is_done() {
                self.course = Course::Over;
            }
            self.is_blocked = match wire.poll_flush(cx) {
                Poll::Ready(Ok(())) => false,
                Poll::Pending => true,
                Poll::Ready(Err(_)) => {
                    self.course = Course::Failed;
                    false
                }
            };
            if self.course != Course::Open {
                break;
            }
            // What was received has waited because much was unsent. A later flush polls anyway.
            if std::mem::take(&mut self.was_paused) && !self.is_blocked {
                self.outside.waker().wake_by_ref();
            }
            if self.begun.is_empty() && self.tasks.poll_woken(&self.outside, cx).is_pending() {
                break;
            }
            rounds += 1;
            if rounds == ROUNDS {
                // Lets other connections have a turn: one poll schedules this one again, and the future can go.
                let _ = pin!(runtime::yield_now()).poll(cx);
                break;
            }
        }
        if self.hold(cx).is_ready() {
            self.course = Course::Failed;
        }
        if self.course != Course::Open {
            wire.lock().over();
            // The streams see the end here, and log their requests.
            self.tasks.poll_round(true);
            self.begun.extend(self.tasks.take_unfinished());
            self.begun.drain(..).for_each(NewStream::give_up);
            return Poll::Ready(match self.course {
                Course::Open | Course::Over => Stage::Linger,
                Course::Broken => Stage::ShortLinger,
                Course::Failed => Stage::Closed,
            });
        }
        if !self.tasks.is_empty() || !self.begun.is_empty() {
            return Poll::Pending;
        }
        if std::mem::take(&mut self.was_busy) {
            self.idle_since = Instant::now();
            self.idle_until = self.idle_since + self.common.host.plan.keep_alive_timeout;
        }
        if serves { Poll::Ready(self.rest()) } else { Poll::Pending }
    }

    /// Records what the client has not read. Ready if there is no room for that any more.
    fn hold(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let park_state = self.transport.park_state();
        let (held, sent) = {
            let state = self.common.wire.lock();
            (state.held(), state.sent())
        };
        park_state.hold(HeldMemory::Response, held);
        if held == 0 {
            return Poll::Pending;
        }
        if sent - self.read_before >= READS {
            self.read_before = sent;
            park_state.renew();
        }
        park_state.poll_evicted(cx).map(drop)
    }

    /// Receives, and takes the requests that have come.
    fn poll_protocol(&mut self, announced: bool) {
        let wire = self.common.wire.clone();
        for _ in 0..READS_AT_ONCE {
            if self.course != Course::Open {
                return;
            }
            if let Err(broken) = self.take_frames(&wire, announced) {
                return self.broken(broken);
            }
            let mut state = wire.lock();
            if runtime::draining() {
                state.protocol.leave();
            }
            if state.is_paused() {
                self.was_paused = true;
                return;
            }
            drop(state);
            match wire.poll_read(&mut Context::from_waker(self.outside.waker())) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => self.course = Course::Over,
                Poll::Ready(Err(error)) => {
                    self.common.log(Level::Debug, format_args!("the connection has ended: {error}"));
                    self.course = Course::Failed;
                }
                Poll::Pending => return,
            }
        }
        self.outside.waker().wake_by_ref();
    }

    /// Takes the frames that have come.
    fn take_frames(&mut self, wire: &Arc<Wire>, announced: bool) -> Result<(), Broken> {
        let mut state = wire.lock();
        let mut arrived = None;
        while !state.is_paused() {
            let is_at_once = state.came_at_once();
            let (protocol, input) = state.received();
            let Some((length, event)) = protocol.receive(input)? else { break };
            match event {
                Event::Nothing => {}
                Event::Request { at, ends } => {
                    let tick = tick::present().filter(|_| announced && is_at_once);
                    let mut repeating = match ends {
                        true => Repeating::new(&self.common, &state, at, tick, arrived),
                        false => None,
                    };
                    match self.answer(&mut state, at, repeating.as_mut()) {
                        Ok(()) => self.was_busy = true,
                        Err(None) => state.refuse(at),
                        Err(Some(asked)) => {
                            let new = self.new_stream(&mut state, at, asked, ends, tick);
                            match Expecting::begin(&self.common, &state, new) {
                                Ok(expecting) => self.tasks.expect(expecting),
                                Err(new) => self.begun.push(new),
                            }
                            self.was_busy = true;
                        }
                    }
                    arrived = arrived.or(repeating.and_then(|repeating| repeating.arrived()));
                }
                Event::Data { at, bytes, ends } => {
                    came(protocol.stream(at), |stream| {
                        stream.has_ended = ends;
                        stream.push(bytes);
                    });
                }
                Event::Trailers(at) => {
                    let trailers = protocol.fields().clone();
                    let fits = state.holds_head(at, trailers.size());
                    came(state.protocol.stream(at), |stream| {
                        stream.has_ended = fits;
                        stream.trailers = Some(trailers).filter(|_| fits);
                        stream.gone = (!fits).then_some(Gone::Malformed);
                    });
                    if !fits {
                        state.reset(at, Reason::ENHANCE_YOUR_CALM);
                    }
                }
                Event::Cut(at) => came(protocol.stream(at), |stream| stream.is_cut = true),
                Event::Gone(at, gone) => {
                    if let Some(stream) = protocol.stream(at) {
                        stream.gone = Some(gone);
                        stream.wake();
                    }
                }
                Event::Room(at) => state.opened(at),
            }
            state.use_input(length);
        }
        Ok(())
    }

    /// Answers the request on this stream, whose fields the protocol has just read, if an earlier one has asked the same. `Err`: what
    /// is known of it; `None`: the connection holds too many.
    fn answer(
        &self,
        state: &mut State,
        at: At,
        mut repeating: Option<&mut Repeating<'_>>,
    ) -> Result<(), Option<Asked>> {
        let begun = match repeating.as_mut().map(|repeating| repeating.answer_same(state)) {
            Some(Ok(())) => return Ok(()),
            Some(Err(begun)) => begun,
            None => None,
        };
        if !state.holds_request(at) {
            return Err(None);
        }
        if let Some(begun) = begun {
            return Err(Some(Asked::Prepared(begun)));
        }
        let head = head::read(state.protocol.fields(), &self.common.host.plan.limits);
        match repeating {
            Some(repeating) => repeating.answer_similar(state, head).map_err(Some),
            None => Err(Some(Asked::New(Box::new(head), None))),
        }
    }

    /// The request on this stream, whose fields the protocol has just read.
    fn new_stream(&self, state: &mut State, at: At, asked: Asked, ends: bool, tick: Option<NonZeroU64>) -> NewStream {
        let urgency = head::urgency(state.protocol.fields());
        if let Some(stream) = state.protocol.stream(at) {
            stream.urgency = urgency;
            stream.has_ended = ends;
        }
        let protocol = if let Asked::New(head, _) = &asked { head.protocol.clone() } else { None };
        let stream = OpenStream::new(self.common.wire.clone(), at, protocol);
        NewStream { stream, asked, ends, urgency, tick }
    }

    /// The client has violated the protocol.
    fn broken(&mut self, Broken { reason, what, flood }: Broken) {
        self.course = Course::Broken;
        let common = &self.common;
        match flood {
            Some(kind) => {
                common.log(Level::Warn, format_args!("the client floods the connection with {kind} frames: closing it"))
            }
            None => common.log(
                Level::Info,
                format_args!("the client violates HTTP/2: closing its connection ({reason}: {what})"),
            ),
        }
    }
}

/// Something has come on a stream.
fn came(stream: Option<&mut StreamState>, change: impl FnOnce(&mut StreamState)) {
    if let Some(stream) = stream {
        change(stream);
        stream.wake_reader();
    }
}

impl Common {
    fn log(&self, level: Level, text: std::fmt::Arguments<'_>) {
        self.host.log("http2", level, &format!("[client {}] {text}", self.client.peer));
    }
}

/// What the protocol allows the client.
fn config(settings: &Http2, limits: &http::Limits, share: &Share) -> Config {
    Config {
        streams: settings.max_session_streams(),
        window: settings.window_size(),
        connection_window: share.window,
        header_list: header_list_size(limits),
        tunnels: settings.websockets(),
        faults: settings.max_stream_errors(),
    }
}

/// The largest header list, in bytes (`SETTINGS_MAX_HEADER_LIST_SIZE`): at least what nearly all clients send, at most
/// what a child could hold for many of them.
fn header_list_size(limits: &http::Limits) -> u32 {
    /// The overhead that the protocol counts for each field besides its name and value (RFC 9113 section 6.5.2).
    const EACH: usize = 32;
    const LEAST: usize = 16 * 1024;
    const MOST: usize = 256 * 1024;
    let fields = if limits.fields == 0 { http::Limits::FIELDS_MAX } else { limits.fields };
    let all = limits.line.saturating_add(fields.saturating_mul(limits.field_size + EACH));
    all.clamp(LEAST, MOST) as u32
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.common.workers.leave(Gauge::Http2);
    }
}

impl Connection for Http2Connection {
    fn step(&mut self, stage: Stage) -> Stepping<'_> {
        match stage {
            Stage::Serve => self.serve(),
            Stage::ReadHead => self.wait(WaitingFor::Head),
            Stage::KeepAlive => self.wait(WaitingFor::Request),
            Stage::WriteCompletion => Stepping::waiting(self.write_completion()),
            Stage::Linger => Stepping::waiting(self.linger(LINGER)),
            Stage::ShortLinger => Stepping::waiting(self.linger(SHORT_LINGER)),
            Stage::Tunnel | Stage::Closed => Stepping::Done(Stage::Closed),
        }
    }

    fn poll_resting(&mut self, cx: &mut Context<'_>) -> Poll<Stage> {
        match self.waiting_for {
            Some(what) => self.poll_waiting(cx, what),
            None => self.poll_expected(cx),
        }
    }

    fn has_input(&self) -> bool {
        self.transport.has_input()
    }
}
