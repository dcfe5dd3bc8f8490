//! The body of a request, read on the handler's demand.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::message::fields::Fields;
use crate::message::response::{BodyStream, Piece};
use runtime::CoopBudget;

/// Why the rest of a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The client went away.
    Closed,
    /// Took too long.
    Timeout,
    /// Longer than `LimitRequestBody`.
    TooLarge,
    /// Its framing is broken.
    Malformed,
    /// A filter cannot use it, and has logged why.
    Unfiltered,
}

impl BodyError {
    /// The status for it.
    pub fn status(self) -> u16 {
        match self {
            BodyError::Closed | BodyError::Malformed | BodyError::Unfiltered => 400,
            BodyError::Timeout => 408,
            BodyError::TooLarge => 413,
        }
    }
}

impl BodyError {
    /// Translates an error of a stream that a body goes through. A filter for which a body becomes too large reports
    /// that by the error's kind.
    fn of(error: &io::Error) -> BodyError {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<BodyError>()) {
            Some(inner) => *inner,
            None if error.kind() == io::ErrorKind::FileTooLarge => BodyError::TooLarge,
            None => BodyError::Unfiltered,
        }
    }
}

impl From<BodyError> for io::Error {
    fn from(error: BodyError) -> io::Error {
        let kind = match error {
            BodyError::Closed => io::ErrorKind::ConnectionAborted,
            BodyError::Timeout => io::ErrorKind::TimedOut,
            BodyError::TooLarge | BodyError::Malformed | BodyError::Unfiltered => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl std::error::Error for BodyError {}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::Closed => "connection aborted",
            BodyError::Timeout => "timed out",
            BodyError::TooLarge => "the request body is larger than LimitRequestBody",
            BodyError::Malformed => "the framing of the request body is broken",
            BodyError::Unfiltered => "a filter cannot process the request body",
        })
    }
}

/// A protocol's source of a request's body.
pub trait BodySource: Send {
    /// The next piece; `None` at the end. Sends `100 Continue` to a client that waits for it.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;

    /// The number of bytes still to come, if the client announced it.
    fn length(&self) -> Option<u64>;

    /// Whether everything has been read.
    fn is_done(&self) -> bool;

    /// The fields after the body, once its end was read.
    fn trailers(&self) -> Fields;
}

/// The body of a request. Clones share it.
#[derive(Clone, Default)]
pub struct RequestBody(Option<Arc<Mutex<State>>>);

struct State {
    source: Box<dyn BodySource>,
    /// `LimitRequestBody`; 0 is none.
    limit: u64,
    taken: u64,
    failed: Option<BodyError>,
    /// The client's body, if `source` is its filtered form.
    unfiltered: Option<RequestBody>,
}

impl RequestBody {
    /// The body from a protocol.
    pub fn new(source: Box<dyn BodySource>) -> RequestBody {
        RequestBody::with(source, None)
    }

    fn with(source: Box<dyn BodySource>, unfiltered: Option<RequestBody>) -> RequestBody {
        RequestBody(Some(Arc::new(Mutex::new(State { source, limit: 0, taken: 0, failed: None, unfiltered }))))
    }

    /// The content of a stream, as the body of a request: its length is unknown before its end.
    pub fn of(stream: Box<dyn BodyStream>) -> RequestBody {
        RequestBody::new(Box::new(Streamed { at: At::Between(stream), under: RequestBody::default() }))
    }

    /// This body after a stream has processed it. When the stream has ended, the rest of the body that it left is read
    /// too.
    pub(crate) fn filtered(&self, stream: Box<dyn BodyStream>) -> RequestBody {
        let source = Streamed { at: At::Between(stream), under: self.clone() };
        RequestBody::with(Box::new(source), Some(self.clone()))
    }

    /// The client's body, before all filters.
    pub(crate) fn unfiltered(&self) -> RequestBody {
        self.lock().and_then(|state| state.unfiltered.clone()).unwrap_or_else(|| self.clone())
    }

    /// This body with the pieces in front that were read from it already. `is_all`: nothing comes after them.
    pub fn after(&self, read: Vec<Bytes>, is_all: bool) -> RequestBody {
        let source = PutBack { read: read.into(), rest: self.clone(), is_all };
        RequestBody::with(Box::new(source), Some(self.unfiltered()))
    }

    /// The body as a stream: for filters, and for responses made from it.
    pub fn stream(&self) -> Box<dyn BodyStream> {
        Box::new(Read { body: self.clone(), length: self.length() })
    }

    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the request has no body.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The number of bytes still to come, if the client announced it.
    pub fn length(&self) -> Option<u64> {
        self.lock().map_or(Some(0), |state| state.source.length())
    }

    /// Sets `LimitRequestBody` (0: no limit). `Err`: the client has announced more.
    pub fn set_limit(&self, limit: u64) -> Result<(), BodyError> {
        let Some(mut state) = self.lock() else { return Ok(()) };
        state.limit = limit;
        if limit != 0 && state.source.length().is_some_and(|length| length > limit) {
            state.failed = Some(BodyError::TooLarge);
            return Err(BodyError::TooLarge);
        }
        Ok(())
    }

    /// Declares that nobody will read it, however small it is: the response does not wait for it.
    pub(crate) fn refuse(&self) {
        if let Some(mut state) = self.lock() {
            state.failed = Some(BodyError::TooLarge);
        }
    }

    /// The next piece; `None` at the end. Invites a client that waits for that to continue.
    pub async fn read(&self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// Like [`RequestBody::read`].
    pub fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let Some(mut state) = self.lock() else { return Poll::Ready(Ok(None)) };
        if let Some(error) = state.failed {
            return Poll::Ready(Err(error));
        }
        let mut piece = ready!(state.source.poll_piece(cx));
        if let Ok(Some(bytes)) = &piece {
            state.taken += bytes.len() as u64;
            if state.limit != 0 && state.taken > state.limit {
                piece = Err(BodyError::TooLarge);
            }
        }
        state.failed = piece.as_ref().err().copied();
        Poll::Ready(piece)
    }

    /// The whole body, if it has at most `max` bytes.
    pub async fn collect(&self, max: usize) -> Result<Vec<u8>, BodyError> {
        let mut all = Vec::new();
        while let Some(piece) = self.read().await? {
            if all.len() + piece.len() > max {
                return Err(BodyError::TooLarge);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    /// Whether something else continues to read it: a script that answers before it has read everything.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|state| Arc::strong_count(state) > 1)
    }

    /// Whether everything has been read.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().is_none_or(|state| state.source.is_done())
    }

    /// The fields after it, once its end was read.
    pub fn trailers(&self) -> Fields {
        self.lock().map_or_else(Fields::default, |state| state.source.trailers())
    }
}

/// A body, a part of which was read and put back.
struct PutBack {
    read: VecDeque<Bytes>,
    rest: RequestBody,
    is_all: bool,
}

impl BodySource for PutBack {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        match self.read.pop_front() {
            Some(piece) => Poll::Ready(Ok(Some(piece))),
            None if self.is_all => Poll::Ready(Ok(None)),
            None => self.rest.poll_read(cx),
        }
    }

    fn length(&self) -> Option<u64> {
        self.is_all.then(|| self.read.iter().map(|piece| piece.len() as u64).sum())
    }

    fn is_done(&self) -> bool {
        self.read.is_empty() && (self.is_all || self.rest.is_done())
    }

    fn trailers(&self) -> Fields {
        self.rest.trailers()
    }
}

/// The stored body, for requests on behalf of this one (mod_request). Clones share it.
#[derive(Clone, Default)]
pub struct KeptBody(Arc<Mutex<Option<Vec<u8>>>>);

impl KeptBody {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a piece. Returns the stored length, in bytes.
    pub fn keep(&self, piece: &[u8]) -> usize {
        let mut kept = self.lock();
        let all = kept.get_or_insert_default();
        all.extend_from_slice(piece);
        all.len()
    }

    /// Stores no more.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    /// The stored body; `None`: nobody has read the body.
    pub fn bytes(&self) -> Option<Bytes> {
        self.lock().as_deref().map(Bytes::copy_from_slice)
    }
}

/// A body, as a stream.
struct Read {
    body: RequestBody,
    length: Option<u64>,
}

impl BodyStream for Read {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move { self.body.read().await.map_err(Into::into).transpose() })
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

/// A stream, as a body.
struct Streamed {
    at: At,
    /// The input of the stream, if that is the body of a request.
    under: RequestBody,
}

/// The state of a stream.
enum At {
    Between(Box<dyn BodyStream>),
    /// Waits for a piece: the reader may ask again and again, which a filter need not know.
    Waiting(Fetch),
    Ended,
}

type Fetched = (Box<dyn BodyStream>, Option<io::Result<Bytes>>);
type Fetch = Pin<Box<dyn Future<Output = Fetched> + Send>>;

/// The next piece of a stream; at its end, reads the rest of the body under it, because the next request comes after
/// that.
async fn fetch(mut stream: Box<dyn BodyStream>, under: RequestBody) -> Fetched {
    let mut budget = CoopBudget::new();
    loop {
        budget.step().await;
        match stream.next().await {
            Some(Ok(piece)) if piece.is_empty() => {}
            None => break,
            piece => return (stream, piece),
        }
    }
    loop {
        budget.step().await;
        match under.read().await {
            Ok(Some(_)) => {}
            Ok(None) => return (stream, None),
            Err(error) => return (stream, Some(Err(error.into()))),
        }
    }
}

impl BodySource for Streamed {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let mut fetching = match std::mem::replace(&mut self.at, At::Ended) {
            At::Between(stream) => Box::pin(fetch(stream, self.under.clone())),
            At::Waiting(fetching) => fetching,
            At::Ended => return Poll::Ready(Ok(None)),
        };
        match fetching.as_mut().poll(cx) {
            Poll::Pending => {
                self.at = At::Waiting(fetching);
                Poll::Pending
            }
            Poll::Ready((_, None)) => Poll::Ready(Ok(None)),
            Poll::Ready((_, Some(Err(error)))) => Poll::Ready(Err(BodyError::of(&error))),
            Poll::Ready((stream, Some(Ok(piece)))) => {
                self.at = At::Between(stream);
                Poll::Ready(Ok(Some(piece)))
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }

    /// From the client's point of view.
    fn is_done(&self) -> bool {
        match self.under.is_none() {
            true => matches!(self.at, At::Ended),
            false => self.under.is_done(),
        }
    }

    fn trailers(&self) -> Fields {
        self.under.trailers()
    }
}
