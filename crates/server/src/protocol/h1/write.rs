//! From a response to the client: framing, sending as fast as the client reads, and the next step.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use runtime::{CoopBudget, Stage};
use sys::pipe::Pipe;
use sys::time::Instant;

use super::body::Incoming;
use super::connection::{Http1Connection, Sending};
use super::head::{speaks_1_0, write_head};
use super::outgoing::Outgoing;
use crate::exchange::repeat::{Repeat, SentHead};
use crate::exchange::{Exchange, Transfer};
use crate::message::body::RequestBody;
use crate::message::buffers;
use crate::message::fields::Fields;
use crate::message::response::{Body, BodyStream, Piece};
use crate::message::sent::{Delimiter, Persist};
use crate::phases::process::Response;
use crate::protocol::discard::DiscardBody;
use crate::protocol::h1::head::names_close;
use crate::protocol::writer::{self, BodyWriter};
use crate::request::Request;
use crate::transport;
use crate::transport::park_state::HeldMemory;

/// How much of an unread request body is discarded to keep the connection, in bytes.
const DISCARD_MAX: u64 = 256 * 1024;

/// A response with its head written.
pub(super) struct Composed {
    pub(super) sending: Sending,
    /// A body that is still being produced.
    pub(super) stream: Option<Box<dyn BodyStream>>,
    pub(super) chunked: bool,
}

impl Http1Connection {
    /// Writes a response; another stage sends the part that does not fit into the socket.
    pub(super) async fn write(&mut self, exchange: Exchange, mut response: Response) -> Stage {
        if let Some(tunnel) = response.tunnel.take() {
            return Box::pin(self.open_tunnel(exchange, *tunnel)).await;
        }
        let body = &exchange.request.body;
        // A client that still waits for `100 Continue` may or may not send its body now: the next request could not be
        // told apart from it.
        let expects = self.incoming.as_ref().is_some_and(Incoming::withdraw);
        // A script may answer before it has read everything; it continues to read while its response goes out.
        let shared = body.is_shared();
        let unread = expects || !shared && !body.is_done() && !runtime::release_worker(discard(body)).await;
        let mut composed = self.compose(exchange, response, unread);
        let Some(mut source) = composed.stream.take() else { return self.send(composed) };
        let Composed { mut sending, chunked, .. } = composed;
        let timeout = sending.exchange.request.vhost.plan.timeout;
        let mut pieces = Pieces { connection: self, sending: &mut sending, chunked, timeout };
        let ended = writer::pump(&mut pieces, &mut *source).await;
        source.notes().into_iter().for_each(|(name, value)| sending.exchange.request.notes.set(name, value));
        sending.exchange.request.account.sent.trailers_out = source.trailers().unwrap_or_default();
        drop(source);
        let body = &sending.exchange.request.body;
        if shared && !body.is_done() && !runtime::release_worker(discard(body)).await {
            (sending.keep, sending.linger) = (false, true);
        }
        // The last chunk of an empty body does not count as body.
        if sending.exchange.request.account.sent.body == 0 {
            sending.head_len = sending.outgoing.sent;
        }
        self.finish(sending, ended.is_ok())
    }

    /// Ends an exchange whose client wants no more of it.
    pub(super) fn give_up(&mut self, exchange: Exchange) -> Stage {
        let nothing = Response { raw: true, ..Response::of(Body::Empty) };
        let composed = self.compose(exchange, nothing, true);
        self.finish(composed.sending, false)
    }

    /// Decides the framing of the response and whether the connection stays, and writes the head. `unread`: a part of the
    /// request's body will not be read.
    fn compose(&mut self, mut exchange: Exchange, response: Response, unread: bool) -> Composed {
        let request = &mut exchange.request;
        self.interim = request.interim.take();
        let Response { mut body, raw, .. } = response;
        let length = body.length();
        let old = speaks_1_0(request);
        let chunked = length.is_none() && request.data.version == http::Version::Http11 && !old;
        let bodyless = request.data.header_only || http::status::is_bodyless(request.response.status());
        let mut delimiter = match length {
            _ if raw => Delimiter::Close,
            Some(length) => Delimiter::Length(length),
            None if bodyless => Delimiter::Nothing,
            None if chunked => Delimiter::Chunked,
            None => Delimiter::Close,
        };
        let mut persist = self.persist(request, delimiter != Delimiter::Close && !unread && !old);
        let mut front = buffers::take();
        let instead = if raw { None } else { write_head(request, delimiter, persist, &mut front) };
        if let Some(page) = instead {
            // The replacement head says so.
            delimiter = page.length().map_or(Delimiter::Nothing, Delimiter::Length);
            persist = Persist { keep: false, announce: None };
            body = if request.data.header_only { Body::Empty } else { page };
        } else if bodyless && !raw {
            body = match body {
                Body::Stream(source) => Body::Stream(Box::new(DiscardBody(source))),
                _ => Body::Empty,
            };
        }
        request.account.sent.keepalive = persist.keep;
        request.account.sent.head = (!raw).then_some((delimiter, persist));
        let may_recur = !raw && !old && !unread && request.recurrence.is_offered();
        if let Some(slot) = exchange.slot.as_ref().filter(|_| may_recur && self.may_be_repeated(request)) {
            slot.settle(request, delimiter, &body, |request, date| {
                SentHead::http1(request, &front, persist, self.wish).filter(|head| head.has_date(date))
            });
        }
        let key = self.key.take();
        if let Some(key) = key.filter(|_| !raw && !old && !unread && self.may_be_repeated(request)) {
            let head = match request.prepared {
                Some(_) => Some(SentHead::Another),
                None => SentHead::http1(request, &front, persist, self.wish),
            };
            exchange.repeat = head.and_then(|head| Repeat::of(key, request, head, None, &body, delimiter));
        }
        let head_len = front.len() as u64;
        let mut outgoing = Outgoing::new(front, request.response.rate_limit);
        let linger = unread || self.lingers(request);
        let mut stream = None;
        match body {
            Body::Stream(source) => stream = Some(source),
            body => outgoing.push(body),
        }
        let sending = Sending { exchange, outgoing, head_len, keep: persist.keep, linger };
        Composed { sending, stream, chunked: delimiter == Delimiter::Chunked }
    }

    /// Whether the response depends on nothing that this connection has met.
    fn may_be_repeated(&self, request: &Request) -> bool {
        self.incoming.is_none() && self.refused.is_none() && !self.may_offer_http2(request)
    }

    /// Whether the client may still be sending when the connection closes after the response.
    pub(super) fn lingers(&self, request: &Request) -> bool {
        !self.wish.connection_close && request.data.version != http::Version::Http10
    }

    /// Tries once to send a complete response, without waiting: most fit into the socket's buffer.
    pub(super) fn send(&mut self, composed: Composed) -> Stage {
        let Composed { mut sending, .. } = composed;
        let mut cx = Context::from_waker(Waker::noop());
        match sending.outgoing.poll_write(&mut cx, &*self.transport, false) {
            Poll::Ready(Ok(true)) => self.finish(sending, true),
            Poll::Ready(Err(_)) => self.finish(sending, false),
            Poll::Ready(Ok(false)) | Poll::Pending => {
                sending.exchange.row.park();
                self.sending = Some(Box::new(sending));
                Stage::WriteCompletion
            }
        }
    }

    /// Sends the rest of a response, as fast as the client takes it.
    pub(super) async fn write_completion(&mut self) -> Stage {
        let Some(mut sending) = self.sending.take() else { return Stage::Closed };
        let timeout = sending.exchange.request.vhost.plan.timeout;
        let written = self.write_all(&mut sending.outgoing, timeout).await;
        self.finish(*sending, written.is_ok())
    }

    /// Writes everything; the client may take `timeout` between two pieces.
    pub(super) async fn write_all(&mut self, outgoing: &mut Outgoing, timeout: Duration) -> io::Result<()> {
        loop {
            let before = outgoing.sent;
            let write = poll_fn(|cx| match outgoing.poll_write(cx, &*self.transport, false) {
                // Progress moves the deadline.
                Poll::Pending if outgoing.sent > before => Poll::Ready(None),
                Poll::Pending => {
                    let park_state = self.transport.park_state();
                    park_state.hold(HeldMemory::Response, outgoing.in_memory());
                    park_state.poll_evicted(cx).map(|_| Some(Err(io::ErrorKind::TimedOut.into())))
                }
                Poll::Ready(result) => Poll::Ready(Some(result)),
            });
            match self.timer.until(Instant::now() + timeout, write).await {
                Some(None) => {}
                Some(Some(Ok(true))) => return Ok(()),
                Some(Some(Ok(false))) => runtime::yield_now().await,
                Some(Some(Err(error))) => return Err(error),
                None => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Ends an exchange and returns the next stage.
    pub(super) fn finish(&mut self, sending: Sending, complete: bool) -> Stage {
        let Sending { mut exchange, mut outgoing, head_len, keep, linger } = sending;
        buffers::give(outgoing.take_front());
        let incoming = self.incoming.take();
        let rest = incoming.as_ref().map(Incoming::take_rest);
        let park_state = self.transport.park_state();
        park_state.hold(HeldMemory::Input, 0);
        park_state.hold(HeldMemory::Response, 0);
        let transfer = Transfer {
            sent: outgoing.sent + exchange.request.account.sent.interim,
            body: match exchange.request.account.sent.body {
                0 => outgoing.sent.saturating_sub(head_len),
                counted => counted,
            },
            received: self.received + incoming.as_ref().map_or(0, Incoming::received)
                - rest.as_ref().map_or(0, |rest| rest.len() as u64),
            complete,
            trailers: exchange.request.body.trailers(),
        };
        self.traffic += transfer.sent + transfer.received;
        exchange.end(transfer);
        let Exchange { request, row, repeat, .. } = exchange;
        drop(row);
        // Counted from the end of the response, whose time is known.
        let account = &request.account;
        self.idle_since = account.start + account.sent.duration;
        self.idle_until = self.idle_since + request.vhost.plan.keep_alive_timeout;
        // Whatever happened to the body: its unread part is not a request.
        let (keep, linger) = if request.body.is_done() { (keep, linger) } else { (false, true) };
        if let Some(rest) = rest {
            self.buffer = rest;
        }
        match repeat {
            Some(repeat) => repeat.remember(request),
            None => request.recycle(),
        }
        if !complete {
            return Stage::Closed;
        }
        if let Some(end) = self.refused {
            return end;
        }
        match (keep, linger) {
            // The received bytes may be the next request.
            (true, _) if !self.buffer.is_empty() => {
                self.behind += 1;
                Stage::Serve
            }
            (true, _) => {
                self.behind = 0;
                Stage::KeepAlive
            }
            (false, true) => Stage::Linger,
            // A client that announced the end sends nothing more that a closed socket would answer with a reset.
            (false, false) => {
                self.transport.close();
                Stage::Closed
            }
        }
    }

    /// Whether the connection may stay open after this response (RFC 9112 section 9.3; Apache's ap_set_keepalive).
    pub(super) fn persist(&self, request: &Request, possible: bool) -> Persist {
        let plan = &request.vhost.plan;
        let used = self.client.keepalives.load(Ordering::Relaxed);
        // As in Apache, `max` includes this request, and the request that finds none left closes the connection.
        let left = (plan.keep_alive_max > 0).then(|| (plan.keep_alive_max).saturating_sub(used));
        let keep = possible
            && plan.keep_alive
            && !plan.keep_alive_timeout.is_zero()
            && left != Some(0)
            && self.wish.allows(request.data.version)
            && !http::status::closes_connection(request.response.status())
            // A client takes a script's 1xx for an interim response, and the next response for the one to this request.
            && request.response.status() >= 200
            && !request.env.contains("nokeepalive")
            && !says_close(request)
            && self.refused.is_none()
            && !runtime::draining();
        let announce = (keep && self.wish.connection_keep_alive).then_some((plan.keep_alive_timeout.as_secs(), left));
        Persist { keep, announce }
    }
}

/// The pieces of a body on a connection of HTTP/1: chunks, where the length is unknown.
struct Pieces<'c> {
    connection: &'c mut Http1Connection,
    sending: &'c mut Sending,
    chunked: bool,
    timeout: Duration,
}

impl Pieces<'_> {
    async fn write_all(&mut self) -> io::Result<()> {
        self.connection.write_all(&mut self.sending.outgoing, self.timeout).await
    }
}

impl BodyWriter for Pieces<'_> {
    type Error = io::Error;

    async fn ready(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn splice(&mut self, source: &mut dyn BodyStream) -> io::Result<()> {
        if self.chunked || self.sending.outgoing.is_limited() || !self.connection.transport.splices() {
            return Ok(());
        }
        let mut budget = CoopBudget::new();
        while source.splices() {
            budget.step().await;
            self.write_all().await?;
            let empty = self.sending.outgoing.take_pipe();
            // Without one, the body goes through this process.
            let Ok(mut pipe) = empty.map_or_else(Pipe::new, Ok) else { return Ok(()) };
            let filled = transport::unless_reset(&*self.connection.transport, source.splice(&mut pipe)).await;
            filled.ok_or(io::ErrorKind::ConnectionReset)??;
            self.sending.exchange.request.account.sent.body += pipe.len() as u64;
            self.sending.outgoing.push_pipe(pipe);
            self.write_all().await?;
        }
        self.sending.outgoing.take_pipe();
        Ok(())
    }

    async fn next(&mut self, mut piece: Piece<'_>) -> io::Result<Option<io::Result<Bytes>>> {
        match poll_fn(|cx| Poll::Ready(piece.as_mut().poll(cx))).await {
            Poll::Ready(piece) => Ok(piece),
            Poll::Pending => {
                // The client should get the head before there is a body.
                self.write_all().await?;
                let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
                transport::unless_reset(&*self.connection.transport, piece).await.ok_or_else(reset)
            }
        }
    }

    async fn piece(&mut self, bytes: Bytes) -> io::Result<()> {
        let Sending { exchange, outgoing, .. } = &mut *self.sending;
        exchange.request.account.sent.body += bytes.len() as u64;
        if self.chunked {
            let mut size = Vec::with_capacity(20);
            http::h1::chunked::write_chunk_header(&mut size, bytes.len() as u64);
            outgoing.push(Body::Bytes(size.into()));
        }
        outgoing.push(Body::Bytes(bytes));
        if self.chunked {
            outgoing.push(Body::Bytes(http::h1::chunked::CHUNK_END.into()));
        }
        self.write_all().await
    }

    async fn end(&mut self, trailers: Option<Fields>) -> io::Result<()> {
        let Sending { exchange, outgoing, .. } = &mut *self.sending;
        if self.chunked {
            let end = match trailers.filter(|_| exchange.request.accepts_trailers()) {
                None => http::h1::chunked::BODY_END.into(),
                Some(fields) => {
                    let mut end = Vec::with_capacity(256);
                    let fields = fields.iter().map(|(name, value)| (name, http::text::to_bytes(value)));
                    http::h1::chunked::write_trailers(&mut end, fields);
                    end.into()
                }
            };
            outgoing.push(Body::Bytes(end));
        }
        self.write_all().await
    }

    fn source_failed(error: io::Error) -> io::Error {
        error
    }
}

/// Whether the response itself says that the connection closes after it, as those of many scripts do.
fn says_close(request: &Request) -> bool {
    let tables = [&request.response.err_headers_out, &request.response.headers_out];
    tables.iter().filter_map(|fields| fields.get("Connection")).any(|value| names_close(value.as_bytes()))
}

/// Reads the rest of a small request body; `false`: it is too long, or does not arrive.
async fn discard(body: &RequestBody) -> bool {
    let mut read = 0;
    while read <= DISCARD_MAX {
        match body.read().await {
            Ok(None) => return true,
            Ok(Some(piece)) => read += piece.len() as u64,
            Err(_) => return false,
        }
    }
    false
}
