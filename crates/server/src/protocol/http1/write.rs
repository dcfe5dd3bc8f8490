//! From an answer to the client: framing, sending as far as the client reads, and what comes after.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http1::framing::Persistence;
use seam::Stage;
use seam::scoreboard::{Answered, Row};

use super::HttpConnection;
use crate::phases::Response;
use crate::protocol::output::{Delimiter, Outgoing, Persist, write_head};
use crate::request::response::{Body, BodyStream, Piece};
use crate::request::{Request, Sent};
use crate::transport::tick::Slices;

/// How much of an unread request body is read and thrown away to keep the connection, in bytes.
const DISCARD_MAX: u64 = 256 * 1024;

/// An answer whose head is written.
pub(super) struct Composed {
    exchange: Exchange,
    /// The length of the head.
    head_len: u64,
    /// A body that is still being made.
    stream: Option<Box<dyn BodyStream>>,
    chunked: bool,
}

/// A request and what is left to send of its answer.
pub(super) struct Exchange {
    request: Box<Request>,
    outgoing: Outgoing,
    row: Row,
    keep: bool,
    /// The client may still be sending: closing at once could reset the connection under our answer.
    linger: bool,
}

/// A body that is made and not sent: whatever makes it may come to its end.
struct Unsent(Box<dyn BodyStream>);

impl BodyStream for Unsent {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            let mut slices = Slices::new();
            while let Some(Ok(_)) = self.0.next().await {
                slices.step().await;
            }
            None
        })
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn notes(&self) -> Vec<(String, String)> {
        self.0.notes()
    }
}

impl HttpConnection {
    /// Writes an answer; what is there already and does not fit into the socket is left to another stage.
    pub(super) async fn write(&mut self, request: Box<Request>, response: Response, row: Row) -> Stage {
        // A client that still waits for `100 Continue` may or may not send its body now: nobody could tell the next
        // request from it.
        // A script may answer before it has read everything; it goes on reading while its answer goes out.
        let shared = request.body.is_shared();
        let unread = request.body.expects() || !shared && !request.body.is_done() && !self.discard(&request).await;
        let mut composed = self.compose(request, response, row, unread);
        let Some(mut source) = composed.stream.take() else { return self.send(composed) };
        let Composed { mut exchange, head_len, chunked, .. } = composed;
        let ended = self.write_stream(&mut exchange, &mut *source, chunked).await;
        drop(source);
        if shared && !exchange.request.body.is_done() && !self.discard(&exchange.request).await {
            (exchange.keep, exchange.linger) = (false, true);
        }
        self.finish(exchange, ended.is_ok(), head_len)
    }

    /// Ends an exchange of which the client wants to know no more.
    pub(super) fn give_up(&mut self, request: Box<Request>, row: Row) -> Stage {
        let nothing = Response { body: Body::Empty, raw: true };
        let composed = self.compose(request, nothing, row, true);
        self.finish(composed.exchange, false, 0)
    }

    /// Decides how the answer is framed and whether the connection stays, and writes the head. `unread`: a part of the
    /// request's body will not be read.
    pub(super) fn compose(&self, mut request: Box<Request>, response: Response, row: Row, unread: bool) -> Composed {
        let Response { mut body, raw } = response;
        let length = body.length();
        let chunked = length.is_none() && request.version == http1::Version::Http11;
        let bodyless = request.header_only || http1::status::is_bodyless(request.status);
        let mut delimiter = match length {
            _ if raw => Delimiter::Close,
            Some(length) => Delimiter::Length(length),
            None if bodyless => Delimiter::Nothing,
            None if chunked => Delimiter::Chunked,
            None => Delimiter::Close,
        };
        let wish = Persistence::of(&request.incoming.head, &request.incoming.bytes);
        let mut persist = self.persist(&request, wish, delimiter != Delimiter::Close && !unread);
        let mut front = crate::transport::buffers::take();
        let sendable = raw || write_head(&mut request, delimiter, persist, &mut front);
        if !sendable {
            // The head that was written instead says so.
            (delimiter, persist) = (Delimiter::Length(0), Persist { keep: false, announce: None });
        }
        if !sendable {
            body = Body::Empty;
        } else if bodyless && !raw {
            body = match body {
                Body::Stream(source) => Body::Stream(Box::new(Unsent(source))),
                _ => Body::Empty,
            };
        }
        request.sent.keepalive = persist.keep;
        request.sent.head = (!raw).then_some((delimiter, persist));
        let head_len = front.len() as u64;
        let mut outgoing = Outgoing::new(front, request.pace);
        let linger = unread || !wish.connection_close && request.version != http1::Version::Http10;
        let mut stream = None;
        match body {
            Body::Stream(source) => stream = Some(source),
            body => outgoing.push(body),
        }
        let exchange = Exchange { request, outgoing, row, keep: persist.keep, linger };
        Composed { exchange, head_len, stream, chunked: delimiter == Delimiter::Chunked }
    }

    /// Sends an answer that is there as a whole, once, without waiting: most fit into the socket's buffer.
    pub(super) fn send(&mut self, composed: Composed) -> Stage {
        let Composed { mut exchange, head_len, .. } = composed;
        exchange.request.sent.bytes = head_len;
        let mut cx = Context::from_waker(Waker::noop());
        match exchange.outgoing.poll_write(&mut cx, &self.client.stream, false) {
            Poll::Ready(Ok(true)) => self.finish(exchange, true, head_len),
            Poll::Ready(Err(_)) => self.finish(exchange, false, head_len),
            Poll::Ready(Ok(false)) | Poll::Pending => {
                exchange.row.park();
                self.exchange = Some(Box::new(exchange));
                Stage::WriteCompletion
            }
        }
    }

    /// Sends the rest of an answer, as fast as the client takes it.
    pub(super) async fn write_completion(&mut self) -> Stage {
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
        source: &mut dyn BodyStream,
        chunked: bool,
    ) -> io::Result<()> {
        let timeout = exchange.request.vhost.plan.timeout;
        let mut slices = Slices::new();
        loop {
            // A body that costs time (compression) and a client that takes it all may never make each other wait.
            slices.step().await;
            let piece = {
                let mut next = source.next();
                match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
                    Poll::Ready(piece) => piece,
                    Poll::Pending => {
                        // The client need not wait for the head until there is a body.
                        self.write_all(&mut exchange.outgoing, timeout).await?;
                        let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
                        self.client.stream.unless_reset(next).await.ok_or_else(reset)?
                    }
                }
            };
            match piece {
                None => {
                    for (name, value) in source.notes() {
                        exchange.request.notes.set(name, value);
                    }
                    if chunked {
                        exchange.outgoing.push(Body::Bytes(http1::chunked::BODY_END.into()));
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
                        http1::chunked::write_chunk_header(&mut size, bytes.len() as u64);
                        exchange.outgoing.push(Body::Bytes(size.into()));
                    }
                    exchange.outgoing.push(Body::Bytes(bytes));
                    if chunked {
                        exchange.outgoing.push(Body::Bytes(http1::chunked::CHUNK_END.into()));
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
                Some(Some(Ok(false))) => crate::transport::tick::pass().await,
                Some(Some(Err(error))) => return Err(error),
                None => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Ends an exchange: accounts for it, logs it, and says what comes next.
    fn finish(&mut self, exchange: Exchange, complete: bool, head_len: u64) -> Stage {
        let Exchange { mut request, mut outgoing, row, keep, linger } = exchange;
        crate::transport::buffers::give(outgoing.take_front());
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
        let (status, Sent { bytes, received, duration, .. }) = (request.status, &request.sent);
        let watches = request.watches && status == 200;
        row.finish(Answered { status, sent: *bytes, received: *received, took: *duration, watches });
        self.idle_until = now + request.vhost.plan.keep_alive_timeout;
        drop(row);
        self.traffic += request.sent.bytes + request.sent.received;
        self.client.keepalives.fetch_add(1, Ordering::Relaxed);
        // Whatever became of the body: what was not read of it is no request.
        let (keep, linger) = if request.body.is_done() { (keep, linger) } else { (false, true) };
        if let Some(rest) = request.body.take_rest() {
            self.buffer = rest;
        }
        if let Some(incoming) = Arc::get_mut(&mut request.incoming) {
            crate::transport::buffers::give(std::mem::take(&mut incoming.bytes));
            crate::transport::buffers::give_head(std::mem::take(&mut incoming.head));
        }
        if !complete {
            return Stage::Closed;
        }
        if let Some(end) = self.refused {
            return end;
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
            && !http1::status::closes_connection(request.status)
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
}
