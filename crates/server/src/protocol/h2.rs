//! HTTP/2 (RFC 9113): one connection with many concurrent exchanges.
//!
//! The `h2` crate speaks the protocol: frames, header compression, windows. This module turns its streams into
//! exchanges. One future per connection drives the protocol and all streams, and polls a stream only when it was woken.
//! A connection with streams is in the stage `Serve`, and holds a worker only while something runs. Without streams it
//! waits as HTTP/1 does.

mod body;
pub mod head;
mod meter;
mod queue;
mod response;
mod stream;
mod tasks;
mod tunnel;
mod window;
pub(super) mod wire;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use conf::Level;
use h2::Reason;
use runtime::executor::Timer;
use runtime::scoreboard::{Gauge, Workers};
use runtime::{Connection, Stage, Stepping, tick};

use self::queue::{Data, Queue};
use self::stream::{Common, NewStream};
use self::tasks::{Outside, Tasks};
use self::window::Share;
use self::wire::{Wire, WireStream};
use super::linger::{self, LINGER, SHORT_LINGER};
use crate::exchange::{self, Running};
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

/// The number of the newest connection.
static LAST: AtomicU64 = AtomicU64::new(0);

/// An HTTP/2 connection.
pub(super) struct Http2Connection {
    common: Arc<Common>,
    transport: Arc<dyn Transport>,
    engine: Engine,
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
    /// Since when the client has owed a request.
    idle_since: Instant,
    /// How much had been sent when the client was last seen to read.
    read_before: u64,
    /// Whether the client has not read all pending bytes.
    is_blocked: bool,
    /// Whether GOAWAY has been sent.
    said_goodbye: bool,
    _share: Share,
}

/// The state of the protocol.
enum Engine {
    Greeting(Box<h2::server::Handshake<WireStream, Data>>),
    Open(Box<h2::server::Connection<WireStream, Data>>),
    /// The connection is over. `broken`: it failed, so there is no point in lingering.
    Over {
        broken: bool,
    },
}

impl Http2Connection {
    /// A connection over `transport`. `early`: bytes already received.
    pub(super) fn new(
        running: Running,
        transport: Arc<dyn Transport>,
        client: Arc<Client>,
        workers: Arc<Workers>,
        early: Vec<u8>,
    ) -> Http2Connection {
        Http2Connection::begin(running, transport, client, workers, early, None)
    }

    fn begin(
        running: Running,
        transport: Arc<dyn Transport>,
        client: Arc<Client>,
        workers: Arc<Workers>,
        early: Vec<u8>,
        frames: Option<Vec<u8>>,
    ) -> Http2Connection {
        // The server name in the TLS handshake has already selected a virtual host.
        let host = match client.session() {
            Some(session) => &running.server.hosts[session.host],
            None => exchange::virtual_host(running.server, &client, None).0,
        };
        let settings = host.settings.get::<Http2>();
        let wire = Wire::new(transport.clone());
        let share = Share::take();
        let plan = &host.plan;
        let greeting = builder(settings, &plan.limits, &share).handshake(wire.stream(early, frames));
        let engine = Engine::Greeting(Box::new(greeting));
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
                queue: Arc::new(Queue::default()),
                host,
                largest,
                is_listed: AtomicBool::new(false),
                timeout: settings.stream_timeout(),
            }),
            transport,
            engine,
            outside: tasks.outside(),
            tasks,
            begun: Vec::new(),
            timer: Timer::default(),
            idle_until: Instant::now() + first,
            idle_since: Instant::now(),
            read_before: 0,
            was_busy: false,
            is_blocked: false,
            said_goodbye: false,
            _share: share,
        }
    }

    /// A connection that spoke HTTP/1.1. `frames`: those that an HTTP/2 client would have sent for its request; `received`:
    /// what it has sent since, which begins with the client preface.
    pub(super) fn upgraded(
        running: Running,
        transport: Arc<dyn Transport>,
        client: Arc<Client>,
        workers: Arc<Workers>,
        (frames, received): (Vec<u8>, Vec<u8>),
    ) -> Http2Connection {
        Http2Connection::begin(running, transport, client, workers, received, Some(frames))
    }

    /// Serves until no stream is left.
    async fn serve(&mut self) -> Stage {
        if self.begun.is_empty() && self.tasks.is_empty() {
            // The received bytes may not complete a request.
            let mut cx = Context::from_waker(Waker::noop());
            match self.poll(&mut cx, false, false) {
                Poll::Ready(Stage::Serve) => {}
                Poll::Ready(next) => return next,
                Poll::Pending => return self.rest(),
            }
        }
        runtime::needs_worker().await;
        runtime::release_worker(poll_fn(|cx| self.poll(cx, true, false))).await
    }

    /// The stage of a connection without streams.
    fn rest(&self) -> Stage {
        match self.engine {
            _ if self.is_blocked => Stage::WriteCompletion,
            Engine::Greeting(_) => Stage::ReadHead,
            Engine::Open(_) | Engine::Over { .. } => Stage::KeepAlive,
        }
    }

    /// Waits for the client's next request, or the first.
    async fn wait(&mut self, what: WaitingFor) -> Stage {
        let mut waited = false;
        self.transport.park_state().wait(what, self.idle_since);
        let next = poll_fn(|cx| match self.poll(cx, false, std::mem::replace(&mut waited, true)) {
            Poll::Ready(next) => Poll::Ready(next),
            Poll::Pending => {
                let away = self.transport.park_state().poll_evicted(cx).map(drop);
                if away.is_pending() && self.timer.poll_passed(cx, self.idle_until).is_pending() {
                    return Poll::Pending;
                }
                // A request that arrived in time is served even if no tick has announced it yet.
                Poll::Ready(if self.transport.has_input() { Stage::Serve } else { Stage::Linger })
            }
        })
        .await;
        self.transport.park_state().go_on();
        next
    }

    /// Sends pending bytes, as fast as the client reads them.
    async fn write_completion(&mut self) -> Stage {
        let timeout = self.common.host.plan.timeout;
        let (mut sent, mut deadline) = (self.common.wire.sent(), Instant::now() + timeout);
        poll_fn(|cx| match self.poll(cx, false, false) {
            Poll::Ready(next) => Poll::Ready(next),
            Poll::Pending if !self.is_blocked => Poll::Ready(self.rest()),
            Poll::Pending => {
                let now = self.common.wire.sent();
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
        if let Engine::Open(engine) = &mut self.engine {
            engine.abrupt_shutdown(Reason::NO_ERROR);
        }
        // A single attempt: a client that no longer reads does not need the GOAWAY.
        let _ = self.poll(&mut Context::from_waker(Waker::noop()), false, false);
        let is_held = self.common.workers.are_held();
        linger::linger(&*self.transport, &mut self.timer, is_held, at_most).await
    }

    /// Drives the protocol and its streams until they have nothing left to do. Ready with the next stage. `serves`:
    /// requests may be served in this stage. `announced`: the present tick has announced the input.
    fn poll(&mut self, cx: &mut Context<'_>, serves: bool, announced: bool) -> Poll<Stage> {
        let wire = self.common.wire.clone();
        wire.begin();
        // If a thread waits for only one connection, each wait asks for all events anew, and does not tell which stream
        // they wake: poll all streams.
        let mut all = !sys::watch::serves_many();
        let mut engine_is_called = true;
        let mut rounds = 0;
        loop {
            if self.outside.was_called() || std::mem::take(&mut engine_is_called) {
                self.poll_engine(announced);
            }
            if !serves && !self.begun.is_empty() {
                self.outside.waker().wake_by_ref();
                return Poll::Ready(Stage::Serve);
            }
            for begun in std::mem::take(&mut self.begun) {
                self.was_busy = true;
                let urgency = head::urgency(begun.request.headers());
                self.tasks.add(Box::pin(stream::serve(self.common.clone(), begun)), urgency);
            }
            self.tasks.poll_round(std::mem::take(&mut all));
            if let Engine::Over { .. } = self.engine {
                break;
            }
            if self.tasks.poll_woken(&self.outside, cx).is_pending() {
                break;
            }
            rounds += 1;
            if rounds == ROUNDS {
                // Lets other connections have a turn: one poll schedules this one again, and the future can go.
                let _ = pin!(runtime::yield_now()).poll(cx);
                break;
            }
        }
        self.is_blocked = match wire.poll_flush(cx) {
            Poll::Ready(Ok(())) => false,
            Poll::Pending => true,
            Poll::Ready(Err(_)) => {
                self.engine = Engine::Over { broken: true };
                false
            }
        };
        if self.hold(cx).is_ready() {
            self.engine = Engine::Over { broken: true };
        }
        if let Engine::Over { broken } = self.engine {
            // The streams see the end here, and log their requests.
            self.tasks.poll_round(true);
            return Poll::Ready(if broken { Stage::Closed } else { Stage::Linger });
        }
        if !self.tasks.is_empty() {
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
        let held = self.common.wire.unsent() + self.common.queue.held();
        park_state.hold(HeldMemory::Response, held);
        if held == 0 {
            return Poll::Pending;
        }
        let sent = self.common.wire.sent();
        if sent - self.read_before >= READS {
            self.read_before = sent;
            park_state.renew();
        }
        park_state.poll_evicted(cx).map(drop)
    }

    /// Drives the protocol, and takes the requests that it has found.
    fn poll_engine(&mut self, announced: bool) {
        let Http2Connection { engine, outside, begun, common, said_goodbye, .. } = self;
        let cx = &mut Context::from_waker(outside.waker());
        let over = loop {
            match engine {
                Engine::Greeting(greeting) => match Pin::new(greeting).poll(cx) {
                    Poll::Ready(Ok(connection)) => *engine = Engine::Open(Box::new(connection)),
                    Poll::Ready(Err(error)) => break Some(error),
                    Poll::Pending => return,
                },
                Engine::Open(connection) => {
                    if runtime::draining() && !std::mem::replace(said_goodbye, true) {
                        connection.graceful_shutdown();
                    }
                    match connection.poll_accept(cx) {
                        Poll::Ready(Some(Ok((request, respond)))) => {
                            let tick = tick::present().filter(|_| announced && common.wire.came_at_once());
                            begun.push(NewStream { request, respond, tick });
                        }
                        Poll::Ready(Some(Err(error))) => break Some(error),
                        Poll::Ready(None) => break None,
                        Poll::Pending => {
                            let Some(what) = common.wire.new_flood() else { return };
                            common.log(
                                Level::Warn,
                                format_args!("the client floods the connection with {what} frames: closing it"),
                            );
                            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                        }
                    }
                }
                Engine::Over { .. } => return,
            }
        };
        if let Some(error) = &over {
            common.note(error);
        }
        *engine = Engine::Over { broken: over.is_some_and(|error| error.is_io()) };
    }
}

impl Common {
    /// Logs the error with which the protocol ended the connection.
    fn note(&self, error: &h2::Error) {
        if error.is_io() || error.is_remote() {
            return self.log(Level::Debug, format_args!("the connection has ended: {error}"));
        }
        match error.reason() {
            Some(Reason::ENHANCE_YOUR_CALM) => {
                self.log(Level::Warn, format_args!("the client floods the connection: closing it ({error})"));
            }
            _ => self.log(Level::Info, format_args!("the client violates HTTP/2: closing its connection ({error})")),
        }
    }

    fn log(&self, level: Level, text: std::fmt::Arguments<'_>) {
        self.host.log("http2", level, &format!("[client {}] {text}", self.client.peer));
    }
}

/// The settings of the protocol.
fn builder(settings: &Http2, limits: &http::Limits, share: &Share) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(settings.max_session_streams())
        .initial_window_size(settings.window_size())
        .initial_connection_window_size(share.window)
        .max_header_list_size(header_list_size(limits))
        .max_send_buffer_size(settings.stream_max_mem_size())
        .max_local_error_reset_streams(settings.max_stream_errors());
    if settings.websockets() {
        builder.enable_connect_protocol();
    }
    builder
}

/// The largest header list, in bytes (`SETTINGS_MAX_HEADER_LIST_SIZE`): at least what nearly all clients send, at most
/// what a child could hold for many of them. For larger ones the library answers 431 itself.
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
            Stage::Serve => Stepping::waiting(self.serve()),
            Stage::ReadHead => Stepping::waiting(self.wait(WaitingFor::Head)),
            Stage::KeepAlive => Stepping::waiting(self.wait(WaitingFor::Request)),
            Stage::WriteCompletion => Stepping::waiting(self.write_completion()),
            Stage::Linger => Stepping::waiting(self.linger(LINGER)),
            Stage::ShortLinger => Stepping::waiting(self.linger(SHORT_LINGER)),
            Stage::Tunnel | Stage::Closed => Stepping::Done(Stage::Closed),
        }
    }

    fn has_input(&self) -> bool {
        self.transport.has_input()
    }
}
