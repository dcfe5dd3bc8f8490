//! From the packets of a backend to the response of the server.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use conf::Level;
use http::KnownField;
use http::text::to_bytes;
use server::{Body, BodyStream, HandlerResult, Piece, Request, Unsent};
use upstream::{Fault, Keep, pool};

use super::NAME;
use super::exchange::{Exchange, Failure};
use super::packet::{Head, Message};
use crate::proxy::mod_proxy::{Destination, HopByHop, broken, cookie, pass_on, proxy_error, reversed};

/// How a connection goes back to those that are kept.
pub(super) type Back = Option<(Arc<Destination>, Keep)>;

/// Waits for the head of the response. The backend gets as much of the request's body as it wants before that.
pub(super) async fn head(exchange: &mut Exchange) -> Result<Head, Failure> {
    loop {
        match exchange.next().await? {
            Message::Head(head) => return Ok(head),
            Message::GetBody(wanted) => exchange.send_body(wanted).await?,
            // To send what has come, where nothing has.
            Message::Body(piece) if piece.is_empty() => {}
            Message::Body(_) => return Err(Failure::Unexpected("the response's body comes before its head")),
            Message::End(_) => return Err(Failure::Unexpected("the response ends before its head")),
            Message::Pong => return Err(Failure::Unexpected("CPONG comes without CPING")),
        }
    }
}

/// Makes the response from its head and what follows. `back` takes the connection when it is free.
pub(super) async fn make(
    request: &mut Request,
    exchange: Exchange,
    head: Head,
    destination: &Destination,
    back: Back,
) -> HandlerResult {
    let Head { status, reason, fields, length } = head;
    match reason.is_empty() || reason == http::status::reason(status) {
        true => request.response.set_status(status),
        false => request.response.set_status_line(status, format!("{status} {reason}")),
    }
    request.response.clear_content_type();
    let connection = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("Connection"));
    let hop_by_hop = HopByHop::of(&connection.map_or(Cow::default(), |(_, value)| to_bytes(value)));
    for (name, value) in fields {
        let bytes = to_bytes(&name);
        if !hop_by_hop.has(KnownField::classify(&bytes), &bytes) {
            add(request, name, value);
        }
    }
    pass_on(request, destination);
    let has_body = request.data.method != "HEAD" && !matches!(status, 204 | 304);
    let left = if has_body { length } else { Some(0) };
    let speaker = request.speaker();
    let mut passed =
        Passed { exchange: Some(exchange), back, length, left, wanted: None, ready: Bytes::new(), speaker };
    if !has_body {
        // Nothing but the end comes. Without it the connection is of no further use, and the response is complete all the same.
        let _ = passed.advance().await;
        return HandlerResult::Body(Body::Stream(Box::new(Unsent(length.filter(|_| status != 204)))));
    }
    match passed.whole() {
        Ok(Some(body)) if body.is_empty() => HandlerResult::Body(Body::Empty),
        Ok(Some(body)) => HandlerResult::Body(Body::Bytes(body)),
        Ok(None) => HandlerResult::Body(Body::Stream(Box::new(passed))),
        Err(failure) => failed(request, destination, &failure),
    }
}

/// Adds a field to the response.
fn add(request: &mut Request, name: Cow<'static, str>, value: String) {
    let reversed = match name.eq_ignore_ascii_case("Set-Cookie2") {
        true => cookie(request, &value),
        false => reversed(request, &name, &value),
    };
    let (value, response) = (reversed.unwrap_or(value), &mut request.response);
    match () {
        () if name.eq_ignore_ascii_case("Content-Type") => response.set_script_type(value),
        () if name.eq_ignore_ascii_case("Content-Encoding") => match &mut response.content_encoding {
            Some(encodings) => encodings.extend([", ", &value]),
            none => *none = Some(value),
        },
        () => response.headers_out.add(name, value),
    }
}

/// What is wrong with the backend, if anything is.
fn fault_of(failure: &Failure) -> Option<Fault> {
    match failure {
        Failure::Lost(_) => Some(Fault::Lost),
        Failure::TimedOut => Some(Fault::Timeout),
        Failure::Malformed(_) | Failure::Unexpected(_) => Some(Fault::Malformed),
        Failure::Body(_) => None,
    }
}

/// Logs why there is no response, and makes the server's own.
pub(super) fn failed(request: &mut Request, destination: &Destination, failure: &Failure) -> HandlerResult {
    fault_of(failure).into_iter().for_each(|fault| destination.server.note_fault(fault));
    if let Failure::Body(error) = failure {
        request.log(NAME, Level::Error, "AH01095: Error reading request entity data");
        return HandlerResult::Status(error.status());
    }
    let status = if matches!(failure, Failure::TimedOut) { 504 } else { 502 };
    let text = format!("AH00878: read response failed from {}: {failure}", destination.server.name);
    request.log(NAME, Level::Error, text);
    proxy_error(request, status, "Error reading from remote server")
}

/// The body of a backend's response, passed on as it comes.
struct Passed {
    /// `None`: it is complete, or has failed.
    exchange: Option<Exchange>,
    back: Back,
    length: Option<u64>,
    /// What is left of it, if its length is known.
    left: Option<u64>,
    /// The backend waits for so much more of the request's body.
    wanted: Option<usize>,
    /// Received, and not yet passed on.
    ready: Bytes,
    /// The request for error log lines, while the real one is on its way.
    speaker: Box<Request>,
}

impl Passed {
    /// The whole body, if it has been received already.
    fn whole(&mut self) -> Result<Option<Bytes>, Failure> {
        let mut all = BytesMut::new();
        while self.wanted.is_none()
            && let Some(message) = self.exchange.as_mut().map(Exchange::here).transpose()?.flatten()
        {
            all.extend_from_slice(&self.take(message)?);
        }
        if self.exchange.is_none() {
            return Ok(Some(all.freeze()));
        }
        self.ready = all.freeze();
        Ok(None)
    }

    /// The piece of the body in a packet; an empty one, if it says something else.
    fn take(&mut self, message: Message) -> Result<Bytes, Failure> {
        match message {
            Message::Body(piece) => {
                if let Some(left) = &mut self.left {
                    let after = left.checked_sub(piece.len() as u64);
                    *left = after.ok_or(Failure::Unexpected("the response's body is longer than it says"))?;
                }
                return Ok(piece);
            }
            Message::GetBody(wanted) => self.wanted = Some(wanted),
            Message::End(_) if self.left.is_some_and(|left| left > 0) => {
                return Err(Failure::Unexpected("the response's body is shorter than it says"));
            }
            Message::End(reuse) => {
                let connection = self.exchange.take().and_then(Exchange::into_connection);
                if let (Some(connection), Some((destination, keep))) = (connection, self.back.take().filter(|_| reuse))
                {
                    pool::give(&destination.kind, keep, connection);
                }
            }
            Message::Head(_) => return Err(Failure::Unexpected("the response has two heads")),
            Message::Pong => return Err(Failure::Unexpected("CPONG comes without CPING")),
        }
        Ok(Bytes::new())
    }

    /// The next piece; `None` at the end.
    async fn advance(&mut self) -> Result<Option<Bytes>, Failure> {
        let mut piece = std::mem::take(&mut self.ready);
        while piece.is_empty() {
            let Some(exchange) = &mut self.exchange else { return Ok(None) };
            if let Some(wanted) = self.wanted.take() {
                exchange.send_body(wanted).await?;
            }
            let message = exchange.next().await?;
            piece = self.take(message)?;
        }
        // Whoever knows the length may ask for nothing more.
        if self.left == Some(0)
            && let Some(message) = self.exchange.as_mut().map(Exchange::here).transpose()?.flatten()
        {
            self.take(message)?;
        }
        Ok(Some(piece))
    }

    async fn piece(&mut self) -> Option<io::Result<Bytes>> {
        match self.advance().await {
            Ok(piece) => piece.map(Ok),
            Err(failure) => {
                self.exchange = None;
                self.speaker.log(NAME, Level::Error, format!("AH00893: dialog failed: {failure}"));
                Some(Err(broken(fault_of(&failure), &failure)))
            }
        }
    }
}

impl BodyStream for Passed {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(self.piece())
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}
