//! The body of an HTTP/1.1 request: delimited by its length or by chunks (RFC 9112 sections 6 and 7).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::h1::chunked::{Chunked, Step};
use http::h1::framing::Framing;

use crate::message::body::{BodyError, BodySource, RequestBody};
use crate::message::fields::Fields;
use crate::protocol::body_deadline::BodyDeadline;
use crate::settings::read_timeout::BodyRules;
use crate::transport::endpoint::Transport;
use crate::transport::park_state::{Evicted, HeldMemory, WaitingFor};

/// The connection's view of the body being read.
pub(super) struct Incoming(Arc<Mutex<Inner>>);

/// The request's source of the body.
struct Source(Arc<Mutex<Inner>>);

struct Inner {
    transport: Arc<dyn Transport>,
    body_deadline: BodyDeadline,
    framing: Remaining,
    /// Received but not decoded; after the body's end, the beginning of the next request.
    raw: Vec<u8>,
    used: usize,
    /// `Expect: 100-continue` has not been answered yet.
    expects: bool,
    /// The size of the head, which is kept as long as the body comes, in bytes.
    beside: usize,
}

#[derive(Debug)]
enum Remaining {
    Length(u64),
    Chunked(Box<Chunked>),
    Done,
}

/// The size of a read, in bytes.
const PIECE: usize = 16 * 1024;

/// The body after a head of `beside` bytes; `raw` are the bytes received after the head. `None`: there is no body.
pub(super) fn incoming(
    transport: &Arc<dyn Transport>,
    framing: Framing,
    raw: Vec<u8>,
    expects: bool,
    rules: BodyRules,
    beside: u64,
) -> Option<(Incoming, RequestBody)> {
    let framing = match framing {
        Framing::None | Framing::Length(0) => return None,
        Framing::Length(length) => Remaining::Length(length),
        Framing::Chunked => Remaining::Chunked(Box::new(Chunked::new(&rules.limits))),
    };
    let inner = Arc::new(Mutex::new(Inner {
        transport: transport.clone(),
        body_deadline: BodyDeadline::new(rules),
        framing,
        expects: expects && raw.is_empty(),
        raw,
        used: 0,
        beside: usize::try_from(beside).unwrap_or(usize::MAX),
    }));
    Some((Incoming(inner.clone()), RequestBody::new(Box::new(Source(inner)))))
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Incoming {
    /// Called when the response begins: from here on `100 Continue` would appear inside it. Returns whether the client
    /// still waits for that.
    pub(super) fn withdraw(&self) -> bool {
        std::mem::take(&mut lock(&self.0).expects)
    }

    /// Bytes received for it so far, without those that came with the head.
    pub(super) fn received(&self) -> u64 {
        lock(&self.0).body_deadline.received()
    }

    /// The bytes received after its end.
    pub(super) fn take_rest(&self) -> Vec<u8> {
        let mut inner = lock(&self.0);
        let used = std::mem::take(&mut inner.used);
        let mut raw = std::mem::take(&mut inner.raw);
        raw.drain(..used);
        raw
    }
}

impl BodySource for Source {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        lock(&self.0).poll_piece(cx)
    }

    fn length(&self) -> Option<u64> {
        match lock(&self.0).framing {
            Remaining::Length(length) => Some(length),
            Remaining::Chunked(_) => None,
            Remaining::Done => Some(0),
        }
    }

    fn is_done(&self) -> bool {
        lock(&self.0).is_complete()
    }

    fn trailers(&self) -> Fields {
        let mut trailers = Fields::default();
        if let Remaining::Chunked(chunked) = &lock(&self.0).framing {
            for (name, value) in chunked.trailers() {
                let text = |bytes: &[u8]| http::text::from_bytes(bytes).into_owned();
                trailers.add(text(name), text(value));
            }
        }
        trailers
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
                const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
                let sent = ready!(self.transport.poll_say(cx, CONTINUE));
                self.expects = false;
                if !matches!(sent, Ok(length) if length == CONTINUE.len()) {
                    // A socket takes so few bytes as a whole. After only a part of them nothing else can be sent.
                    let _ = self.transport.shutdown();
                    return Poll::Ready(Err(BodyError::Closed));
                }
            }
            let deadline = self.body_deadline.deadline();
            if self.used == self.raw.len() {
                self.raw.clear();
                self.used = 0;
            }
            match self.transport.poll_read(cx, &mut self.raw, PIECE) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(Err(BodyError::Closed)),
                Poll::Ready(Ok(read)) => {
                    self.transport.park_state().go_on();
                    self.body_deadline.note(read);
                }
                Poll::Pending => {
                    let park_state = self.transport.park_state();
                    park_state.wait(WaitingFor::Body, self.body_deadline.since());
                    let failed = match park_state.poll_evicted(cx) {
                        Poll::Ready(Evicted::Memory) => BodyError::TooLarge,
                        Poll::Ready(Evicted::Place) => BodyError::Timeout,
                        Poll::Pending => {
                            ready!(self.body_deadline.poll_over(cx, deadline));
                            BodyError::Timeout
                        }
                    };
                    park_state.go_on();
                    return Poll::Ready(Err(failed));
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self.framing, Remaining::Done) || matches!(&self.framing, Remaining::Chunked(c) if c.is_end())
    }

    /// Takes a piece of the body out of the received bytes.
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
                // However small the chunks are, bytes received together form one piece.
                let mut data = Vec::new();
                loop {
                    let step = chunked.decode(&self.raw[self.used..]).map_err(|error| match error.status() {
                        413 => BodyError::TooLarge,
                        _ => BodyError::Malformed,
                    })?;
                    match step {
                        Step::Data(range) => {
                            data.extend_from_slice(&self.raw[self.used..][range.clone()]);
                            self.used += range.end;
                            if self.used < self.raw.len() {
                                continue;
                            }
                        }
                        Step::More => {
                            self.used = self.raw.len();
                            self.transport
                                .park_state()
                                .hold(HeldMemory::Input, self.beside.saturating_add(chunked.held()));
                        }
                        Step::End(used) => self.used += used,
                    }
                    break;
                }
                Ok((!data.is_empty()).then(|| data.into()))
            }
        }
    }
}
