//! The response of another server that is expected to answer as before: all of it is known but its date and its content.

use std::future::poll_fn;

use bytes::Bytes;
use runtime::executor::Timer;

use super::open_stream::OpenStream;
use super::response::Begun;
use crate::exchange::Exchange;
use crate::exchange::repeat::{SentHead, Settled};
use crate::message::response::Body;
use crate::message::sent::{Delimiter, Persist};
use crate::request::recurring::Recurrence;

/// How a request goes on whose response is known but for date and content.
pub(super) enum Expected {
    /// With this body: its head is sent.
    Response(Begun, Body),
    /// At its handler.
    Unknown,
    /// No further: the stream has ended.
    Gone,
}

/// Asks the other server for such a response, and sends its head if it has come.
pub(super) async fn begin(exchange: &mut Exchange, settled: &Settled, stream: &OpenStream) -> Expected {
    let Exchange { request, slot, .. } = exchange;
    let Some(mut asked) = settled.known.clone().ask(request.client.ip(), request.account.start) else {
        request.begin_at_handler(Recurrence::None);
        return Expected::Unknown;
    };
    let (mut timer, deadline) = (Timer::default(), request.account.start + asked.timeout());
    let answer = timer.until(deadline, poll_fn(|cx| asked.poll(cx)));
    let Some(is_expected) = stream.unless_gone(answer).await else { return Expected::Gone };
    let (SentHead::Http2(fields), Some(true)) = (&settled.head, is_expected) else {
        let is_wanted = slot.as_ref().is_some_and(|slot| slot.forget());
        request.begin_at_handler(Recurrence::Begun(asked.into_begun(), is_wanted));
        return Expected::Unknown;
    };
    let (date, content) = asked.answer();
    settled.complete(request, date);
    let ends = content.is_empty();
    let sent: Result<_, ()> = stream.head(request.response.status(), ends, |writer| {
        writer.field_again(b"date", date);
        fields.iter().for_each(|(name, value)| writer.field_again(name, value));
        Ok(())
    });
    request.account.sent.keepalive = true;
    request.account.sent.head = Some((Delimiter::Length(content.len() as u64), Persist { keep: true, announce: None }));
    let body = if ends { Body::Empty } else { Body::Bytes(Bytes::copy_from_slice(content)) };
    asked.end();
    slot.iter().for_each(|slot| slot.confirm());
    match sent {
        Ok(Some(size)) => Expected::Response(Begun { size, ends }, body),
        Ok(None) | Err(()) => Expected::Gone,
    }
}
