//! A stream: one request and its response.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use conf::Level;
use http::h2::Reason;
use runtime::scoreboard::{Gauge, Row, Workers};
use runtime::tick;

use super::body::Source;
use super::head::ReceivedHead;
use super::open_stream::OpenStream;
use super::response::{Begun, SendError, Sending, Transferred, begin};
use super::tunnel;
use super::wire::Wire;
use crate::exchange::repeat::{self, Key, Repeat, SentHead};
use crate::exchange::{Exchange, Received, RefusedHead, Running, Transfer};
use crate::message::body::RequestBody;
use crate::message::response::{Body, BodyStream};
use crate::message::sent::Delimiter;
use crate::phases::process::Response;
use crate::protocol::discard::DiscardBody;
use crate::request::{Client, Request, StreamId};
use crate::settings::read_timeout::BodyRules;
use crate::site::vhost::VirtualHost;

/// State that all streams of a connection share.
pub(super) struct Common {
    pub(super) running: Running,
    pub(super) client: Arc<Client>,
    pub(super) workers: &'static Workers,
    /// Stream number 0, the first of the connection.
    pub(super) first: StreamId,
    pub(super) wire: Arc<Wire>,
    /// The connection's virtual host, used for a head until its own host is known.
    pub(super) host: &'static VirtualHost,
    /// The largest frame that we send, in bytes.
    pub(super) largest: usize,
    /// Whether one of the streams represents the connection in the list of what the workers serve.
    pub(super) is_listed: AtomicBool,
    /// `H2StreamTimeout`
    pub(super) timeout: Option<Duration>,
}

/// Counts a stream as long as its request is being served.
pub(super) struct Counted {
    common: Arc<Common>,
    /// It represents its connection in the list of what the workers serve.
    is_listed: bool,
}

impl Counted {
    pub(super) fn of(common: &Arc<Common>) -> Counted {
        common.workers.enter(Gauge::Streams);
        Counted { common: common.clone(), is_listed: !common.is_listed.swap(true, Ordering::Relaxed) }
    }

    /// The row of its request in the scoreboard.
    pub(super) fn row(&self) -> Row {
        match self.is_listed {
            true => self.common.workers.acquire(),
            false => self.common.workers.acquire_beside(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_listed {
            self.common.is_listed.store(false, Ordering::Relaxed);
        }
        self.common.workers.leave(Gauge::Streams);
    }
}

/// A head whose response may be worth remembering.
pub(super) struct KnownHead {
    /// Its key.
    pub(super) key: Key,
    /// The text of its fields.
    pub(super) text: Vec<u8>,
}

/// What is known of a request whose head has arrived.
pub(super) enum Asked {
    /// Its head, also for the table, if its response may be worth remembering.
    New(Box<ReceivedHead>, Option<KnownHead>),
    /// The request itself, right before its handler.
    Prepared(repeat::Begun),
    /// Another server was asked for its response.
    Unfinished(Box<Unfinished>),
}

/// A request whose response another server was [expected](super::expected) to make.
pub(super) struct Unfinished {
    /// If the response was another one, its handler has to go on.
    pub(super) exchange: Exchange,
    pub(super) counted: Counted,
    /// If the response was the expected one: its head is sent, and this has to follow.
    pub(super) left: Option<(Begun, Body)>,
}

impl Unfinished {
    /// Its connection is over.
    pub(super) fn give_up(mut self) {
        self.exchange.end(Transfer { received: self.exchange.request.data.head.len(), ..Transfer::default() });
    }
}

/// A request whose head has arrived.
pub(super) struct NewStream {
    pub(super) stream: OpenStream,
    pub(super) asked: Asked,
    /// It has no body.
    pub(super) ends: bool,
    /// From 0, the most urgent, to 7 (RFC 9218).
    pub(super) urgency: u8,
    /// The tick that announced the request.
    pub(super) tick: Option<NonZeroU64>,
}

impl NewStream {
    /// Its connection is over.
    pub(super) fn give_up(self) {
        if let Asked::Unfinished(unfinished) = self.asked {
            unfinished.give_up();
        }
    }
}

/// Serves a request, from its head to the end of its response.
pub(super) async fn serve(common: Arc<Common>, begun: NewStream) {
    let NewStream { stream, asked, ends, tick, .. } = begun;
    let open = Arc::new(stream);
    let so_far = common.wire.lock().traffic();
    let received = Arc::new(AtomicU64::new(0));
    let (mut exchange, known, protocol, left, _counted) = match asked {
        Asked::Unfinished(unfinished) => {
            let Unfinished { exchange, counted, left } = *unfinished;
            (exchange, None, None, left, counted)
        }
        Asked::Prepared(begun) => {
            let counted = Counted::of(&common);
            (Exchange::prepared(begun, counted.row(), so_far), None, None, None, counted)
        }
        Asked::New(asked, known) => {
            let counted = Counted::of(&common);
            let mut asked = *asked;
            let protocol = asked.protocol.take();
            let is_tunnel = protocol.is_some();
            let source = (!is_tunnel && !ends).then_some((asked.length, asked.expects));
            let stream = Some(StreamId { number: open.number(), ..common.first });
            let head = Received { head: asked.head.into(), broken: asked.error.map(RefusedHead::Invalid), stream };
            let mut exchange = Exchange::begin(common.running, &common.client, head, counted.row(), so_far);
            let request = &mut exchange.request;
            request.account.tick = tick.inspect(|tick| tick::resume(*tick));
            request.may_prepare_others = known.is_some();
            if let Some((length, expects)) = source {
                let plan = &request.vhost.plan;
                let rules = BodyRules { timeout: common.timeout.unwrap_or(plan.body.timeout), ..plan.body };
                let source = Source::new(open.clone(), length, expects, rules, received.clone());
                request.body = RequestBody::new(Box::new(source));
            }
            (exchange, known, protocol, None, counted)
        }
    };
    let is_tunnel = protocol.is_some();
    let request = &mut exchange.request;
    let head_len = request.data.head.len();
    request.interim = Some(open.clone());
    let mut carried = Transferred { head: 0, body: 0, complete: false };
    let response = match left {
        None => open.unless_gone(respond(&mut exchange, protocol.as_deref())).await,
        Some((begun, body)) => {
            carried = send_body(&mut exchange.request, &open, begun, body, &common).await;
            None
        }
    };
    exchange.request.interim = None;
    match response {
        None => {}
        Some(Response { tunnel: Some(tunnel), .. }) if is_tunnel => {
            carried = tunnel::speak(&mut exchange, &open, *tunnel, &received, &common).await;
        }
        Some(Response { tunnel: Some(_), .. }) => open.reset(Reason::INTERNAL_ERROR),
        Some(response) => carried = respond_with(&mut exchange, &open, response, known, &common).await,
    }
    let request = &exchange.request;
    let transfer = Transfer {
        sent: carried.head + carried.body + request.account.sent.interim,
        body: carried.body,
        received: head_len + received.load(Ordering::Relaxed),
        complete: carried.complete,
        trailers: request.body.trailers(),
    };
    let is_whole = transfer.complete;
    exchange.end(transfer);
    let Exchange { request, row, repeat, .. } = exchange;
    drop(row);
    match repeat.filter(|_| is_whole) {
        Some(repeat) => repeat.remember(request),
        None => request.recycle(),
    }
    // The stream's last handles are dropped here, which tells a client that still sends that the rest is not needed (RFC
    // 9113 section 8.1).
}

/// Makes the response. `protocol`: that of an extended CONNECT.
async fn respond(exchange: &mut Exchange, protocol: Option<&str>) -> Response {
    let response = exchange.respond().await;
    let Some(protocol) = protocol else { return response };
    if response.tunnel.is_some() || !(200..300).contains(&exchange.request.response.status()) {
        return response;
    }
    // The client would take a page for the other end of an open tunnel (RFC 8441 section 5).
    drop(response);
    exchange.request.log("http2", Level::Debug, "nothing here speaks the protocol of an extended CONNECT");
    exchange.refuse(if protocol.eq_ignore_ascii_case("websocket") { 502 } else { 501 }).await
}

/// Sends a response.
async fn respond_with(
    exchange: &mut Exchange,
    stream: &Arc<OpenStream>,
    response: Response,
    known: Option<KnownHead>,
    common: &Common,
) -> Transferred {
    let Exchange { request, repeat, slot, .. } = exchange;
    let failed = Transferred { head: 0, body: 0, complete: false };
    if response.raw || request.response.status() < 200 {
        request.log("http2", Level::Error, "this response exists only in HTTP/1: it cannot be sent over HTTP/2");
        stream.reset(Reason::INTERNAL_ERROR);
        return failed;
    }
    let mut body = response.body;
    let mut begun = begin(request, stream, &body);
    if let Err(page) = begun {
        body = page;
        begun = begin(request, stream, &body);
    }
    let Ok(Some(begun)) = begun else { return failed };
    let mut unsent = None;
    if is_bodyless(request)
        && let Body::Stream(source) = std::mem::take(&mut body)
    {
        unsent = Some(DiscardBody(source));
    }
    let delimiter = request.account.sent.head.map_or(Delimiter::Nothing, |(delimiter, _)| delimiter);
    let length = if let Delimiter::Length(length) = delimiter { Some(length) } else { None };
    if let Some(slot) = slot.as_ref().filter(|_| request.recurrence.is_offered()) {
        slot.settle(request, delimiter, &body, |request, date| {
            let response = &request.response;
            let has_other = response.err_headers_out.contains("Date");
            let is_its = response.is_passed_on && !has_other && response.headers_out.get("Date") == Some(date);
            is_its.then(|| SentHead::http2(request, length))?
        });
    }
    let is_sent_at_once = match &body {
        Body::Empty => true,
        Body::Bytes(bytes) => bytes.len() <= common.largest,
        Body::Parts(_) | Body::File(_) | Body::Stream(_) => false,
    };
    if let Some(KnownHead { key, text }) = known.filter(|_| is_sent_at_once || request.prepared.is_some()) {
        let head = match request.prepared {
            Some(_) => Some(SentHead::Another),
            None => SentHead::http2(request, length),
        };
        *repeat = head.and_then(|head| Repeat::of(key, request, head, Some(text), &body, delimiter));
    }
    if let Some(mut source) = unsent {
        stream.unless_gone(source.next()).await;
    }
    send_body(request, stream, begun, body, common).await
}

/// Whether the response has no body, whatever its source.
fn is_bodyless(request: &Request) -> bool {
    request.data.header_only || http::status::is_bodyless(request.response.status())
}

/// Sends the body of a response whose head is sent.
async fn send_body(
    request: &mut Request,
    stream: &Arc<OpenStream>,
    Begun { size, ends }: Begun,
    body: Body,
    common: &Common,
) -> Transferred {
    let has_none = is_bodyless(request) || body.length() == Some(0);
    let mut carried = Transferred { head: size, body: 0, complete: ends };
    if ends && request.body.is_done() {
        return carried;
    }
    let timeout = common.timeout.unwrap_or(request.vhost.plan.timeout);
    let limit = request.response.rate_limit;
    let mut sending = Sending::new(stream.clone(), timeout, limit, common.largest, request.body.clone());
    let sent = match body {
        _ if ends => {
            sending.drain().await;
            Ok(())
        }
        _ if has_none => sending.end().await,
        Body::Bytes(bytes) => sending.piece(bytes, true).await,
        Body::File(part) => sending.file(part).await,
        body => {
            let length = body.length();
            let mut source = body.into_stream();
            let sent = sending.pieces(&mut *source, length).await;
            source.notes().into_iter().for_each(|(name, value)| request.notes.set(name, value));
            request.account.sent.trailers_out = source.trailers().unwrap_or_default();
            sent
        }
    };
    match sent {
        Ok(()) => carried.complete = true,
        Err(SendError::Reset) => {}
        Err(SendError::Late) => {
            request.log(
                "http2",
                Level::Info,
                "the client no longer reads the response (Timeout): resetting its stream",
            );
            sending.break_off(Reason::CANCEL);
        }
        Err(SendError::Failed) => sending.break_off(Reason::INTERNAL_ERROR),
    }
    carried.body = sending.sent;
    carried
}
