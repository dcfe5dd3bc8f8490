//! The response of another server that is expected to answer as before: all of it is known but its date and its content. The
//! request waits in its place in the connection, without a task.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use runtime::executor::Timer;
use sys::time::Instant;

use super::open_stream::OpenStream;
use super::response::Begun;
use super::stream::{self, Common, Counted, NewStream, Unfinished};
use super::wire::State;
use crate::exchange::repeat::{SentHead, Settled};
use crate::exchange::{Exchange, Transfer};
use crate::message::response::Body;
use crate::message::sent::{Delimiter, Persist};
use crate::request::recurring::{Asked, Recurrence};

/// A request whose response another server was asked for.
pub(super) struct Expecting {
    stream: OpenStream,
    urgency: u8,
    exchange: Exchange,
    counted: Counted,
    settled: Arc<Settled>,
    asked: Box<dyn Asked>,
    /// When the other server has had enough time.
    deadline: Instant,
    /// The largest frame that we send, in bytes.
    largest: usize,
}

/// What has come.
pub(super) enum Answer {
    Expected,
    /// Something else, or nothing in time.
    Other,
    /// The stream has ended.
    Gone,
}

impl Expecting {
    /// Asks the other server for the response to this request, if that is expected to be known. `Err`: the request has to go
    /// another way.
    pub(super) fn begin(common: &Arc<Common>, state: &State, mut new: NewStream) -> Result<Expecting, NewStream> {
        let stream::Asked::Prepared(begun) = &mut new.asked else { return Err(new) };
        let Some(settled) = begun.settled.take() else { return Err(new) };
        let request = &mut begun.request;
        let known = Some(&settled.known).filter(|_| matches!(settled.head, SentHead::Http2 { .. }));
        let asked = known.and_then(|known| known.clone().ask(request.client.ip(), request.account.start));
        let Some(asked) = asked else {
            request.begin_at_handler(Recurrence::None);
            return Err(new);
        };
        let deadline = request.account.start + asked.timeout();
        let NewStream { stream, asked: stream::Asked::Prepared(begun), urgency, .. } = new else { return Err(new) };
        let counted = Counted::of(common);
        let exchange = Exchange::prepared(begun, counted.row(), state.traffic());
        Ok(Expecting { stream, urgency, exchange, counted, settled, asked, deadline, largest: common.largest })
    }

    /// From 0, the most urgent, to 7 (RFC 9218).
    pub(super) fn urgency(&self) -> u8 {
        self.urgency
    }

    /// Ready once it is known what comes.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, timer: &mut Timer) -> Poll<Answer> {
        match self.asked.poll(cx) {
            Poll::Ready(true) => Poll::Ready(Answer::Expected),
            Poll::Ready(false) => Poll::Ready(Answer::Other),
            Poll::Pending if self.stream.poll_gone(cx).is_ready() => Poll::Ready(Answer::Gone),
            Poll::Pending => timer.poll_passed(cx, self.deadline).map(|()| Answer::Other),
        }
    }

    /// Sends the response. Returns what cannot be done at once.
    pub(super) fn finish(self, answer: &Answer) -> Option<NewStream> {
        match answer {
            Answer::Expected => self.respond(),
            Answer::Gone => {
                Unfinished { exchange: self.exchange, counted: self.counted, left: None }.give_up();
                None
            }
            Answer::Other => {
                let Expecting { stream, urgency, mut exchange, counted, asked, .. } = self;
                let is_wanted = exchange.slot.as_ref().is_some_and(|slot| slot.forget());
                exchange.request.begin_at_handler(Recurrence::Begun(asked.into_begun(), is_wanted));
                Some(unfinished(stream, urgency, Unfinished { exchange, counted, left: None }))
            }
        }
    }

    /// Sends the expected response.
    fn respond(self) -> Option<NewStream> {
        let Expecting { stream, urgency, mut exchange, counted, settled, asked, largest, .. } = self;
        let request = &mut exchange.request;
        let (date, content) = asked.answer();
        settled.complete(request, date);
        request.account.sent.keepalive = true;
        request.account.sent.head =
            Some((Delimiter::Length(content.len() as u64), Persist { keep: true, announce: None }));
        let status = request.response.status();
        let write = |writer: &mut http::h2::HeadWriter<'_>| {
            writer.field_again(b"date", date);
            settled.head.lasting_fields().for_each(|(name, value)| writer.field_again(name, value));
        };
        let sent = stream.respond(status, content, largest, write);
        let left = sent
            .filter(|(_, is_whole)| !is_whole)
            .map(|(size, _)| (Begun { size, ends: false }, Body::Bytes(Bytes::copy_from_slice(content))));
        let body = content.len() as u64;
        asked.end();
        exchange.slot.iter().for_each(|slot| slot.confirm());
        if left.is_some() {
            return Some(unfinished(stream, urgency, Unfinished { exchange, counted, left }));
        }
        let (head, complete) = (sent.map_or(0, |(size, _)| size), sent.is_some());
        let received = exchange.request.data.head.len();
        let body = if complete { body } else { 0 };
        exchange.end(Transfer { sent: head + body, body, received, complete, ..Transfer::default() });
        exchange.request.recycle();
        None
    }
}

/// A request that needs a task.
fn unfinished(stream: OpenStream, urgency: u8, unfinished: Unfinished) -> NewStream {
    NewStream { stream, asked: stream::Asked::Unfinished(Box::new(unfinished)), ends: true, urgency, tick: None }
}
