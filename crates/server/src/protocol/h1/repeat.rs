//! The short way of a request whose head an earlier one had.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::h1::framing::Persistence;
use http::{Head, Parse};
use runtime::{Stage, tick};

use super::connection::{Expecting, Http1Connection, Sending};
use super::head::write_head;
use super::outgoing::Outgoing;
use super::write::Composed;
use crate::exchange::Exchange;
use crate::exchange::repeat::{Again, Begun, Recall, Recalled, SentHead};
use crate::message::buffers;
use crate::message::head::RequestHead;
use crate::message::response::Body;
use crate::message::sent::{Delimiter, Persist};
use crate::request::recurring::Recurrence;
use crate::transport;

/// How a request goes on whose response is not known.
pub(super) enum Unanswered {
    /// Through the phases; its head, if it was parsed.
    New(Option<Arc<RequestHead>>),
    /// To its handler.
    Prepared(Begun),
}

impl Http1Connection {
    /// Answers the request whose head these bytes are as an earlier one that asked the same was answered, from the same buffer.
    /// `Err`: how it goes on instead.
    pub(super) fn repeat(&mut self, bytes: &mut Vec<u8>) -> Result<Stage, Unanswered> {
        if !self.running.hooks.are_repeatable || self.refused.is_some() {
            return Err(Unanswered::New(None));
        }
        let Again { mut request, repeat: again, body } = self.recall(bytes)?;
        let mut front = mem::take(bytes);
        front.clear();
        if let SentHead::Http1 { wish, .. } = &again.head {
            self.wish = *wish;
        }
        let persist = self.persist(&request, true);
        let is_written = again.head.write(persist, &mut front)
            || write_head(&mut request, again.delimiter, persist, &mut front).is_none();
        if !is_written {
            *bytes = request.data.head.text().to_vec();
            return Err(Unanswered::New(None));
        }
        request.account.sent.keepalive = persist.keep;
        request.account.sent.head = Some((again.delimiter, persist));
        self.announced = None;
        self.received = request.data.head.len();
        let linger = self.lingers(&request);
        let head_len = front.len() as u64;
        let mut outgoing = Outgoing::new(front, None);
        outgoing.push(body);
        let exchange = Exchange::again(request, again, self.workers.acquire(), self.traffic);
        let sending = Sending { exchange, outgoing, head_len, keep: persist.keep, linger };
        Ok(self.send(Composed { sending, stream: None, chunked: false }))
    }

    /// The response that the request with this head may have again. Without one, the head takes the bytes, if it is whole.
    fn recall(&mut self, bytes: &mut Vec<u8>) -> Result<Again, Unanswered> {
        let tick = self.announced.inspect(|tick| tick::resume(*tick));
        let limits = self.plan().limits;
        let recall = Recall::new(self.running.server, &self.client, None, bytes);
        let mut recall = recall.ok_or(Unanswered::New(None))?;
        recall.tick = tick;
        match recall.same(bytes) {
            Some(Recalled::Prepared(begun)) => {
                buffers::give(mem::take(bytes));
                return Err(Unanswered::Prepared(begun));
            }
            Some(Recalled::Again(again)) if self.may_offer_http2(&again.request) => {
                again.leave();
                return Err(Unanswered::New(None));
            }
            Some(Recalled::Again(again)) => return Ok(again),
            None => {}
        }
        let mut table = buffers::take_head();
        if Head::parse(bytes, &limits, &mut table) != Ok(Parse::Complete { len: bytes.len() }) {
            buffers::give_head(table);
            return Err(Unanswered::New(None));
        }
        let mut head = RequestHead::received(mem::take(bytes), table);
        let again = match recall.similar(&mut head, None) {
            Ok(Recalled::Prepared(begun)) => return Err(Unanswered::Prepared(begun)),
            Ok(Recalled::Again(again)) if self.may_offer_http2(&again.request) => {
                again.leave();
                return Err(Unanswered::New(Some(head.into())));
            }
            Ok(Recalled::Again(again)) => again,
            Err(key) => {
                self.key = key;
                return Err(Unanswered::New(Some(head.into())));
            }
        };
        let again = again.with_head(&mut head, None, &recall);
        let (text, table) = head.into_parts();
        *bytes = text;
        buffers::give_head(table);
        Ok(again)
    }

    /// Begins the exchange of a prepared request. If its response may be known but for its content, asks for that: the connection
    /// then waits for it in its own memory. Otherwise the handler has to answer.
    pub(super) fn begin_prepared(&mut self, mut begun: Begun) -> Option<Exchange> {
        let request = &mut begun.request;
        let (table, text) = request.data.head.parts();
        self.wish = Persistence::of(table, text);
        self.received = request.data.head.len();
        self.cut_off = None;
        self.announced = None;
        let offers_http2 = request.vhost.plan.upgrades && self.may_offer_http2(request);
        let settled = begun.settled.take();
        let asked = settled.as_ref().filter(|_| !offers_http2 && self.refused.is_none());
        let asked = asked.and_then(|settled| settled.known.clone().ask(request.client.ip(), request.account.start));
        if let (Some(asked), Some(settled)) = (asked, &settled) {
            let deadline = request.account.start + asked.timeout();
            let exchange = Exchange::prepared(begun, self.workers.acquire(), self.traffic);
            self.expecting = Some(Expecting { exchange, settled: settled.clone(), asked, deadline });
            return None;
        }
        if settled.is_some() {
            request.begin_at_handler(Recurrence::None);
        }
        if request.vhost.plan.upgrades {
            self.offer_http2(request);
        }
        request.interim = self.interim.take();
        Some(Exchange::prepared(begun, self.workers.acquire(), self.traffic))
    }

    /// Lets the handler of a prepared request answer it, and writes the response.
    pub(super) async fn answer_prepared(&mut self, mut exchange: Exchange) -> Stage {
        match transport::unless_reset(&*self.transport, exchange.respond()).await {
            Some(response) => self.write(exchange, response).await,
            None => self.give_up(exchange),
        }
    }

    /// Waits for the answer of another server that was asked, and sends the response if that is the expected one.
    pub(super) fn poll_expected(&mut self, cx: &mut Context<'_>) -> Poll<Stage> {
        let Some(expecting) = &mut self.expecting else { return Poll::Ready(Stage::Closed) };
        let is_expected = match expecting.asked.poll(cx) {
            Poll::Ready(is_expected) => is_expected,
            Poll::Pending if self.transport.poll_reset(cx).is_ready() => {
                let next = self.expecting.take().map(|expecting| self.give_up(expecting.exchange));
                return Poll::Ready(next.unwrap_or(Stage::Closed));
            }
            Poll::Pending if self.timer.poll_passed(cx, expecting.deadline).is_ready() => false,
            Poll::Pending => return runtime::pending_without_worker(),
        };
        let Some(expecting) = self.expecting.take() else { return Poll::Ready(Stage::Closed) };
        if is_expected {
            return Poll::Ready(self.send_expected(expecting));
        }
        let Expecting { mut exchange, asked, .. } = expecting;
        let is_wanted = exchange.slot.as_ref().is_some_and(|slot| slot.forget());
        exchange.request.begin_at_handler(Recurrence::Begun(asked.into_begun(), is_wanted));
        exchange.request.interim = self.interim.take();
        self.unexpected = Some(Box::new(exchange));
        Poll::Ready(Stage::Serve)
    }

    /// Sends the response that was expected.
    fn send_expected(&mut self, expecting: Expecting) -> Stage {
        let Expecting { mut exchange, settled, asked, .. } = expecting;
        let request = &mut exchange.request;
        let (date, body) = asked.answer();
        settled.complete(request, date);
        let mut persist = self.persist(request, true);
        let delimiter = Delimiter::Length(body.len() as u64);
        let mut front = buffers::take();
        let instead = match settled.head.write_with(date, persist, &mut front) {
            true => None,
            false => write_head(request, delimiter, persist, &mut front),
        };
        let head_len = front.len() as u64;
        match instead {
            None => front.extend_from_slice(body),
            // Its head says so.
            Some(_) => persist = Persist { keep: false, announce: None },
        }
        asked.end();
        exchange.slot.iter().for_each(|slot| slot.confirm());
        let request = &mut exchange.request;
        request.account.sent.keepalive = persist.keep;
        request.account.sent.head = Some((delimiter, persist));
        let linger = self.lingers(request);
        let mut outgoing = Outgoing::new(front, None);
        outgoing.push(instead.unwrap_or(Body::Empty));
        let sending = Sending { exchange, outgoing, head_len, keep: persist.keep, linger };
        self.send(Composed { sending, stream: None, chunked: false })
    }
}
