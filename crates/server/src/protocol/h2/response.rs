//! The response on its stream: head, interim responses, body, and waiting for the client.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use conf::Level;
use http::h1::response::BadField;
use http::h2::{HeadWriter, Reason};
use runtime::CoopBudget;
use runtime::executor::Timer;
use sys::time::Instant;

use super::open_stream::{Ended, OpenStream};
use super::wire::Holding;
use crate::message::body::RequestBody;
use crate::message::fields::Fields;
use crate::message::response::{Body, BodyStream, FilePart, Piece};
use crate::message::sent::{Delimiter, Persist};
use crate::phases::error_document;
use crate::protocol::linger::{LINGER, SHORT_LINGER};
use crate::protocol::pace::Pace;
use crate::protocol::writer::{self, BodyWriter};
use crate::request::fields_out::FieldSink;
use crate::request::{RateLimit, Request};

/// Writes the fields of a head.
struct Sink<'w, 'c> {
    writer: &'w mut HeadWriter<'c>,
    /// The length of the body, if the head states it.
    length: Option<u64>,
}

impl FieldSink for Sink<'_, '_> {
    fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        self.writer.field(name, value)
    }

    fn own_fields(&mut self) -> Result<(), BadField> {
        let Some(length) = self.length else { return Ok(()) };
        self.writer.field("content-length", length.to_string().as_bytes())
    }
}

/// A response whose head is sent.
pub(super) struct Begun {
    /// The size of its fields in bytes, without compression.
    pub(super) size: u64,
    /// There is no body: the head is the whole response.
    pub(super) ends: bool,
}

/// Begins the response with its head. `Ok(None)`: the stream has ended early. `Err`: one of the fields cannot be sent; send
/// this error page instead.
pub(super) fn begin(request: &mut Request, stream: &OpenStream, body: &Body) -> Result<Option<Begun>, Body> {
    let status = request.response.status();
    let is_bodyless = http::status::is_bodyless(status);
    let length = body.length().filter(|_| !is_bodyless);
    let has_none = is_bodyless || request.data.header_only || length == Some(0);
    // A client of gRPC takes the fields of such a head for the result only if nothing follows.
    let ends = has_none && (request.body.is_done() || request.response.is_passed_on);
    match stream.head(status, ends, |writer| request.fields_out(&mut Sink { writer, length })) {
        Ok(size) => {
            let delimiter = length.map_or(Delimiter::Nothing, Delimiter::Length);
            request.account.sent.head = Some((delimiter, Persist { keep: true, announce: None }));
            request.account.sent.keepalive = true;
            Ok(size.map(|size| Begun { size, ends }))
        }
        Err(unsendable) => {
            request.log("http", Level::Error, unsendable.line());
            Err(error_document::unsendable(request))
        }
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

impl From<Ended> for SendError {
    fn from(_: Ended) -> SendError {
        SendError::Reset
    }
}

/// A body that is being sent.
pub(super) struct Sending {
    stream: Arc<OpenStream>,
    timer: Timer,
    timeout: Duration,
    pace: Option<Pace>,
    /// The largest frame, in bytes (`H2MaxDataFrameLen`).
    largest: usize,
    /// The request's body, which the client may still be sending.
    body: RequestBody,
    /// Until when the client has to accept more.
    deadline: Instant,
    /// How much had been sent over the connection when the deadline was last put off.
    moved: u64,
    /// Bytes sent so far.
    pub(super) sent: u64,
}

impl Sending {
    pub(super) fn new(
        stream: Arc<OpenStream>,
        timeout: Duration,
        limit: Option<RateLimit>,
        largest: usize,
        body: RequestBody,
    ) -> Sending {
        let pace = limit.map(|limit| Pace::new(limit.bytes_per_second, limit.burst as usize));
        Sending {
            stream,
            timer: Timer::default(),
            timeout,
            pace,
            largest,
            body,
            deadline: Instant::now(),
            moved: 0,
            sent: 0,
        }
    }

    /// Sends a body that is still being produced, and its end.
    pub(super) async fn pieces(&mut self, source: &mut dyn BodyStream, length: Option<u64>) -> Result<(), SendError> {
        // The last piece does not end the stream if fields may follow.
        let left = length.filter(|_| source.trailers().is_none());
        writer::pump(&mut Pieces { sending: self, left }, source).await
    }

    /// Sends a part of a file. Its bytes are read when the client has room for them, and no more of them than that.
    pub(super) async fn file(&mut self, part: FilePart) -> Result<(), SendError> {
        let FilePart { file, mut offset, length: mut left } = part;
        let mut budget = CoopBudget::new();
        while left > 0 {
            budget.step().await;
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let wanted = poll_fn(|cx| self.poll_pace(cx)).await?.min(most);
            self.begin_wait();
            if left <= wanted as u64 {
                self.drain().await;
            }
            let room = poll_fn(|cx| self.poll_room(cx, wanted)).await?;
            let read = match self.stream.data_of(&file, offset, room, left) {
                // The file was truncated: the promised length cannot be kept.
                Ok(0) | Err(_) => return Err(SendError::Failed),
                Ok(read) => read,
            };
            offset += read as u64;
            left -= read as u64;
            self.sent += read as u64;
        }
        Ok(())
    }

    /// Sends a piece, as fast as the client reads it. `ends`: it is the last one.
    pub(super) async fn piece(&mut self, mut bytes: Bytes, ends: bool) -> Result<(), SendError> {
        if ends {
            self.drain().await;
        }
        let stream = self.stream.clone();
        let mut holding = Holding::of(&stream.wire, bytes.len());
        while !bytes.is_empty() {
            let wanted = poll_fn(|cx| self.poll_pace(cx)).await?.min(bytes.len());
            self.begin_wait();
            let room = poll_fn(|cx| self.poll_room(cx, wanted)).await?;
            let part = bytes.split_to(room);
            self.sent += part.len() as u64;
            holding.less(part.len());
            self.stream.data(&part, ends && bytes.is_empty())?;
        }
        Ok(())
    }

    /// Ends the stream with the fields after the response's body.
    async fn trailers(&mut self, fields: &Fields) -> Result<(), SendError> {
        if self.stream.trailers(fields).is_err() {
            return self.end().await;
        }
        // They may tell a client, such as one of gRPC, to stop sending.
        self.drain().await;
        Ok(())
    }

    /// Ends the stream after the response.
    pub(super) async fn end(&mut self) -> Result<(), SendError> {
        self.drain().await;
        Ok(self.stream.data(&[], true)?)
    }

    /// Lets the client finish sending its request before the response ends, if that does not take too long: many clients
    /// treat an earlier reset as an error, and some stop once they have the response. This is the lingering close of a
    /// stream.
    pub(super) async fn drain(&mut self) {
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
            Poll::Pending => self.stream.poll_gone(cx).map(|()| Err(SendError::Reset)),
        }
    }

    /// Begins to wait for the client.
    fn begin_wait(&mut self) {
        self.deadline = Instant::now() + self.timeout;
    }

    /// How many bytes the client accepts now. The time of a stream that waits for its turn only runs while nothing at all goes
    /// out.
    fn poll_room(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<usize, SendError>> {
        loop {
            if let Poll::Ready(room) = self.stream.poll_room(cx, wanted) {
                return Poll::Ready(room.ok_or(SendError::Reset));
            }
            ready!(self.timer.poll_passed(cx, self.deadline));
            let Some(sent) = self.stream.progress(self.moved) else { return Poll::Ready(Err(SendError::Late)) };
            self.moved = sent;
            self.begin_wait();
        }
    }

    /// Aborts the response, so that the client does not take a part for the whole.
    pub(super) fn break_off(&mut self, reason: Reason) {
        self.stream.reset(reason);
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
        self.sending.begin_wait();
        poll_fn(|cx| self.sending.poll_room(cx, 1)).await.map(drop)
    }

    async fn next(&mut self, mut piece: Piece<'_>) -> Result<Option<io::Result<Bytes>>, SendError> {
        poll_fn(|cx| match piece.as_mut().poll(cx) {
            Poll::Ready(piece) => Poll::Ready(Ok(piece)),
            Poll::Pending => self.sending.stream.poll_gone(cx).map(|()| Err(SendError::Reset)),
        })
        .await
    }

    async fn piece(&mut self, bytes: Bytes) -> Result<(), SendError> {
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        self.sending.piece(bytes, self.left == Some(0)).await
    }

    async fn end(&mut self, trailers: Option<Fields>) -> Result<(), SendError> {
        if let Some(fields) = trailers {
            return self.sending.trailers(&fields).await;
        }
        // The last piece has ended the stream.
        if self.left == Some(0) && self.sending.sent > 0 { Ok(()) } else { self.sending.end().await }
    }

    fn source_failed(_: io::Error) -> SendError {
        SendError::Failed
    }
}

/// The bytes of a response that went to the client.
pub(crate) struct Transferred {
    /// The size of its fields, without compression.
    pub(crate) head: u64,
    pub(crate) body: u64,
    pub(crate) complete: bool,
}
