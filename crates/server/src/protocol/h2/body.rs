//! The body of a request: DATA frames, and the trailers after them (RFC 9113 section 8.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Limits;
use http::h2::FieldList;

use super::open_stream::{Came, OpenStream};
use crate::message::body::{BodyError, BodySource};
use crate::message::fields::Fields;
use crate::protocol::body_deadline::BodyDeadline;
use crate::settings::read_timeout::BodyRules;

/// The source of a request's body.
pub(super) struct Source {
    stream: Arc<OpenStream>,
    /// The bytes that the client has announced and not sent yet; the protocol enforces the announced length.
    announced: Option<u64>,
    /// The client expects `100 Continue`.
    expects: bool,
    body_deadline: BodyDeadline,
    limits: Limits,
    received: Arc<AtomicU64>,
    state: State,
}

enum State {
    Data,
    Done(Fields),
}

impl Source {
    /// The body that follows a head. `received` counts its bytes.
    pub(super) fn new(
        stream: Arc<OpenStream>,
        announced: Option<u64>,
        expects: bool,
        rules: BodyRules,
        received: Arc<AtomicU64>,
    ) -> Source {
        let (limits, body_deadline) = (rules.limits, BodyDeadline::new(rules));
        Source { stream, announced, expects, limits, body_deadline, received, state: State::Data }
    }

    /// Sends `100 Continue`, if the client waits for it.
    fn go_on(&mut self) {
        if std::mem::take(&mut self.expects) {
            self.stream.go_on();
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
        self.expects = false;
        self.body_deadline.note(piece.len());
        self.received.store(self.body_deadline.received(), Ordering::Relaxed);
        self.announced = self.announced.map(|left| left.saturating_sub(piece.len() as u64));
        // The handler now owns the piece: the client may send as much again.
        self.stream.consume(piece.len());
    }
}

impl BodySource for Source {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        while let State::Data = self.state {
            let polled = self.stream.poll_received(cx);
            match ready!(self.or_late(cx, polled))?? {
                Came::Piece(piece) if piece.is_empty() => {}
                Came::Piece(piece) => {
                    self.take(&piece);
                    return Poll::Ready(Ok(Some(piece)));
                }
                Came::End(trailers) => {
                    let trailers = trailers.map_or(Ok(Fields::default()), |list| fields(&list, &self.limits))?;
                    self.state = State::Done(trailers);
                }
            }
        }
        Poll::Ready(Ok(None))
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
            State::Data => Fields::default(),
        }
    }
}

/// Converts trailers, within the limits of a head.
fn fields(list: &FieldList, limits: &Limits) -> Result<Fields, BodyError> {
    let mut fields = Fields::default();
    if list.is_too_large() || limits.fields > 0 && list.len() > limits.fields {
        return Err(BodyError::TooLarge);
    }
    for (name, value) in list.iter() {
        if name.len() + value.len() > limits.field_size {
            return Err(BodyError::TooLarge);
        }
        if !http::name::is_valid(name) {
            return Err(BodyError::Malformed);
        }
        fields.add(http::text::from_bytes(name).into_owned(), http::text::from_bytes(value).into_owned());
    }
    Ok(fields)
}
