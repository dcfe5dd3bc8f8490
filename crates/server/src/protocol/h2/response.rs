//! The response on its stream: head, interim responses, body, and waiting for the client.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use conf::Level;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::h1::response::BadField;
use http_types::header::{HeaderMap, HeaderName, HeaderValue};
use http_types::{Response, StatusCode};
use runtime::CoopBudget;
use runtime::executor::Timer;

use super::queue::Holding;
use crate::message::body::RequestBody;
use crate::message::fields::Fields;
use crate::message::head::RequestHead;
use crate::message::interim::{Interim, SendingInterim};
use crate::message::response::{Body, BodyStream, FilePart, Piece};
use crate::message::sent::{Delimiter, Persist};
use crate::phases::error_document;
use crate::protocol::h2::queue::{Data, Queue};
use crate::protocol::linger::{LINGER, SHORT_LINGER};
use crate::protocol::pace::Pace;
use crate::protocol::writer::{self, BodyWriter};
use crate::request::fields_out::FieldSink;
use crate::request::{RateLimit, Request};

/// Sends interim responses and the head of the response to one request.
pub(super) struct Responder {
    stream: Mutex<SendResponse<Data>>,
    /// The protocol of an extended CONNECT (RFC 8441 section 4).
    protocol: Option<String>,
}

impl Responder {
    pub(super) fn new(stream: SendResponse<Data>, protocol: Option<String>) -> Responder {
        Responder { stream: Mutex::new(stream), protocol }
    }

    fn lock(&self) -> MutexGuard<'_, SendResponse<Data>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `100 Continue`.
    pub(super) fn go_on(&self) {
        // An error means that the stream is gone; the reader of the body notices that.
        let _ = self.lock().send_informational(head(100, HeaderMap::new()));
    }

    /// The result of `task`; `None` once the client has reset the stream.
    pub(super) async fn unless_reset<T>(&self, task: impl Future<Output = T>) -> Option<T> {
        let mut task = pin!(task);
        poll_fn(|cx| match task.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => self.lock().poll_reset(cx).map(|_| None),
        })
        .await
    }

    /// Begins the response. `ends`: it has no body.
    pub(super) fn begin(&self, status: u16, fields: HeaderMap, ends: bool) -> Result<SendStream<Data>, h2::Error> {
        self.lock().send_response(head(status, fields), ends)
    }

    /// Ends the stream without a response.
    pub(super) fn reset(&self, reason: Reason) {
        self.lock().send_reset(reason);
    }
}

/// A head without a body. An invalid status is our own error.
fn head(status: u16, fields: HeaderMap) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *head.headers_mut() = fields;
    head
}

impl Interim for Responder {
    fn send<'a>(&'a self, _: &'a RequestHead, status: u16, fields: &'a Fields, _: Duration) -> SendingInterim<'a> {
        Box::pin(async move {
            let mut sink = Sink::new(None);
            for (name, value) in fields.iter() {
                let value = http::text::to_bytes(value);
                sink.field(name, &value).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            }
            let (size, fields) = (sink.size, sink.fields);
            self.lock().send_informational(head(status, fields)).map_err(io::Error::other)?;
            Ok(size)
        })
    }

    fn tunnel_for<'h>(&self, _: &'h RequestHead) -> Option<Cow<'h, [u8]>> {
        Some(Cow::Owned(self.protocol.as_ref()?.clone().into_bytes()))
    }
}

/// Fields that only concern an HTTP/1 connection (RFC 9113 section 8.2.2).
const OF_CONNECTIONS: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// Collects the fields of a head.
pub(super) struct Sink {
    pub(super) fields: HeaderMap,
    /// The size of the fields in bytes, without compression.
    pub(super) size: u64,
    /// The length of the body, if the head states it.
    length: Option<u64>,
}

impl Sink {
    pub(super) fn new(length: Option<u64>) -> Sink {
        Sink { fields: HeaderMap::with_capacity(12), size: 0, length }
    }

    /// `Err`: there are already too many.
    fn put(&mut self, name: HeaderName, value: HeaderValue) -> Result<(), BadField> {
        self.size += (name.as_str().len() + value.len()) as u64;
        self.fields.try_append(name, value).map(drop).map_err(|_| BadField)
    }
}

impl FieldSink for Sink {
    fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        if OF_CONNECTIONS.iter().any(|one| one.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| BadField)?;
        // Whitespace around a value is not part of it, and is forbidden here (RFC 9113 section 8.2.1).
        let value = HeaderValue::from_bytes(value.trim_ascii()).map_err(|_| BadField)?;
        self.put(name, value)
    }

    fn own_fields(&mut self) -> Result<(), BadField> {
        self.length.map_or(Ok(()), |length| self.put(http_types::header::CONTENT_LENGTH, length.into()))
    }
}

/// Why a body was not sent completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// The client reset the stream, or is gone.
    Reset,
    /// The client did not read in time (`Timeout`).
    Late,
    /// The source of the body failed.
    Failed,
}

/// A body that is being sent.
pub(super) struct Sending {
    stream: SendStream<Data>,
    timer: Timer,
    timeout: Duration,
    pace: Option<Pace>,
    /// The largest frame, in bytes (`H2MaxDataFrameLen`).
    largest: usize,
    /// The request's body, which the client may still be sending.
    body: RequestBody,
    queue: Arc<Queue>,
    /// Bytes sent so far.
    pub(super) sent: u64,
}

impl Sending {
    pub(super) fn new(
        stream: SendStream<Data>,
        timeout: Duration,
        limit: Option<RateLimit>,
        largest: usize,
        body: RequestBody,
        queue: Arc<Queue>,
    ) -> Sending {
        let pace = limit.map(|limit| Pace::new(limit.bytes_per_second, limit.burst as usize));
        Sending { stream, timer: Timer::default(), timeout, pace, largest, body, queue, sent: 0 }
    }

    /// Sends a body that is still being produced, and its end.
    pub(super) async fn pieces(&mut self, source: &mut dyn BodyStream, length: Option<u64>) -> Result<(), SendError> {
        writer::pump(&mut Pieces { sending: self, left: length }, source).await
    }

    /// Sends a part of a file. Its bytes are read when the client has room for them, and no more of them than that.
    pub(super) async fn file(&mut self, part: FilePart) -> Result<(), SendError> {
        let FilePart { file, mut offset, length: mut left } = part;
        let mut budget = CoopBudget::new();
        while left > 0 {
            budget.step().await;
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let wanted = poll_fn(|cx| self.poll_pace(cx)).await?.min(most);
            let deadline = Instant::now() + self.timeout;
            let room = poll_fn(|cx| self.poll_room(cx, wanted, deadline)).await?.min(wanted);
            let mut piece = vec![0; room];
            let read = match sys::file::read_at(&file, &mut piece, offset) {
                // The file was truncated: the promised length cannot be kept.
                Ok(0) | Err(_) => return Err(SendError::Failed),
                Ok(read) => read,
            };
            piece.truncate(read);
            offset += read as u64;
            left -= read as u64;
            if left == 0 {
                self.drain().await;
            }
            self.sent += read as u64;
            let data = Data::new(piece.into(), &self.queue);
            self.stream.send_data(data, left == 0).map_err(|_| SendError::Reset)?;
        }
        Ok(())
    }

    /// Sends a piece, as fast as the client reads it. `ends`: it is the last one.
    pub(super) async fn piece(&mut self, mut bytes: Bytes, ends: bool) -> Result<(), SendError> {
        if ends {
            self.drain().await;
        }
        let queue = self.queue.clone();
        let mut holding = Holding::of(&queue, bytes.len());
        while !bytes.is_empty() {
            let wanted = poll_fn(|cx| self.poll_pace(cx)).await?.min(bytes.len());
            let deadline = Instant::now() + self.timeout;
            let room = poll_fn(|cx| self.poll_room(cx, wanted, deadline)).await?;
            let part = bytes.split_to(room.min(wanted));
            self.sent += part.len() as u64;
            holding.less(part.len());
            let data = Data::new(part, &queue);
            self.stream.send_data(data, ends && bytes.is_empty()).map_err(|_| SendError::Reset)?;
        }
        Ok(())
    }

    /// Ends the stream after the response.
    pub(super) async fn end(&mut self) -> Result<(), SendError> {
        self.drain().await;
        self.stream.send_data(Data::default(), true).map_err(|_| SendError::Reset)
    }

    /// Lets the client finish sending its request before the response ends, if that does not take too long: many clients
    /// treat an earlier reset as an error, and some stop once they have the response. This is the lingering close of a
    /// stream.
    async fn drain(&mut self) {
        let deadline = Instant::now() + LINGER;
        let mut budget = CoopBudget::new();
        while !self.body.is_done() && Instant::now() < deadline {
            match self.timer.until(Instant::now() + SHORT_LINGER, self.body.read()).await {
                Some(Ok(_)) => budget.step().await,
                Some(Err(_)) | None => return,
            }
        }
    }

    /// How many bytes may be sent now in one frame.
    fn poll_pace(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, SendError>> {
        let Some(pace) = &mut self.pace else { return Poll::Ready(Ok(self.largest)) };
        match pace.poll(cx, self.sent) {
            Poll::Ready(most) => Poll::Ready(Ok(most.min(self.largest))),
            Poll::Pending => self.stream.poll_reset(cx).map(|_| Err(SendError::Reset)),
        }
    }

    /// How many bytes the client accepts now.
    fn poll_room(&mut self, cx: &mut Context<'_>, wanted: usize, deadline: Instant) -> Poll<Result<usize, SendError>> {
        match poll_room(&mut self.stream, &self.queue, cx, wanted) {
            Poll::Ready(room) => Poll::Ready(room.ok_or(SendError::Reset)),
            Poll::Pending => self.timer.poll_passed(cx, deadline).map(|()| Err(SendError::Late)),
        }
    }

    /// Aborts the response, so that the client does not take a part for the whole.
    pub(super) fn break_off(&mut self, reason: Reason) {
        self.stream.send_reset(reason);
    }
}

/// The pieces of a body on a stream.
struct Pieces<'s> {
    sending: &'s mut Sending,
    /// How much of the body is still to come, if its length is known.
    left: Option<u64>,
}

impl BodyWriter for Pieces<'_> {
    type Error = SendError;

    async fn ready(&mut self) -> Result<(), SendError> {
        if self.left.is_none_or(|left| left == 0) {
            return Ok(());
        }
        // A piece of a file that the client has no room for does not occupy memory yet.
        let deadline = Instant::now() + self.sending.timeout;
        poll_fn(|cx| self.sending.poll_room(cx, 1, deadline)).await.map(drop)
    }

    async fn next(&mut self, mut piece: Piece<'_>) -> Result<Option<io::Result<Bytes>>, SendError> {
        poll_fn(|cx| match piece.as_mut().poll(cx) {
            Poll::Ready(piece) => Poll::Ready(Ok(piece)),
            Poll::Pending => self.sending.stream.poll_reset(cx).map(|_| Err(SendError::Reset)),
        })
        .await
    }

    async fn piece(&mut self, bytes: Bytes) -> Result<(), SendError> {
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        self.sending.piece(bytes, self.left == Some(0)).await
    }

    async fn end(&mut self) -> Result<(), SendError> {
        // The last piece has ended the stream.
        if self.left == Some(0) && self.sending.sent > 0 { Ok(()) } else { self.sending.end().await }
    }

    fn source_failed(_: io::Error) -> SendError {
        SendError::Failed
    }
}

/// How many of the `wanted` bytes the client accepts now on a stream; `None`: it accepts no more at all.
pub(super) fn poll_room(
    stream: &mut SendStream<Data>,
    queue: &Queue,
    cx: &mut Context<'_>,
    wanted: usize,
) -> Poll<Option<usize>> {
    if queue.poll_room(cx).is_pending() {
        // The client may have reset the stream meanwhile.
        return stream.poll_reset(cx).map(|_| None);
    }
    stream.reserve_capacity(wanted);
    loop {
        match stream.capacity() {
            0 => match ready!(stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(None),
            },
            room => return Poll::Ready(Some(room)),
        }
    }
}

/// The bytes of a response that went to the client.
pub(crate) struct Transferred {
    /// The size of its fields, without compression.
    pub(crate) head: u64,
    pub(crate) body: u64,
    pub(crate) complete: bool,
}

/// The fields of a response. `Err`: one of them cannot be sent; send this error page instead.
pub(crate) fn fields(request: &mut Request, body: &Body) -> Result<Sink, Body> {
    let length = body.length().filter(|_| !http::status::is_bodyless(request.response.status()));
    let mut sink = Sink::new(length);
    if let Err(unsendable) = request.fields_out(&mut sink) {
        request.log("http", Level::Error, unsendable.line());
        return Err(error_document::unsendable(request));
    }
    let delimiter = length.map_or(Delimiter::Nothing, Delimiter::Length);
    request.account.sent.head = Some((delimiter, Persist { keep: true, announce: None }));
    request.account.sent.keepalive = true;
    Ok(sink)
}
