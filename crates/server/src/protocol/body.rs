//! The body of a request, read as the handler asks for it.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http1::chunked::{Chunked, Step};
use http1::framing::Framing;

use crate::request::Client;
use crate::request::fields::Fields;
use crate::transport::timer::Timer;

/// How long a head or a body may take (`RequestReadTimeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTimeout {
    /// From the beginning on.
    pub first: Duration,
    /// However much arrives; `None`: without end.
    pub most: Option<Duration>,
    /// Bytes a second that earn more time; 0: none do.
    pub rate: u32,
}

impl ReadTimeout {
    /// When reading must be over, `received` bytes after `start`.
    pub fn deadline(&self, start: Instant, received: u64) -> Instant {
        let earned = match self.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs(received / u64::from(rate)),
        };
        let allowed = self.first + earned;
        start + self.most.map_or(allowed, |most| allowed.min(most))
    }
}

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

/// The body of a request. Clones are the same body.
#[derive(Clone, Debug, Default)]
pub struct RequestBody(Option<Arc<Mutex<Inner>>>);

/// How bodies of a connection are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyRules {
    /// `Timeout`: between two pieces.
    pub(crate) timeout: Duration,
    /// `RequestReadTimeout body=`
    pub(crate) read_timeout: Option<ReadTimeout>,
    pub(crate) limits: http1::Limits,
}

#[derive(Debug)]
struct Inner {
    client: Arc<Client>,
    timer: Timer,
    rules: BodyRules,
    framing: Remaining,
    /// Received but not decoded; behind the body's end, the beginning of the next request.
    raw: Vec<u8>,
    used: usize,
    /// `Expect: 100-continue` was not answered yet.
    expects: bool,
    /// `LimitRequestBody`; 0 is none.
    limit: u64,
    received: u64,
    decoded: u64,
    started: Instant,
    /// Since when the client owes us the next piece.
    waiting: Option<Instant>,
    failed: Option<BodyError>,
}

#[derive(Debug)]
enum Remaining {
    Length(u64),
    Chunked(Box<Chunked>),
    Done,
}

/// How much is received at once, in bytes.
const PIECE: usize = 16 * 1024;

impl RequestBody {
    /// The body that follows a head; `raw` is what was received behind the head.
    pub(crate) fn new(client: Arc<Client>, framing: Framing, raw: Vec<u8>, expects: bool, rules: BodyRules) -> Self {
        let framing = match framing {
            Framing::None | Framing::Length(0) => return RequestBody(None),
            Framing::Length(length) => Remaining::Length(length),
            Framing::Chunked => Remaining::Chunked(Box::new(Chunked::new(&rules.limits))),
        };
        let inner = Inner {
            client,
            timer: Timer::default(),
            rules,
            framing,
            expects: expects && raw.is_empty(),
            raw,
            used: 0,
            limit: 0,
            received: 0,
            decoded: 0,
            started: Instant::now(),
            waiting: None,
            failed: None,
        };
        RequestBody(Some(Arc::new(Mutex::new(inner))))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Inner>> {
        Some(self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the request has no body.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The number of bytes still to come, where the client said it.
    pub fn length(&self) -> Option<u64> {
        match self.lock() {
            None => Some(0),
            Some(inner) => match inner.framing {
                Remaining::Length(length) => Some(length),
                Remaining::Chunked(_) => None,
                Remaining::Done => Some(0),
            },
        }
    }

    /// Sets `LimitRequestBody` (0: no limit). `Err`: the client has announced more than that.
    pub fn set_limit(&self, limit: u64) -> Result<(), BodyError> {
        let Some(mut inner) = self.lock() else { return Ok(()) };
        inner.limit = limit;
        match inner.framing {
            Remaining::Length(length) if limit != 0 && length > limit => {
                inner.failed = Some(BodyError::TooLarge);
                Err(BodyError::TooLarge)
            }
            _ => Ok(()),
        }
    }

    /// Nobody will read it, however small it is: the answer does not wait for it.
    pub(crate) fn refuse(&self) {
        if let Some(mut inner) = self.lock() {
            inner.failed = Some(BodyError::TooLarge);
        }
    }

    /// The next piece; `None` at the end. Asks the client to go on if it waits for that.
    pub async fn read(&self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// As [`RequestBody::read`].
    pub fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let Some(mut inner) = self.lock() else { return Poll::Ready(Ok(None)) };
        if let Some(error) = inner.failed {
            return Poll::Ready(Err(error));
        }
        let result = ready!(inner.poll_piece(cx));
        if let Err(error) = result {
            inner.failed = Some(error);
        }
        Poll::Ready(result)
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

    /// Whether the client still waits for `100 Continue`.
    pub(crate) fn expects(&self) -> bool {
        self.lock().is_some_and(|inner| inner.expects)
    }

    /// Whether somebody else goes on reading it: a script that answers before it has read all.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| Arc::strong_count(inner) > 1)
    }

    /// Whether everything was read.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().is_none_or(|inner| inner.is_complete())
    }

    /// What was received behind the end of the body; `None` if there was no body.
    pub(crate) fn take_rest(&self) -> Option<Vec<u8>> {
        let mut inner = self.lock()?;
        let used = std::mem::take(&mut inner.used);
        let mut raw = std::mem::take(&mut inner.raw);
        raw.drain(..used);
        Some(raw)
    }

    /// Bytes received for this body so far, and its trailers.
    pub(crate) fn received(&self) -> (u64, Fields) {
        let mut trailers = Fields::default();
        let Some(inner) = self.lock() else { return (0, trailers) };
        if let Remaining::Chunked(chunked) = &inner.framing {
            for (name, value) in chunked.trailers() {
                let text = |bytes: &[u8]| http1::text::from_bytes(bytes).into_owned();
                trailers.add(text(name), text(value));
            }
        }
        (inner.received, trailers)
    }
}

impl Inner {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            if let Some(piece) = self.decode()? {
                return Poll::Ready(Ok(Some(piece)));
            }
            if self.is_complete() {
                return Poll::Ready(Ok(None));
            }
            if self.expects {
                self.expects = false;
                const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
                // Nothing was sent on this connection for a while, so these few bytes always fit.
                let sent = ready!(self.client.stream.poll_send(cx, CONTINUE, false));
                if sent.is_err() {
                    return Poll::Ready(Err(BodyError::Closed));
                }
            }
            let mut deadline = *self.waiting.get_or_insert_with(Instant::now) + self.rules.timeout;
            if let Some(limit) = self.rules.read_timeout {
                deadline = deadline.min(limit.deadline(self.started, self.received));
            }
            if self.used == self.raw.len() {
                self.raw.clear();
                self.used = 0;
            }
            match self.client.stream.poll_read(cx, &mut self.raw, PIECE) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(Err(BodyError::Closed)),
                Poll::Ready(Ok(read)) => {
                    self.received += read as u64;
                    self.waiting = None;
                }
                Poll::Pending => {
                    ready!(self.timer.poll_passed(cx, deadline));
                    return Poll::Ready(Err(BodyError::Timeout));
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self.framing, Remaining::Done) || matches!(&self.framing, Remaining::Chunked(c) if c.is_end())
    }

    /// Takes a piece of the body out of what was received.
    fn decode(&mut self) -> Result<Option<Bytes>, BodyError> {
        let raw = &self.raw[self.used..];
        match &mut self.framing {
            Remaining::Done => Ok(None),
            Remaining::Length(left) => {
                let take = raw.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                let piece = Bytes::copy_from_slice(&raw[..take]);
                self.used += take;
                *left -= take as u64;
                if *left == 0 {
                    self.framing = Remaining::Done;
                }
                Ok((take > 0).then_some(piece))
            }
            Remaining::Chunked(chunked) => {
                if chunked.is_end() || raw.is_empty() {
                    return Ok(None);
                }
                match chunked.decode(raw).map_err(|_| BodyError::Malformed)? {
                    Step::More => {
                        self.used = self.raw.len();
                        Ok(None)
                    }
                    Step::End(used) => {
                        self.used += used;
                        Ok(None)
                    }
                    Step::Data(range) => {
                        let piece = Bytes::copy_from_slice(&raw[range.clone()]);
                        self.used += range.end;
                        self.decoded += piece.len() as u64;
                        if self.limit != 0 && self.decoded > self.limit {
                            return Err(BodyError::TooLarge);
                        }
                        Ok(Some(piece))
                    }
                }
            }
        }
    }
}
