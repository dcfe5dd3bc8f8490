//! The body of a request, read as the handler asks for it.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::request::fields::Fields;

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
}

impl BodyError {
    /// The status for it.
    pub fn status(self) -> u16 {
        match self {
            BodyError::Closed | BodyError::Malformed => 400,
            BodyError::Timeout => 408,
            BodyError::TooLarge => 413,
        }
    }
}

impl From<BodyError> for io::Error {
    fn from(error: BodyError) -> io::Error {
        match error {
            BodyError::Closed => io::ErrorKind::ConnectionAborted.into(),
            BodyError::Timeout => io::ErrorKind::TimedOut.into(),
            BodyError::TooLarge => io::Error::other("the request body is larger than LimitRequestBody"),
            BodyError::Malformed => io::Error::other("the framing of the request body is broken"),
        }
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
}

impl RequestBody {
    /// The body that a protocol has.
    pub fn new(source: Box<dyn BodySource>) -> RequestBody {
        RequestBody(Some(Arc::new(Mutex::new(State { source, limit: 0, taken: 0, failed: None }))))
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
