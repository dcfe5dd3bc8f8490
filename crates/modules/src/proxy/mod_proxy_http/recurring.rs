//! Responses whose heads come again and again: the request for the next one is known, byte for byte, and so is the head of the
//! response, but for its date.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::KnownField;
use http::h1::received::{BodyEnd, ResponseHead};
use server::{Asked, Recurring, Request};
use sys::time::Instant;
use upstream::{ExpectedExchange, ExpectedHead, Keep, Tally, pool};

use crate::proxy::mod_proxy::{Destination, adds_fields};

/// How many requests a thread keeps the memory of.
const SPARE_MAX: usize = 64;
/// The longest body that the head and the room for a response leave room for, in bytes.
const BODY_MAX: usize = 4 * 1024;

/// A request to a backend, and the response that came.
pub(super) struct Exchanged {
    destination: Arc<Destination>,
    keep: Keep,
    /// The head of the request.
    request: Vec<u8>,
    /// Where it names the client's address.
    client: Option<Range<usize>>,
    head: ExpectedHead,
    body: Bytes,
}

impl Exchanged {
    /// The request with this head, and the response whose head and whole body have come. `None`: nothing can be expected of the next
    /// one.
    pub(super) fn new(
        request: &Request,
        (destination, keep): (&Arc<Destination>, Keep),
        sent: &[u8],
        (head, text): (&ResponseHead, &[u8]),
        body: &Bytes,
    ) -> Option<Exchanged> {
        let mut dates =
            head.fields(text).filter(|(name, _)| name.eq_ignore_ascii_case(b"Date")).map(|(_, value)| value);
        let (date, None) = (dates.next()?, dates.next()) else { return None };
        let date = (date.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        let is_chunked = match head.body_end(text, false) {
            Ok(BodyEnd::Chunked) if head.field(text, KnownField::ContentLength).is_none() => true,
            Ok(BodyEnd::None | BodyEnd::Length(_)) if head.field(text, KnownField::TransferEncoding).is_none() => false,
            Ok(_) | Err(_) => return None,
        };
        // A member of a balancer is another one each time, a request may have to wait for a connection, a log may want to know more than
        // is known then, and the first request of a client may want a connection of its own.
        let is_simple = destination.attempt.is_none()
            && destination.limit.is_none()
            && request.account.upstream.is_none()
            && !request.env.contains("proxy-initial-not-pooled");
        if !is_simple || !head.keeps_connection(text) || body.len() > BODY_MAX {
            return None;
        }
        let client = match adds_fields(request) {
            true => Some(named_client(sent, request.client().ip().as_bytes())?),
            false => None,
        };
        let head = ExpectedHead::new(text, date, body.len(), is_chunked)?;
        let (destination, body) = (destination.clone(), body.clone());
        Some(Exchanged { destination, keep, request: sent.to_vec(), client, head, body })
    }

    /// Where its requests are counted.
    fn tally(&self) -> Option<&Tally> {
        self.destination.server.tally.as_ref()
    }
}

impl Recurring for Exchanged {
    fn body(&self) -> &Bytes {
        &self.body
    }

    fn date(&self) -> &[u8] {
        self.head.date()
    }

    fn memory(&self) -> usize {
        size_of::<Exchanged>() + self.request.len() + self.head.memory() + self.body.len()
    }

    fn ask(self: Arc<Self>, ip: &str, start: Instant) -> Option<Box<dyn Asked>> {
        let stream = pool::take_stream(&self.destination.kind, self.keep, None)?;
        let mut expecting = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        expecting.exchange.begin(stream, start, |head| match &self.client {
            None => head.extend_from_slice(&self.request),
            Some(client) => {
                head.extend_from_slice(&self.request[..client.start]);
                head.extend_from_slice(ip.as_bytes());
                head.extend_from_slice(&self.request[client.end..]);
            }
        });
        expecting.known = Some(UnderWay::new(self, start));
        Some(expecting)
    }
}

/// A request that was sent again.
#[derive(Default)]
struct Expecting {
    exchange: ExpectedExchange,
    /// What is expected; `None`: nothing any more.
    known: Option<UnderWay>,
}

/// A request on its way. The backend counts as busy with it as long as this lives.
struct UnderWay {
    known: Arc<Exchanged>,
    start: Instant,
}

impl UnderWay {
    fn new(known: Arc<Exchanged>, start: Instant) -> UnderWay {
        known.tally().iter().for_each(|tally| tally.enter());
        UnderWay { known, start }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.known.tally().iter().for_each(|tally| tally.leave());
    }
}

thread_local! {
    /// Memory for later requests.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    static SPARE: RefCell<Vec<Box<Expecting>>> = const { RefCell::new(Vec::new()) };
}

impl Asked for Expecting {
    fn timeout(&self) -> Duration {
        self.known.as_ref().map_or(Duration::ZERO, |one| one.known.destination.timeout)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Expecting { exchange, known } = self;
        known.as_ref().map_or(Poll::Ready(false), |one| exchange.poll(cx, &one.known.head))
    }

    fn answer(&self) -> (&[u8], &[u8]) {
        self.known.as_ref().map_or((&[], &[]), |one| self.exchange.response(&one.known.head))
    }

    fn end(mut self: Box<Self>) {
        if let (Some(one), Some(stream)) = (self.known.take(), self.exchange.end()) {
            one.known.tally().iter().for_each(|tally| tally.recurred(one.start.elapsed()));
            pool::give_stream(&one.known.destination.kind, one.known.keep, stream, true);
        }
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(self);
            }
        });
    }

    fn into_begun(self: Box<Self>) -> Box<dyn Any + Send + Sync> {
        Box::new(self.exchange)
    }
}

/// Where the head of a request names the client, at the end of `X-Forwarded-For`.
fn named_client(head: &[u8], ip: &[u8]) -> Option<Range<usize>> {
    const NAME: &[u8] = b"\r\nX-Forwarded-For: ";
    let start = memchr::memmem::find(head, NAME)? + NAME.len();
    let end = start + memchr::memchr(b'\r', &head[start..])?;
    head[start..end].ends_with(ip).then(|| end - ip.len()..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_the_last_one_forwarded_for() {
        let named =
            |head: &str, ip: &str| named_client(head.as_bytes(), ip.as_bytes()).map(|range| head[range].to_string());
        let alone = "GET / HTTP/1.1\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
        assert_eq!(named(alone, "192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(named(&alone.replace("For: ", "For: a, "), "192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(named(alone, "192.0.2.2"), None);
        assert_eq!(named("GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", "192.0.2.1"), None);
    }
}
