//! A stream: one request and its response.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use conf::Level;
use http::h2::Reason;
use runtime::scoreboard::{Gauge, Workers};
use runtime::tick;

use super::body::Source;
use super::expected::{self, Expected};
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

/// Marks the stream that represents its connection in that list.
pub(super) struct Listed<'a>(&'a AtomicBool);

impl<'a> Listed<'a> {
    /// `None`: another stream represents it.
    pub(super) fn of(is_listed: &'a AtomicBool) -> Option<Listed<'a>> {
        let is_first = !is_listed.swap(true, Ordering::Relaxed);
        is_first.then(|| Listed(is_listed))
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Counts a stream as long as its request is being served.
pub(super) struct Counted<'a>(&'a Workers);

impl<'a> Counted<'a> {
    pub(super) fn of(workers: &'a Workers) -> Counted<'a> {
        workers.enter(Gauge::Streams);
        Counted(workers)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.leave(Gauge::Streams);
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

/// Serves a request, from its head to the end of its response.
pub(super) async fn serve(common: Arc<Common>, begun: NewStream) {
    let _counted = Counted::of(common.workers);
    let NewStream { stream, asked, ends, tick, .. } = begun;
    let listed = Listed::of(&common.is_listed);
    let row = match listed {
        Some(_) => common.workers.acquire(),
        None => common.workers.acquire_beside(),
    };
    let open = Arc::new(stream);
    let so_far = common.wire.lock().traffic();
    let received = Arc::new(AtomicU64::new(0));
    let mut settled = None;
    let (mut exchange, known, protocol) = match asked {
        Asked::Prepared(mut begun) => {
            settled = begun.settled.take();
            (Exchange::prepared(begun, row, so_far), None, None)
        }
        Asked::New(asked, known) => {
            let mut asked = *asked;
            let protocol = asked.protocol.take();
            let is_tunnel = protocol.is_some();
            let source = (!is_tunnel && !ends).then_some((asked.length, asked.expects));
            let stream = Some(StreamId { number: open.number(), ..common.first });
            let head = Received { head: asked.head.into(), broken: asked.error.map(RefusedHead::Invalid), stream };
            let mut exchange = Exchange::begin(common.running, &common.client, head, row, so_far);
            let request = &mut exchange.request;
            request.account.tick = tick.inspect(|tick| tick::resume(*tick));
            request.may_prepare_others = known.is_some();
            if let Some((length, expects)) = source {
                let plan = &request.vhost.plan;
                let rules = BodyRules { timeout: common.timeout.unwrap_or(plan.body.timeout), ..plan.body };
                let source = Source::new(open.clone(), length, expects, rules, received.clone());
                request.body = RequestBody::new(Box::new(source));
            }
            (exchange, known, protocol)
        }
    };
    let is_tunnel = protocol.is_some();
    let request = &mut exchange.request;
    let head_len = request.data.head.len();
    request.interim = Some(open.clone());
    let expected = match &settled {
        Some(settled) => expected::begin(&mut exchange, settled, &open).await,
        None => Expected::Unknown,
    };
    let (response, expected) = match expected {
        Expected::Unknown => (open.unless_gone(respond(&mut exchange, protocol.as_deref())).await, None),
        Expected::Response(begun, body) => (None, Some((begun, body))),
        Expected::Gone => (None, None),
    };
    exchange.request.interim = None;
    let mut carried = Transferred { head: 0, body: 0, complete: false };
    if let Some((begun, body)) = expected {
        carried = send_body(&mut exchange.request, &open, begun, body, &common).await;
    }
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
