//! The short way of a stream that asks what an earlier one asked.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use http::h2::At;
use runtime::tick;
use sys::time::Instant;

use super::head::ReceivedHead;
use super::stream::{Asked, Common, Counted, KnownHead};
use super::wire::State;
use crate::exchange::repeat::{Again, Begun, Recall, Recalled, SentHead};
use crate::exchange::{Exchange, Transfer};
use crate::message::response::Body;
use crate::message::sent::Persist;
use crate::request::StreamId;

/// A request without a body, whose fields the protocol has just read, on its way to the response that an earlier one had.
pub(super) struct Repeating<'c> {
    common: &'c Arc<Common>,
    at: At,
    recall: Recall<'c>,
}

impl<'c> Repeating<'c> {
    /// The request on this stream. `arrived`: when the present frames were found, once that is known. `None`: it goes through
    /// the phases.
    pub(super) fn new(
        common: &'c Arc<Common>,
        state: &State,
        at: At,
        tick: Option<NonZeroU64>,
        arrived: Option<Instant>,
    ) -> Option<Repeating<'c>> {
        if !common.running.hooks.are_repeatable {
            return None;
        }
        let text = state.protocol.fields().text()?;
        let stream = StreamId { number: at.number(), ..common.first };
        let mut recall = Recall::new(common.running.server, &common.client, Some(stream), text)?;
        recall.tick = tick.inspect(|tick| tick::resume(*tick));
        recall.arrived = arrived;
        Some(Repeating { common, at, recall })
    }

    /// When the present frames were found, if that is known.
    pub(super) fn arrived(&self) -> Option<Instant> {
        self.recall.arrived
    }

    /// Answers it as the latest one with the same fields was answered. `Err`: it could not be; the request, if it begins right before
    /// its handler, as that one did.
    pub(super) fn answer_same(&mut self, state: &mut State) -> Result<(), Option<Begun>> {
        let text = state.protocol.fields().text().ok_or(None)?;
        let again = match self.recall.same(text).ok_or(None)? {
            Recalled::Prepared(begun) => return Err(Some(begun)),
            Recalled::Again(again) => again,
        };
        let (again, body) = self.if_it_fits(state, again).ok_or(None)?;
        self.answer(state, again, &body);
        Ok(())
    }

    /// Answers it as one that asked the same was answered. `Err`: how it goes on instead.
    pub(super) fn answer_similar(&mut self, state: &mut State, mut asked: ReceivedHead) -> Result<(), Asked> {
        let text = state.protocol.fields().text().filter(|_| asked.error.is_none() && asked.protocol.is_none());
        let Some(text) = text else { return Err(Asked::New(Box::new(asked), None)) };
        let again = match self.recall.similar(&mut asked.head, Some(text)) {
            Ok(Recalled::Prepared(begun)) => return Err(Asked::Prepared(begun)),
            Ok(Recalled::Again(again)) => again,
            Err(key) => {
                let known = key.map(|key| KnownHead { key, text: text.to_vec() });
                return Err(Asked::New(Box::new(asked), known));
            }
        };
        let Some((again, body)) = self.if_it_fits(state, again) else { return Err(Asked::New(Box::new(asked), None)) };
        let text = state.protocol.fields().text();
        let again = again.with_head(&mut asked.head, text, &self.recall);
        asked.head.recycle();
        self.answer(state, again, &body);
        Ok(())
    }

    /// A response, and its body, if that can be sent at once.
    fn if_it_fits(&self, state: &State, again: Again) -> Option<(Again, Bytes)> {
        let body = match &again.body {
            Body::Empty => Some(Bytes::new()),
            Body::Bytes(bytes) if bytes.len() <= self.common.largest && state.has_room(self.at, bytes.len()) => {
                Some(bytes.clone())
            }
            _ => None,
        };
        match body.filter(|_| matches!(again.repeat.head, SentHead::Http2 { .. })) {
            Some(body) => Some((again, body)),
            None => {
                again.leave();
                None
            }
        }
    }

    fn answer(&self, state: &mut State, Again { mut request, repeat: again, .. }: Again, body: &Bytes) {
        let (common, at) = (self.common, self.at);
        let sent = state.respond(at, request.response.status(), body, |writer| {
            again.head.fields().for_each(|(name, value)| writer.field_again(name, value));
        });
        request.account.sent.keepalive = true;
        request.account.sent.head = Some((again.delimiter, Persist { keep: true, announce: None }));
        let counted = Counted::of(common);
        let received = request.data.head.len();
        let mut exchange = Exchange::again(request, again, counted.row(), state.traffic());
        let (head, body, complete) = (sent.unwrap_or(0), body.len() as u64, sent.is_some());
        exchange.end(Transfer { sent: head + body, body, received, complete, ..Transfer::default() });
        let Exchange { request, repeat, .. } = exchange;
        if let Some(again) = repeat {
            again.remember(request);
        }
        state.release(at);
    }
}
