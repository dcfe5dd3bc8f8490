//! The body of a request, read as the handler asks for it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::request::fields::Fields;
use crate::request::response::{BodyStream, Piece};
use crate::transport::tick::Slices;

/// Why a body cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The client went away.
    Closed,
    /// It took too long.
    Timeout,
    /// It is longer than `LimitRequestBody`.
    TooLarge,
    /// Its framing is broken.
    Malformed,
    /// A filter can make nothing of it, and has said so in the log.
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
    /// What an error of a stream means that a body goes through. A filter for which a body becomes too large says so by the
    /// error's kind.
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
            BodyError::Unfiltered => "a filter can make nothing of the request body",
        })
    }
}

/// Where a protocol has the body of a request.
pub trait BodySource: Send {
    /// The next piece; `None` at the end. Lets a client go on that waits for that (`100 Continue`).
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>>;

    /// The number of bytes still to come, where the client said it.
    fn length(&self) -> Option<u64>;

    /// Whether everything was read.
    fn is_done(&self) -> bool;

    /// The fields behind the body, once its end was read.
    fn trailers(&self) -> Fields;
}

/// The body of a request. Clones are the same body.
#[derive(Clone, Default)]
pub struct RequestBody(Option<Arc<Mutex<State>>>);

struct State {
    source: Box<dyn BodySource>,
    /// `LimitRequestBody`; 0 is none.
    limit: u64,
    taken: u64,
    failed: Option<BodyError>,
    /// The body as the client sends it, where `source` is what filters make of that.
    unfiltered: Option<RequestBody>,
}

impl RequestBody {
    /// The body that a protocol has.
    pub fn new(source: Box<dyn BodySource>) -> RequestBody {
        RequestBody::with(source, None)
    }

    fn with(source: Box<dyn BodySource>, unfiltered: Option<RequestBody>) -> RequestBody {
        RequestBody(Some(Arc::new(Mutex::new(State { source, limit: 0, taken: 0, failed: None, unfiltered }))))
    }

    /// What a stream has, as the body of a request: of a length that nobody knows before its end.
    pub fn of(stream: Box<dyn BodyStream>) -> RequestBody {
        RequestBody::new(Box::new(Streamed { at: At::Between(stream), under: RequestBody::default() }))
    }

    /// What a stream makes of this body. When the stream has ended, what it has left of the body is read too.
    pub(crate) fn filtered(&self, stream: Box<dyn BodyStream>) -> RequestBody {
        let source = Streamed { at: At::Between(stream), under: self.clone() };
        RequestBody::with(Box::new(source), Some(self.clone()))
    }

    /// The body as the client sends it, in front of all filters.
    pub(crate) fn unfiltered(&self) -> RequestBody {
        self.lock().and_then(|state| state.unfiltered.clone()).unwrap_or_else(|| self.clone())
    }

    /// The body as a stream: for filters, and for answers that are made of it.
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

    /// The number of bytes still to come, where the client said it.
    pub fn length(&self) -> Option<u64> {
        self.lock().map_or(Some(0), |state| state.source.length())
    }

    /// Sets `LimitRequestBody` (0: no limit). `Err`: the client has announced more than that.
    pub fn set_limit(&self, limit: u64) -> Result<(), BodyError> {
        let Some(mut state) = self.lock() else { return Ok(()) };
        state.limit = limit;
        if limit != 0 && state.source.length().is_some_and(|length| length > limit) {
            state.failed = Some(BodyError::TooLarge);
            return Err(BodyError::TooLarge);
        }
        Ok(())
    }

    /// Nobody will read it, however small it is: the answer does not wait for it.
    pub(crate) fn refuse(&self) {
        if let Some(mut state) = self.lock() {
            state.failed = Some(BodyError::TooLarge);
        }
    }

    /// The next piece; `None` at the end. Asks the client to go on if it waits for that.
    pub async fn read(&self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// As [`RequestBody::read`].
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

    /// Everything, if it is not more than `max` bytes.
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

    /// Whether something else goes on reading it: a script that answers before it has read all.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|state| Arc::strong_count(state) > 1)
    }

    /// Whether everything was read.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().is_none_or(|state| state.source.is_done())
    }

    /// The fields behind it, once its end was read.
    pub fn trailers(&self) -> Fields {
        self.lock().map_or_else(Fields::default, |state| state.source.trailers())
    }
}

/// What is kept of a body for requests on behalf of its own (mod_request). Clones are the same.
#[derive(Clone, Default)]
pub struct KeptBody(Arc<Mutex<Option<Vec<u8>>>>);

impl KeptBody {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a piece. Returns how much is kept then, in bytes.
    pub fn keep(&self, piece: &[u8]) -> usize {
        let mut kept = self.lock();
        let all = kept.get_or_insert_default();
        all.extend_from_slice(piece);
        all.len()
    }

    /// Keeps nothing any more.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    /// What is kept; `None`: nobody has read the body.
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
    /// What the stream reads, if that is the body of a request.
    under: RequestBody,
}

/// Where it is.
enum At {
    Between(Box<dyn BodyStream>),
    /// A piece is waited for: what asks for it may ask again and again, which a filter need not know.
    Waiting(Fetch),
    Ended,
}

type Fetched = (Box<dyn BodyStream>, Option<io::Result<Bytes>>);
type Fetch = Pin<Box<dyn Future<Output = Fetched> + Send>>;

/// The next piece of a stream; at its end, what it has left of the body under it is read, because it stands in front of the
/// next request.
async fn fetch(mut stream: Box<dyn BodyStream>, under: RequestBody) -> Fetched {
    let mut slices = Slices::new();
    loop {
        slices.step().await;
        match stream.next().await {
            Some(Ok(piece)) if piece.is_empty() => {}
            None => break,
            piece => return (stream, piece),
        }
    }
    loop {
        slices.step().await;
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

    /// As far as the client is concerned.
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
