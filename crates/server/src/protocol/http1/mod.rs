//! A connection's life, stage by stage: read a head, process, write; wait for the next; linger; close.
//!
//! HTTP/1.1 is spoken here and nowhere else. Whoever polls the stages is the MPM's affair.

pub(crate) mod begin;
mod describe;
mod refuse;
mod wait;
mod write;

use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http1::framing::Framing;
use http1::{Head, Parse};
use seam::scoreboard::{Row, Traffic, Workers};
use seam::{Accepted, Connection, HelperProcess, Service, Stage, Stepping};
use sys::cred::Identity;

use self::describe::describe;
use self::refuse::{Refusal, Why};
use self::write::Exchange;
use crate::config::Server;
use crate::phases::error_document;
use crate::phases::filters::Chain;
use crate::phases::{self, Response, Work};
use crate::request::response::Body;
use crate::request::{Client, Incoming, Request};
use crate::transport::socket::Stream;
use crate::transport::timer::Timer;

/// How much of a head is received at once, in bytes.
const HEAD_PIECE: usize = 4096;
/// After this many requests that came in behind each other, other connections have their turn.
const PIPELINED: u32 = 16;
/// How long our shut side waits for the client's, after an answer and after a time-out (Apache: event's queues).
const LINGER: Duration = Duration::from_secs(30);
const SHORT_LINGER: Duration = Duration::from_secs(2);
/// How long a body may be made and sent without ever waiting for anything, before other connections have their turn.
const SLICE: Duration = Duration::from_millis(1);

/// The server as the MPM sees it.
pub struct HttpService {
    server: Arc<Server>,
}

impl HttpService {
    /// Serves this configuration.
    pub fn new(server: Arc<Server>) -> HttpService {
        HttpService { server }
    }
}

impl Service for HttpService {
    fn connect(&'static self, accepted: Accepted) -> Box<dyn Connection> {
        let client = Client {
            peer: accepted.peer,
            stream: Stream::new(accepted.socket),
            local: OnceLock::new(),
            keepalives: AtomicU32::new(0),
            log_id: AtomicU64::new(0),
        };
        Box::new(HttpConnection {
            server: &self.server,
            client: Arc::new(client),
            workers: accepted.workers,
            traffic: 0,
            idle_until: Instant::now(),
            timer: Timer::default(),
            buffer: Vec::new(),
            late: false,
            announced: None,
            behind: 0,
            exchange: None,
            refused: None,
        })
    }

    fn child_started(&self) {
        self.server.child_started();
    }

    fn helpers(&self, children: Option<&Identity>) -> Result<Vec<HelperProcess>, String> {
        self.server.helpers(children)
    }

    fn before_wait(&self) {
        crate::log::flush_all();
        crate::transport::tick::next();
    }

    fn before_end(&self) {
        crate::log::flush_last();
    }
}

struct HttpConnection {
    server: &'static Server,
    client: Arc<Client>,
    workers: Arc<Workers>,
    /// Bytes sent and received with the requests that were answered.
    traffic: u64,
    /// How long the next request may take to come: `KeepAliveTimeout` of the virtual host that was asked last.
    idle_until: Instant,
    timer: Timer,
    /// Received and not served yet.
    buffer: Vec<u8>,
    /// What is in the buffer is all that came in time.
    late: bool,
    /// The turn in which the reactor announced what is in the buffer.
    announced: Option<NonZeroU64>,
    /// Requests served in a row without waiting for one.
    behind: u32,
    /// An answer of which a part still has to go out.
    exchange: Option<Box<Exchange>>,
    /// How the connection ends once its last answer is sent: what came was no request.
    refused: Option<Stage>,
}

/// How far the service of a request came without waiting.
enum Step {
    /// To its end, or to a stage of its own.
    Next(Stage),
    /// Others have their turn first.
    Pass,
    /// There is no request to be served.
    Refuse(Box<Refusal>, Row),
    /// Something has to be waited for.
    Work(Box<Request>, Work, Row),
    /// A filter waits.
    Filter(Filtered, Row),
}

/// An answer on its way through its filters.
type Filtered = Pin<Box<dyn Future<Output = (Box<Request>, Response)> + Send>>;

impl Connection for HttpConnection {
    fn step(&mut self, stage: Stage) -> Stepping<'_> {
        match stage {
            Stage::Serve => match self.serve() {
                Step::Next(stage) => Stepping::Done(stage),
                Step::Pass => Stepping::waiting(self.pass()),
                Step::Refuse(refusal, row) => Stepping::waiting(self.refuse(refusal, row)),
                Step::Work(request, work, row) => Stepping::waiting(self.serve_on(request, work, row)),
                Step::Filter(filtered, row) => Stepping::waiting(self.serve_filtered(filtered, row)),
            },
            Stage::ReadHead => Stepping::waiting(self.read_head()),
            Stage::WriteCompletion => Stepping::waiting(self.write_completion()),
            Stage::KeepAlive => Stepping::waiting(self.keep_alive()),
            Stage::Linger => Stepping::waiting(self.linger(LINGER)),
            Stage::ShortLinger => Stepping::waiting(self.linger(SHORT_LINGER)),
            Stage::Closed => Stepping::Done(Stage::Closed),
        }
    }

    fn has_input(&self) -> bool {
        self.client.stream.has_input()
    }
}

impl HttpConnection {
    /// Serves a request as far as that goes without waiting. Most heads are there, and most requests need nothing that has to
    /// be waited for: they cost no future at all.
    fn serve(&mut self) -> Step {
        if self.behind >= PIPELINED {
            return Step::Pass;
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        if bytes.is_empty() {
            // What is not there yet, or never will be, is found out by who can wait.
            let _ = self.client.stream.poll_read(&mut Context::from_waker(Waker::noop()), &mut bytes, HEAD_PIECE);
        }
        let mut head = crate::transport::buffers::take_head();
        let why = match Head::parse(&bytes, &self.server.main().plan.limits, &mut head) {
            Ok(Parse::Complete { len }) => {
                let row = self.workers.acquire();
                return self.answer(Incoming { bytes, head, head_len: len }, row);
            }
            Ok(Parse::Partial) if !self.late => {
                crate::transport::buffers::give_head(head);
                self.buffer = bytes;
                return Step::Next(Stage::ReadHead);
            }
            Ok(Parse::Partial) => Why::Timeout,
            Err(error) => Why::Head(error),
        };
        Step::Refuse(Refusal::boxed(why, Incoming::broken(bytes, head)), self.workers.acquire())
    }

    /// Lets other connections have their turn.
    async fn pass(&mut self) -> Stage {
        self.behind = 0;
        crate::transport::tick::pass().await;
        Stage::Serve
    }

    /// Reads a head to its end, or to where it is wrong.
    async fn read_head(&mut self) -> Stage {
        let plan = self.server.main().plan;
        let start = Instant::now();
        let mut row = self.workers.acquire();
        row.park();
        let mut head = Head::default();
        loop {
            let mut deadline = Instant::now() + plan.timeout;
            if let Some(limit) = plan.head_timeout {
                deadline = deadline.min(limit.deadline(start, self.buffer.len() as u64));
            }
            self.announced = None; // The end of a head may be sent after the turn that announced its beginning.
            match self.timer.until(deadline, self.client.stream.read(&mut self.buffer, HEAD_PIECE)).await {
                Some(Ok(0)) | Some(Err(_)) => return Stage::Closed,
                Some(Ok(_)) if Head::parse(&self.buffer, &plan.limits, &mut head) == Ok(Parse::Partial) => {}
                Some(Ok(_)) => return Stage::Serve,
                None => {
                    self.late = true;
                    return Stage::Serve;
                }
            }
        }
    }

    /// Processes a request and writes its answer, as far as that goes without waiting.
    fn answer(&mut self, incoming: Incoming, row: Row) -> Step {
        let framing = match Framing::of(&incoming.head, &incoming.bytes) {
            Ok(framing) => framing,
            Err(error) => return Step::Refuse(Refusal::boxed(Why::Head(error), incoming), row),
        };
        let mut request = match self.request(incoming, framing, true) {
            Ok(request) => request,
            Err(refusal) => return Step::Refuse(refusal, row),
        };
        let accesses = u64::from(self.client.keepalives.load(Ordering::Relaxed));
        row.begin(Traffic { accesses, bytes: self.traffic });
        if self.server.extended_status {
            describe(&request, &row);
        }
        let (request, work) = match start(&mut request) {
            Work::Filter(chain, body) => {
                let mut filtered = filter(request, chain, body);
                // Most filters leave most answers alone, and what is there as a whole they need not wait for.
                match filtered.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready((request, response)) => (request, Work::Done(response)),
                    Poll::Pending => return Step::Filter(filtered, row),
                }
            }
            work => (request, work),
        };
        match work {
            Work::Done(response) if request.body.is_none() && !matches!(response.body, Body::Stream(_)) => {
                let composed = self.compose(request, response, row, false);
                Step::Next(self.send(composed))
            }
            work => Step::Work(request, work, row),
        }
    }

    /// Goes on where something had to be waited for.
    async fn serve_on(&mut self, mut request: Box<Request>, mut work: Work, row: Row) -> Stage {
        let response = loop {
            match work {
                Work::Done(response) => break response,
                Work::Later(waiting) => {
                    let answer = self.client.stream.unless_reset((waiting.handler)(&mut request)).await;
                    let Some(answer) = answer else { return self.give_up(request, row) };
                    work = phases::go_on(&mut request, &waiting, answer);
                }
                Work::Filter(chain, body) => return self.serve_filtered(filter(request, chain, body), row).await,
            }
        };
        self.write(request, response, row).await
    }

    /// The same with an answer that is being filtered.
    async fn serve_filtered(&mut self, filtered: Filtered, row: Row) -> Stage {
        let (request, response) = filtered.await;
        self.write(request, response, row).await
    }

    /// Makes a request of a head. `check`: a host that is not known is refused where `StrictHostCheck` says so.
    fn request(&mut self, incoming: Incoming, framing: Framing, check: bool) -> Result<Box<Request>, Box<Refusal>> {
        let (mut request, rest) = begin::request(self.server, &self.client, incoming, framing, check)?;
        if !rest.is_empty() {
            self.buffer = rest;
        }
        request.shares_turn =
            self.announced.take().inspect(|turn| crate::transport::tick::resume(turn.get())).is_some();
        Ok(request)
    }
}

/// Sends an answer through its filters, to its end.
fn filter(mut request: Box<Request>, chain: Chain, body: Body) -> Filtered {
    Box::pin(async move {
        let body = chain.run(&mut request, body).await;
        let response = phases::finish(&mut request, body);
        (request, response)
    })
}

/// Takes a new request to its answer, as far as nothing has to be waited for.
pub(crate) fn start(request: &mut Request) -> Work {
    let Some(error) = expectation(request) else { return phases::start(request) };
    request.note_step("core", None, |_| "an expectation that no server can meet (Expect)".into());
    Work::Done(Response { body: error_document::canned(request, error), raw: false })
}

/// The status for an expectation that is not met (RFC 9110 section 10.1.1).
fn expectation(request: &Request) -> Option<u16> {
    let expect = request.header("Expect")?;
    (!expect.eq_ignore_ascii_case("100-continue")).then_some(417)
}
