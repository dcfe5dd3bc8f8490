//! The short way of a request whose head an earlier one had.

use std::mem;
use std::sync::Arc;

use http::h1::framing::Persistence;
use http::{Head, Parse};
use runtime::{Stage, tick};

use super::connection::{Http1Connection, Sending};
use super::head::write_head;
use super::outgoing::Outgoing;
use super::write::Composed;
use crate::exchange::Exchange;
use crate::exchange::repeat::{Again, Begun, Recall, Recalled, SentHead};
use crate::message::buffers;
use crate::message::head::RequestHead;
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
        let again = match recall.similar(&mut head) {
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

    /// Lets the handler of a prepared request answer it, and writes the response.
    pub(super) async fn answer_prepared(&mut self, mut begun: Begun) -> Stage {
        let request = &mut begun.request;
        let (table, text) = request.data.head.parts();
        self.wish = Persistence::of(table, text);
        self.received = request.data.head.len();
        self.cut_off = None;
        self.announced = None;
        if request.vhost.plan.upgrades {
            self.offer_http2(request);
        }
        request.interim = self.interim.take();
        let mut exchange = Exchange::prepared(begun, self.workers.acquire(), self.traffic);
        match transport::unless_reset(&*self.transport, exchange.respond()).await {
            Some(response) => self.write(exchange, response).await,
            None => self.give_up(exchange),
        }
    }
}
