//! The short way of a request whose head an earlier one had.

use std::mem;
use std::sync::Arc;

use http::{Head, Parse};
use runtime::{Stage, tick};

use super::connection::{Http1Connection, Sending};
use super::head::write_head;
use super::outgoing::Outgoing;
use super::write::Composed;
use crate::exchange::Exchange;
use crate::exchange::repeat::{Again, Recall, SentHead};
use crate::message::buffers;
use crate::message::head::RequestHead;

impl Http1Connection {
    /// Answers the request whose head these bytes are as an earlier one that asked the same was answered, from the same buffer.
    /// `Err`: it goes through the phases; its head, if it was parsed.
    pub(super) fn repeat(&mut self, bytes: &mut Vec<u8>) -> Result<Stage, Option<Arc<RequestHead>>> {
        if !self.running.hooks.are_repeatable || self.refused.is_some() {
            return Err(None);
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
            return Err(None);
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
    fn recall(&mut self, bytes: &mut Vec<u8>) -> Result<Again, Option<Arc<RequestHead>>> {
        let tick = self.announced.inspect(|tick| tick::resume(*tick));
        let limits = self.plan().limits;
        let mut recall = Recall::new(self.running.server, &self.client, None, bytes).ok_or(None)?;
        recall.tick = tick;
        let may_be_first = |again: &Again| self.may_offer_http2(&again.request);
        match recall.same(bytes) {
            Some(again) if may_be_first(&again) => {
                again.leave();
                return Err(None);
            }
            Some(again) => return Ok(again),
            None => {}
        }
        let mut table = buffers::take_head();
        if Head::parse(bytes, &limits, &mut table) != Ok(Parse::Complete { len: bytes.len() }) {
            buffers::give_head(table);
            return Err(None);
        }
        let mut head = RequestHead::received(mem::take(bytes), table);
        let again = match recall.similar(&head) {
            Ok(again) if may_be_first(&again) => {
                again.leave();
                return Err(Some(head.into()));
            }
            Ok(again) => again,
            Err(key) => {
                self.key = key;
                return Err(Some(head.into()));
            }
        };
        let again = again.with_head(&mut head, None, &recall);
        let (text, table) = head.into_parts();
        *bytes = text;
        buffers::give_head(table);
        Ok(again)
    }
}
