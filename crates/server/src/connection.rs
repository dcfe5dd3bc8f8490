//! A connection's life, stage by stage: read a head, process, write; wait for the next; linger; close.
//!
//! HTTP/1.1 is spoken here and nowhere else. Whoever polls the stages is the MPM's affair.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use conf::Level;
use http::framing::{Framing, Persistence};
use http::{Head, HeadError, Parse};
use seam::scoreboard::{Slot, Texts, Traffic, Workers};
use seam::{Accepted, Connection, Service, Stage, Stepping};

use crate::config::{Server, VirtualHost};
use crate::core::CoreServer;
use crate::error_document;
use crate::filters::Chain;
use crate::input::RequestBody;
use crate::output::{Delimiter, Outgoing, Persist, write_head};
use crate::process::{self, Response, Work};
use crate::request::{Client, Incoming, Kind, Request, Source};
use crate::response::Body;
use crate::stream::Stream;
use crate::timer::Timer;
use crate::vhost;

/// How much of a head is received at once, in bytes.
const HEAD_PIECE: usize = 4096;
/// After this many requests that came in behind each other, other connections have their turn.
const PIPELINED: u32 = 16;
/// How much of an unread request body is read and thrown away to keep the connection, in bytes.
const DISCARD_MAX: u64 = 256 * 1024;
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
        };
        Box::new(HttpConnection {
            server: &self.server,
            client: Arc::new(client),
            workers: accepted.workers,
            traffic: Traffic::default(),
            idle_until: Instant::now(),
            timer: Timer::default(),
            buffer: Vec::new(),
            announced: None,
            behind: 0,
            exchange: None,
        })
    }

    fn child_started(&self) {
        self.server.child_started();
    }

    fn before_wait(&self) {
        crate::log::flush_all();
        crate::turn::next();
    }
}

struct HttpConnection {
    server: &'static Server,
    client: Arc<Client>,
    workers: Arc<Workers>,
    /// What this connection was served so far.
    traffic: Traffic,
    /// How long the next request may take to come: `KeepAliveTimeout` of the virtual host that was asked last.
    idle_until: Instant,
    timer: Timer,
    /// Received and not looked at yet.
    buffer: Vec<u8>,
    /// The turn in which the reactor announced what is in the buffer.
    announced: Option<u64>,
    /// Requests served in a row without waiting for one.
    behind: u32,
    /// An answer of which a part still has to go out.
    exchange: Option<Box<Exchange>>,
}

/// An answer whose head is written.
struct Composed {
    exchange: Exchange,
    /// The length of the head.
    head_len: u64,
    /// A body that is still being made.
    stream: Option<Box<dyn crate::response::Stream>>,
    chunked: bool,
}

/// A request and what is left to send of its answer.
struct Exchange {
    request: Box<Request>,
    outgoing: Outgoing,
    slot: Slot,
    keep: bool,
    /// The client may still be sending: closing at once could reset the connection under our answer.
    linger: bool,
}

/// How far the service of a request came without waiting.
enum Step {
    /// To its end, or to a stage of its own.
    Next(Stage),
    /// There is no request to be served.
    Refuse(Box<Refusal>, Slot),
    /// Something has to be waited for.
    Work(Box<Request>, Work, Slot),
    /// A filter waits.
    Filter(Filtered, Slot),
}

/// An answer on its way through its filters.
type Filtered = Pin<Box<dyn Future<Output = (Box<Request>, Response)> + Send>>;

impl Connection for HttpConnection {
    fn step(&mut self, stage: Stage) -> Stepping<'_> {
        match stage {
            Stage::Serve => match self.serve_now() {
                Some(Step::Next(stage)) => Stepping::Done(stage),
                Some(Step::Refuse(refusal, slot)) => Stepping::waiting(self.refuse(refusal, slot)),
                Some(Step::Work(request, work, slot)) => Stepping::waiting(self.serve_on(request, work, slot)),
                Some(Step::Filter(filtered, slot)) => Stepping::waiting(self.serve_filtered(filtered, slot)),
                None => Stepping::waiting(self.serve()),
            },
            Stage::WriteCompletion => Stepping::waiting(self.write_completion()),
            Stage::KeepAlive => Stepping::waiting(self.keep_alive()),
            Stage::Linger => Stepping::waiting(self.linger(LINGER)),
            Stage::ShortLinger => Stepping::waiting(self.linger(SHORT_LINGER)),
            Stage::Closed => Stepping::Done(Stage::Closed),
        }
    }
}

impl HttpConnection {
    /// Serves a request whose head is there already: most are, and most need nothing that has to be waited for. Such a
    /// request costs no future at all. `None`: the head is not there.
    fn serve_now(&mut self) -> Option<Step> {
        if self.behind >= PIPELINED {
            return None;
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        if bytes.is_empty() {
            let mut cx = Context::from_waker(Waker::noop());
            // What is not there, or broken, is for those who can wait.
            let _ = self.client.stream.poll_read(&mut cx, &mut bytes, HEAD_PIECE);
        }
        let mut head = crate::buffers::take_head();
        match Head::parse(&bytes, &self.server.main().plan.limits, &mut head) {
            Ok(Parse::Complete { len }) => {
                let slot = self.workers.acquire();
                Some(self.answer(Incoming { bytes, head, head_len: len }, slot))
            }
            _ => {
                crate::buffers::give_head(head);
                self.buffer = bytes;
                None
            }
        }
    }

    /// Serves a request whose head has to be waited for.
    async fn serve(&mut self) -> Stage {
        if self.behind >= PIPELINED {
            self.behind = 0;
            crate::turn::pass().await;
        }
        let slot = self.workers.acquire();
        let step = match self.read_head().await {
            Ok(Some(incoming)) => self.answer(incoming, slot),
            Ok(None) => return Stage::Closed,
            Err(refusal) => Step::Refuse(refusal, slot),
        };
        match step {
            Step::Next(stage) => stage,
            Step::Refuse(refusal, slot) => self.refuse(refusal, slot).await,
            Step::Work(request, work, slot) => self.serve_on(request, work, slot).await,
            Step::Filter(filtered, slot) => self.serve_filtered(filtered, slot).await,
        }
    }

    /// Reads a request head; `None`: the client is gone, or never said anything.
    async fn read_head(&mut self) -> Result<Option<Incoming>, Box<Refusal>> {
        let plan = self.server.main().plan;
        let mut start = None;
        let mut head = Head::default();
        let mut bytes = std::mem::take(&mut self.buffer);
        loop {
            if !bytes.is_empty() {
                match Head::parse(&bytes, &plan.limits, &mut head) {
                    Ok(Parse::Complete { len }) => return Ok(Some(Incoming { bytes, head, head_len: len })),
                    Ok(Parse::Partial) => {}
                    Err(error) => {
                        return Err(Refusal::boxed(Why::Head(error), Incoming::broken(bytes, head)));
                    }
                }
            }
            let now = Instant::now();
            let mut deadline = now + plan.timeout;
            if let Some(limit) = plan.head_timeout {
                deadline = deadline.min(limit.deadline(*start.get_or_insert(now), bytes.len() as u64));
            }
            self.announced = None; // The end of a head may be sent after the turn that announced its beginning.
            match self.timer.until(deadline, self.client.stream.read(&mut bytes, HEAD_PIECE)).await {
                Some(Ok(0)) | Some(Err(_)) => return Ok(None),
                Some(Ok(_)) => {}
                None => return Err(Refusal::boxed(Why::Timeout, Incoming::broken(bytes, head))),
            }
        }
    }

    /// Processes a request and writes its answer, as far as that goes without waiting.
    fn answer(&mut self, incoming: Incoming, slot: Slot) -> Step {
        let framing = match Framing::of(&incoming.head, &incoming.bytes) {
            Ok(framing) => framing,
            Err(error) => return Step::Refuse(Refusal::boxed(Why::Head(error), incoming), slot),
        };
        let mut request = match self.request(incoming, framing, true) {
            Ok(request) => request,
            Err(refusal) => return Step::Refuse(refusal, slot),
        };
        slot.begin(self.traffic);
        if self.server.extended_status {
            describe(&request, &slot);
        }
        let work = match expectation(&request) {
            Some(error) => {
                let body = error_document::canned(&mut request, error);
                Work::Done(Response { body, raw: false })
            }
            None => process::start(&mut request),
        };
        let (request, work) = match work {
            Work::Filter(chain, body) => {
                let mut filtered = filter(request, chain, body);
                // Most filters leave most answers alone, and what is there as a whole they need not wait for.
                match filtered.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready((request, response)) => (request, Work::Done(response)),
                    Poll::Pending => return Step::Filter(filtered, slot),
                }
            }
            work => (request, work),
        };
        match work {
            Work::Done(response) if request.body.is_none() && !matches!(response.body, Body::Stream(_)) => {
                let composed = self.compose(request, response, slot, false);
                Step::Next(self.send(composed))
            }
            work => Step::Work(request, work, slot),
        }
    }

    /// Goes on where something had to be waited for.
    async fn serve_on(&mut self, mut request: Box<Request>, mut work: Work, slot: Slot) -> Stage {
        let response = loop {
            match work {
                Work::Done(response) => break response,
                Work::Later(waiting) => {
                    let answer = (waiting.handler)(&mut request).await;
                    work = process::go_on(&mut request, &waiting, answer);
                }
                Work::Filter(chain, body) => return self.serve_filtered(filter(request, chain, body), slot).await,
            }
        };
        self.write(request, response, slot).await
    }

    /// The same with an answer that is being filtered.
    async fn serve_filtered(&mut self, filtered: Filtered, slot: Slot) -> Stage {
        let (request, response) = filtered.await;
        self.write(request, response, slot).await
    }

    /// Makes a request of a head. `check`: a host that is not known is refused where `StrictHostCheck` says so.
    fn request(&mut self, mut incoming: Incoming, framing: Framing, check: bool) -> Result<Box<Request>, Box<Refusal>> {
        let (head, bytes) = (&incoming.head, &incoming.bytes[..]);
        let text = |bytes: &[u8]| http::text::from_bytes(bytes).into_owned();
        let hostname = head.host(bytes).map(|authority| {
            // The head was refused unless this is a host with or without a port.
            let colon = memchr::memrchr(b':', authority).filter(|_| !authority.ends_with(b"]"));
            let mut host = text(&authority[..colon.unwrap_or(authority.len())]);
            host.make_ascii_lowercase();
            host.truncate(host.strip_suffix('.').map_or(host.len(), str::len));
            host
        });
        let vhost = self.virtual_host(hostname.as_deref(), check);
        let Some(vhost) = vhost else { return Err(Refusal::boxed(Why::UnknownHost, incoming)) };
        let method = match head.method(bytes) {
            b"GET" => Cow::Borrowed("GET"),
            b"HEAD" => Cow::Borrowed("HEAD"),
            b"POST" => Cow::Borrowed("POST"),
            other => Cow::Owned(text(other)),
        };
        if check && vhost.plan.only_registered_methods && !vhost.settings.get::<CoreServer>().knows_method(&method) {
            return Err(Refusal::boxed(Why::Method, incoming));
        }
        let (unparsed_uri, args) = (text(head.target(bytes)), head.query(bytes).map(text));
        let version = head.version();
        let expects = head.field(bytes, http::Known::Expect).is_some_and(|e| e.eq_ignore_ascii_case(b"100-continue"));
        let mut received = incoming.head_len as u64;
        let body = if framing.has_body() {
            let rest = incoming.bytes.split_off(incoming.head_len);
            received += rest.len() as u64;
            RequestBody::new(self.client.clone(), framing, rest, expects, vhost.plan.body)
        } else {
            if incoming.bytes.len() > incoming.head_len {
                self.buffer = incoming.bytes.split_off(incoming.head_len);
            }
            RequestBody::default()
        };
        let origin = Source { server: self.server, vhost, client: self.client.clone(), incoming: Arc::new(incoming) };
        let mut request = Request::new(origin, Kind::Main, SystemTime::now(), Instant::now());
        request.header_only = method == "HEAD";
        request.method = method;
        request.version = version;
        request.unparsed_uri = unparsed_uri;
        request.args = args;
        request.hostname = hostname;
        request.shares_turn = self.announced.take().inspect(|turn| crate::turn::resume(*turn)).is_some();
        request.body = body;
        request.sent.received = received;
        Ok(request)
    }

    /// The virtual host; `None`: the name is unknown, and that is to be checked.
    fn virtual_host(&self, name: Option<&str>, check: bool) -> Option<&'static VirtualHost> {
        let hosts = &self.server.by_name;
        let (index, known) = if hosts.is_empty() { (0, false) } else { hosts.choose(self.client.local(), name) };
        let host = &self.server.hosts[index];
        if check && name.is_some() && !known && vhost::is_strict(host) && name != Some(host.name.as_str()) {
            return None;
        }
        Some(host)
    }

    /// Writes an answer; what is there already and does not fit into the socket is left to another stage.
    async fn write(&mut self, request: Box<Request>, response: Response, slot: Slot) -> Stage {
        // A client that still waits for `100 Continue` may or may not send its body now: nobody could tell the next
        // request from it.
        // A script may answer before it has read everything; it goes on reading while its answer goes out.
        let shared = request.body.is_shared();
        let unread = request.body.expects() || !shared && !request.body.is_done() && !self.discard(&request).await;
        let mut composed = self.compose(request, response, slot, unread);
        let Some(mut source) = composed.stream.take() else { return self.send(composed) };
        let Composed { mut exchange, head_len, chunked, .. } = composed;
        let ended = self.write_stream(&mut exchange, &mut *source, chunked).await;
        drop(source);
        if shared && !exchange.request.body.is_done() && !self.discard(&exchange.request).await {
            (exchange.keep, exchange.linger) = (false, true);
        }
        self.finish(exchange, ended.is_ok(), head_len)
    }

    /// Decides how the answer is framed and whether the connection stays, and writes the head. `unread`: a part of the
    /// request's body will not be read.
    fn compose(&self, mut request: Box<Request>, response: Response, slot: Slot, unread: bool) -> Composed {
        let Response { mut body, raw } = response;
        let length = body.length();
        let chunked = length.is_none() && request.version == http::Version::Http11;
        let bodyless = request.header_only || http::status::is_bodyless(request.status);
        let mut delimiter = match length {
            _ if raw => Delimiter::Close,
            Some(length) => Delimiter::Length(length),
            None if bodyless => Delimiter::Nothing,
            None if chunked => Delimiter::Chunked,
            None => Delimiter::Close,
        };
        let wish = Persistence::of(&request.incoming.head, &request.incoming.bytes);
        let mut persist = self.persist(&request, wish, delimiter != Delimiter::Close && !unread);
        let mut front = crate::buffers::take();
        let sendable = raw || write_head(&mut request, delimiter, persist, &mut front);
        if !sendable {
            // The head that was written instead says so.
            (delimiter, persist) = (Delimiter::Length(0), Persist { keep: false, announce: None });
        }
        if !sendable || bodyless && !raw {
            body = Body::Empty;
        }
        request.sent.keepalive = persist.keep;
        request.sent.head = (!raw).then_some((delimiter, persist));
        let head_len = front.len() as u64;
        let mut outgoing = Outgoing::new(front);
        let linger = unread || !wish.connection_close && request.version != http::Version::Http10;
        let mut stream = None;
        match body {
            Body::Stream(source) => stream = Some(source),
            body => outgoing.push(body),
        }
        let exchange = Exchange { request, outgoing, slot, keep: persist.keep, linger };
        Composed { exchange, head_len, stream, chunked: delimiter == Delimiter::Chunked }
    }

    /// Sends an answer that is there as a whole, once, without waiting: most fit into the socket's buffer.
    fn send(&mut self, composed: Composed) -> Stage {
        let Composed { mut exchange, head_len, .. } = composed;
        exchange.request.sent.bytes = head_len;
        let mut cx = Context::from_waker(Waker::noop());
        match exchange.outgoing.poll_write(&mut cx, &self.client.stream, false) {
            Poll::Ready(Ok(true)) => self.finish(exchange, true, head_len),
            Poll::Ready(Err(_)) => self.finish(exchange, false, head_len),
            Poll::Ready(Ok(false)) | Poll::Pending => {
                exchange.slot.park();
                self.exchange = Some(Box::new(exchange));
                Stage::WriteCompletion
            }
        }
    }

    /// Sends the rest of an answer, as fast as the client takes it.
    async fn write_completion(&mut self) -> Stage {
        let Some(mut exchange) = self.exchange.take() else { return Stage::Closed };
        let timeout = exchange.request.vhost.plan.timeout;
        let head_len = exchange.request.sent.bytes;
        let written = self.write_all(&mut exchange.outgoing, timeout).await;
        self.finish(*exchange, written.is_ok(), head_len)
    }

    /// Sends a body that is being made, piece by piece.
    async fn write_stream(
        &mut self,
        exchange: &mut Exchange,
        source: &mut dyn crate::response::Stream,
        chunked: bool,
    ) -> io::Result<()> {
        let timeout = exchange.request.vhost.plan.timeout;
        let mut since = Instant::now();
        loop {
            // A body that costs time (compression) and a client that takes it all may never make each other wait.
            if since.elapsed() > SLICE {
                crate::turn::pass().await;
                since = Instant::now();
            }
            let piece = {
                let mut next = source.next();
                match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
                    Poll::Ready(piece) => piece,
                    Poll::Pending => {
                        // The client need not wait for the head until there is a body.
                        self.write_all(&mut exchange.outgoing, timeout).await?;
                        next.await
                    }
                }
            };
            match piece {
                None => {
                    for (name, value) in source.notes() {
                        exchange.request.notes.set(name, value);
                    }
                    if chunked {
                        exchange.outgoing.push(Body::Bytes(http::chunked::BODY_END.into()));
                    }
                    return self.write_all(&mut exchange.outgoing, timeout).await;
                }
                // The client must not take a part for the whole: the connection breaks off instead.
                Some(Err(error)) => return Err(error),
                Some(Ok(bytes)) if bytes.is_empty() => {}
                Some(Ok(bytes)) => {
                    exchange.request.sent.body += bytes.len() as u64;
                    if chunked {
                        let mut size = Vec::with_capacity(20);
                        http::chunked::write_chunk_header(&mut size, bytes.len() as u64);
                        exchange.outgoing.push(Body::Bytes(size.into()));
                    }
                    exchange.outgoing.push(Body::Bytes(bytes));
                    if chunked {
                        exchange.outgoing.push(Body::Bytes(http::chunked::CHUNK_END.into()));
                    }
                    self.write_all(&mut exchange.outgoing, timeout).await?;
                }
            }
        }
    }

    /// Writes everything; the client may take `timeout` between two pieces.
    async fn write_all(&mut self, outgoing: &mut Outgoing, timeout: Duration) -> io::Result<()> {
        loop {
            let before = outgoing.sent;
            let write = poll_fn(|cx| match outgoing.poll_write(cx, &self.client.stream, false) {
                // Progress moves the deadline on.
                Poll::Pending if outgoing.sent > before => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
                Poll::Ready(result) => Poll::Ready(Some(result)),
            });
            match self.timer.until(Instant::now() + timeout, write).await {
                Some(None) => {}
                Some(Some(Ok(true))) => return Ok(()),
                Some(Some(Ok(false))) => crate::turn::pass().await,
                Some(Some(Err(error))) => return Err(error),
                None => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Ends an exchange: accounts for it, logs it, and says what comes next.
    fn finish(&mut self, exchange: Exchange, complete: bool, head_len: u64) -> Stage {
        let Exchange { mut request, mut outgoing, slot, keep, linger } = exchange;
        crate::buffers::give(outgoing.take_front());
        let sent = &mut request.sent;
        sent.bytes = outgoing.sent;
        sent.aborted = !complete;
        let now = Instant::now();
        sent.duration = now - request.start;
        sent.first_byte.get_or_insert(sent.duration);
        if sent.body == 0 {
            sent.body = outgoing.sent.saturating_sub(head_len);
        }
        let (body_received, trailers) = request.body.received();
        sent.received += body_received;
        sent.trailers_in = trailers;
        for hook in &self.server.hooks.log {
            hook(&mut request);
        }
        slot.finish(request.sent.bytes, request.sent.duration);
        self.idle_until = now + request.vhost.plan.keep_alive_timeout;
        drop(slot);
        self.traffic.accesses += 1;
        self.traffic.bytes += request.sent.bytes;
        self.client.keepalives.fetch_add(1, Ordering::Relaxed);
        // Whatever became of the body: what was not read of it is no request.
        let (keep, linger) = if request.body.is_done() { (keep, linger) } else { (false, true) };
        if let Some(rest) = request.body.take_rest() {
            self.buffer = rest;
        }
        if let Some(incoming) = Arc::get_mut(&mut request.incoming) {
            crate::buffers::give(std::mem::take(&mut incoming.bytes));
            crate::buffers::give_head(std::mem::take(&mut incoming.head));
        }
        if !complete {
            return Stage::Closed;
        }
        match (keep, linger) {
            // What has been received already may be the next request.
            (true, _) if !self.buffer.is_empty() => {
                self.behind += 1;
                Stage::Serve
            }
            (true, _) => {
                self.behind = 0;
                Stage::KeepAlive
            }
            (false, true) => Stage::Linger,
            // A client that announced the end sends nothing more that a closed socket could answer with a reset.
            (false, false) => Stage::Closed,
        }
    }

    /// Whether the connection may stay open after this answer (RFC 9112 section 9.3; Apache's ap_set_keepalive).
    fn persist(&self, request: &Request, wish: Persistence, possible: bool) -> Persist {
        let plan = &request.vhost.plan;
        let used = self.client.keepalives.load(Ordering::Relaxed);
        // As in Apache `max` counts this request too, and the one after the last of them closes.
        let left = (plan.keep_alive_max > 0).then(|| (plan.keep_alive_max).saturating_sub(used));
        let keep = possible
            && plan.keep_alive
            && !plan.keep_alive_timeout.is_zero()
            && left != Some(0)
            && wish.allows(request.version)
            && !http::status::closes_connection(request.status)
            // A client takes what a script calls 1xx for an interim answer, and the next one for that to this request.
            && request.status >= 200
            && !request.env.contains("nokeepalive")
            && !seam::draining();
        let announce = (keep && wish.connection_keep_alive).then_some((plan.keep_alive_timeout.as_secs(), left));
        Persist { keep, announce }
    }

    /// Reads what is left of a small request body; `false`: too much, or it does not come.
    async fn discard(&self, request: &Request) -> bool {
        let mut read = 0;
        while read <= DISCARD_MAX {
            match request.body.read().await {
                Ok(None) => return true,
                Ok(Some(piece)) => read += piece.len() as u64,
                Err(_) => return false,
            }
        }
        false
    }

    /// Answers what is no request, and closes.
    async fn refuse(&mut self, refusal: Box<Refusal>, slot: Slot) -> Stage {
        let Refusal { why, incoming } = *refusal;
        // A client that did not even send a line is not answered: it may have opened the connection to have it ready.
        let silent = matches!(why, Why::Timeout) && !incoming.bytes.contains(&b'\n');
        let (status, module, level, reason, note) = match why {
            Why::Head(error) => (error.status(), "core", Level::Debug, error.reason(), error.note()),
            Why::Timeout => (408, "reqtimeout", Level::Info, "AH01382: Request header read timeout", ""),
            Why::UnknownHost => {
                let reason = "AH02032: Hostname provided via the request is not known here (StrictHostCheck)";
                (400, "core", Level::Error, reason, "")
            }
            Why::Method => (501, "core", Level::Debug, "the method is not registered (HttpProtocolOptions)", ""),
        };
        let Ok(mut request) = self.request(incoming, Framing::None, false) else { return Stage::Closed };
        request.salvage_line();
        self.buffer.clear();
        request.log(module, level, reason);
        if silent {
            return Stage::ShortLinger;
        }
        if !note.is_empty() {
            request.notes.set("error-notes", note);
        }
        request.env.set("nokeepalive", "1");
        let body = error_document::canned(&mut request, status);
        match self.write(request, Response { body, raw: false }, slot).await {
            Stage::Linger if status == 408 => Stage::ShortLinger,
            Stage::Closed => Stage::Linger,
            stage => stage,
        }
    }

    /// Waits for the next request.
    fn keep_alive(&mut self) -> Idle<'_> {
        Idle { connection: self, waited: false }
    }

    /// Shuts our side, and drains what the client still sends (RFC 9112 section 9.6).
    async fn linger(&mut self, at_most: Duration) -> Stage {
        let deadline = Instant::now() + at_most;
        if self.client.stream.shutdown().is_err() {
            return Stage::Closed;
        }
        let mut sink = Vec::new();
        let mut since = Instant::now();
        loop {
            sink.clear();
            match self.timer.until(deadline, self.client.stream.read(&mut sink, HEAD_PIECE)).await {
                Some(Ok(read)) if read > 0 => {}
                _ => return Stage::Closed,
            }
            // A client that never stops sending must not keep us from looking at the clock, nor from the others.
            if since.elapsed() > SLICE {
                crate::turn::pass().await;
                since = Instant::now();
                if since > deadline {
                    return Stage::Closed;
                }
            }
        }
    }
}

/// A connection that waits for its next request. Written by hand because thousands of them wait: it holds nothing but
/// this.
struct Idle<'a> {
    connection: &'a mut HttpConnection,
    waited: bool,
}

impl Future for Idle<'_> {
    type Output = Stage;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Stage> {
        let HttpConnection { client, buffer, timer, idle_until, .. } = &mut *self.connection;
        let read = match client.stream.poll_read(cx, buffer, HEAD_PIECE) {
            Poll::Ready(read) => read,
            Poll::Pending => {
                let passed = timer.poll_passed(cx, *idle_until);
                self.waited = true;
                return passed.map(|()| Stage::Closed);
            }
        };
        self.connection.announced = self.waited.then(crate::turn::present);
        Poll::Ready(if read.is_ok_and(|read| read > 0) { Stage::Serve } else { Stage::Closed })
    }
}

/// Sends an answer through its filters, to its end.
fn filter(mut request: Box<Request>, chain: Chain, body: Body) -> Filtered {
    Box::pin(async move {
        let body = chain.run(&mut request, body).await;
        let response = process::finish(&mut request, body);
        (request, response)
    })
}

/// Shows on the status page whose request is served.
fn describe(request: &Request, slot: &Slot) {
    let mut address = [0; ADDRESS];
    slot.describe(Texts {
        client: text_of(request.client.peer.ip().to_canonical(), &mut address),
        vhost: &request.vhost.label,
        request: &http::text::from_bytes(request.incoming.line()),
        protocol: request.protocol(),
    });
}

/// Room for the text of any IP address.
const ADDRESS: usize = 48;

/// The text of an address, without an allocation.
fn text_of(ip: IpAddr, into: &mut [u8; ADDRESS]) -> &str {
    use std::io::Write;
    let mut rest = &mut into[..];
    let written = match ip {
        // On every request: formatting machinery costs more than all else that a row of the status page needs.
        IpAddr::V4(ip) => {
            let mut digits = [0; 15];
            rest.write_all(dotted(ip.octets(), &mut digits))
        }
        IpAddr::V6(ip) => write!(rest, "{ip}"),
    };
    let left = written.map_or(ADDRESS, |()| rest.len());
    std::str::from_utf8(&into[..ADDRESS - left]).unwrap_or_default()
}

/// Four numbers with dots between them.
fn dotted(octets: [u8; 4], into: &mut [u8; 15]) -> &[u8] {
    let mut len = 0;
    let mut push = |byte| {
        into[len] = byte;
        len += 1;
    };
    for (place, octet) in octets.into_iter().enumerate() {
        if place > 0 {
            push(b'.');
        }
        for (unit, above) in [(100, octet >= 100), (10, octet >= 10), (1, true)] {
            if above {
                push(b'0' + octet / unit % 10);
            }
        }
    }
    &into[..len]
}

/// A head that cannot be served.
struct Refusal {
    why: Why,
    incoming: Incoming,
}

impl Refusal {
    fn boxed(why: Why, incoming: Incoming) -> Box<Refusal> {
        Box::new(Refusal { why, incoming })
    }
}

enum Why {
    Head(HeadError),
    Timeout,
    UnknownHost,
    Method,
}

impl Incoming {
    /// What arrived instead of a head.
    fn broken(bytes: Vec<u8>, head: Head) -> Incoming {
        Incoming { head_len: bytes.len(), bytes, head }
    }
}

/// The status for an expectation that is not met (RFC 9110 section 10.1.1).
fn expectation(request: &Request) -> Option<u16> {
    let expect = request.header("Expect")?;
    (!expect.eq_ignore_ascii_case("100-continue")).then_some(417)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_texts() {
        let mut room = [0; ADDRESS];
        for text in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "10.20.100.9", "::1", "fe80::1:2"] {
            let ip: IpAddr = text.parse().expect("an address");
            assert_eq!(text_of(ip, &mut room), text);
        }
    }
}
