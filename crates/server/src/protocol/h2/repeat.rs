//! The short way of a stream whose head an earlier one had.

use std::num::NonZeroU64;

use bytes::Bytes;
use http::h2::At;
use runtime::tick;
use sys::time::Instant;

use super::stream::{Common, Counted, Listed, SeenHead};
use super::wire::State;
use crate::exchange::repeat::{self, Known, SentHead};
use crate::exchange::{Exchange, Transfer};
use crate::message::response::Body;
use crate::message::sent::Persist;
use crate::request::fields_out::with_date;
use crate::request::{Account, StreamId};

/// Answers the request on this stream, whose fields the protocol has just read and which has no body, as an earlier one with
/// the same fields was answered. `arrived`: when the present frames were found, once that is known. `Err`: it goes through
/// the phases.
pub(super) fn repeat(
    common: &Common,
    state: &mut State,
    at: At,
    tick: Option<NonZeroU64>,
    arrived: &mut Option<Instant>,
) -> Result<(), Option<SeenHead>> {
    if !common.running.hooks.are_repeatable {
        return Err(None);
    }
    let text = state.protocol.fields().text().ok_or(None)?;
    let tick = tick.inspect(|tick| tick::resume(*tick));
    let account = || {
        let start = *arrived.get_or_insert_with(Instant::now);
        Account::new(start).announced_in(tick)
    };
    let stream = StreamId { number: at.number(), ..common.first };
    let (mut request, again, body) =
        match repeat::recall(text, common.running.server, &common.client, Some(stream), account) {
            Known::Request(request, again, body) => (request, again, body),
            Known::Seen(hash) => return Err(Some(SeenHead { hash, text: text.to_vec() })),
            Known::Nothing => return Err(None),
        };
    let bytes = match body {
        Body::Empty => Some(Bytes::new()),
        Body::Bytes(bytes) if bytes.len() <= common.largest && state.has_room(at, bytes.len()) => Some(bytes),
        _ => None,
    };
    let (Some(bytes), SentHead::Http2 { fields, .. }) = (bytes, &again.head) else {
        again.remember(request);
        return Err(None);
    };
    let mut head = 0;
    let sent: Result<bool, ()> = state.protocol.head(at, request.response.status(), bytes.is_empty(), |writer| {
        with_date(request.account.time, |date| writer.field_again(b"date", date));
        fields.iter().for_each(|(name, value)| writer.field_again(name, value));
        head = writer.size();
        Ok(())
    });
    if !bytes.is_empty() {
        state.protocol.data(at, &bytes, true);
    }
    request.account.sent.keepalive = true;
    request.account.sent.head = Some((again.delimiter, Persist { keep: true, announce: None }));
    let _counted = Counted::of(common.workers);
    let listed = Listed::of(&common.is_listed);
    let row = match listed {
        Some(_) => common.workers.acquire(),
        None => common.workers.acquire_beside(),
    };
    let received = request.data.head.len();
    let mut exchange = Exchange::again(request, again, row, state.traffic());
    let body = bytes.len() as u64;
    exchange.end(Transfer { sent: head + body, body, received, complete: sent == Ok(true), ..Transfer::default() });
    let Exchange { request, repeat, .. } = exchange;
    if let Some(again) = repeat {
        again.remember(request);
    }
    state.release(at);
    Ok(())
}
