//! The body of a request: DATA frames, and the trailers after them (RFC 9113 section 8.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::Limits;
use http_types::HeaderMap;

use super::response::Responder;
use crate::message::body::{BodyError, BodySource};
use crate::message::fields::Fields;
use crate::protocol::body_deadline::BodyDeadline;
use crate::settings::read_timeout::BodyRules;

/// The source of a request's body.
pub(super) struct Source {
    stream: RecvStream,
    /// The bytes that the client has announced and not sent yet; the protocol enforces the announced length.
    announced: Option<u64>,
    /// The way to send `100 Continue`, if the client expects it.
    expects: Option<Arc<Responder>>,
    body_deadline: BodyDeadline,
    limits: Limits,
    received: Arc<AtomicU64>,
    state: State,
}

enum State {
    Data,
    Trailers,
    Done(Fields),
}

impl Source {
    /// The body that follows a head. `received` counts its bytes. `None`: there is none.
    pub(super) fn new(
        stream: RecvStream,
        announced: Option<u64>,
        expects: Option<Arc<Responder>>,
        rules: BodyRules,
        received: Arc<AtomicU64>,
    ) -> Option<Source> {
        (!stream.is_end_stream()).then(|| Source {
            stream,
            announced,
            expects,
            limits: rules.limits,
            body_deadline: BodyDeadline::new(rules),
            received,
            state: State::Data,
        })
    }

    /// Sends `100 Continue`, if the client waits for it.
    fn go_on(&mut self) {
        if let Some(respond) = self.expects.take() {
            respond.go_on();
        }
    }

    /// Passes on a ready `polled`. Otherwise sends `100 Continue` if the client expects it, and fails with
    /// [`BodyError::Timeout`] at the deadline.
    fn or_late<T>(&mut self, cx: &mut Context<'_>, polled: Poll<T>) -> Poll<Result<T, BodyError>> {
        if let Poll::Ready(there) = polled {
            return Poll::Ready(Ok(there));
        }
        self.go_on();
        let deadline = self.body_deadline.deadline();
        ready!(self.body_deadline.poll_over(cx, deadline));
        Poll::Ready(Err(BodyError::Timeout))
    }

    fn take(&mut self, piece: &Bytes) {
        self.expects = None;
        self.body_deadline.note(piece.len());
        self.received.store(self.body_deadline.received(), Ordering::Relaxed);
        self.announced = self.announced.map(|left| left.saturating_sub(piece.len() as u64));
        // The handler now owns the piece: the client may send as much again.
        let _ = self.stream.flow_control().release_capacity(piece.len());
    }
}

/// The error of a body for an error of the protocol.
fn broken(error: &h2::Error) -> BodyError {
    match error.is_library() && !error.is_io() {
        true => BodyError::Malformed,
        false => BodyError::Closed,
    }
}

impl BodySource for Source {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            match self.state {
                State::Data => {
                    let polled = self.stream.poll_data(cx);
                    match ready!(self.or_late(cx, polled))? {
                        Some(Ok(piece)) if piece.is_empty() => {}
                        Some(Ok(piece)) => {
                            self.take(&piece);
                            return Poll::Ready(Ok(Some(piece)));
                        }
                        Some(Err(error)) => return Poll::Ready(Err(broken(&error))),
                        None => self.state = State::Trailers,
                    }
                }
                State::Trailers => {
                    let polled = self.stream.poll_trailers(cx);
                    let trailers = match ready!(self.or_late(cx, polled))? {
                        Ok(trailers) => trailers.map_or(Ok(Fields::default()), |map| fields(&map, &self.limits))?,
                        Err(error) => return Poll::Ready(Err(broken(&error))),
                    };
                    self.state = State::Done(trailers);
                }
                State::Done(_) => return Poll::Ready(Ok(None)),
            }
        }
    }

    fn length(&self) -> Option<u64> {
        if self.is_done() { Some(0) } else { self.announced }
    }

    fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    fn trailers(&self) -> Fields {
        match &self.state {
            State::Done(trailers) => trailers.clone(),
            State::Data | State::Trailers => Fields::default(),
        }
    }
}

/// Converts trailers, within the limits of a head.
fn fields(map: &HeaderMap, limits: &Limits) -> Result<Fields, BodyError> {
    let mut fields = Fields::default();
    if limits.fields > 0 && map.len() > limits.fields {
        return Err(BodyError::TooLarge);
    }
    for (name, value) in map {
        if name.as_str().len() + value.len() > limits.field_size {
            return Err(BodyError::TooLarge);
        }
        if !http::name::is_valid(name.as_str().as_bytes()) {
            return Err(BodyError::Malformed);
        }
        fields.add(name.as_str().to_string(), http::text::from_bytes(value.as_bytes()).into_owned());
    }
    Ok(fields)
}
