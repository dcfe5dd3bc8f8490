//! The short way of a request whose head an earlier one had.

use std::mem;

use runtime::{Stage, tick};
use sys::time::Instant;

use super::connection::{Http1Connection, Sending};
use super::head::write_head;
use super::outgoing::Outgoing;
use super::write::Composed;
use crate::exchange::Exchange;
use crate::exchange::repeat::{self, Known, SentHead};
use crate::request::Account;

impl Http1Connection {
    /// Answers the request whose head these bytes are as an earlier one with the same head was answered, from the same buffer.
    /// `None`: it goes through the phases.
    pub(super) fn repeat(&mut self, bytes: &mut Vec<u8>) -> Option<Stage> {
        if !self.running.hooks.are_repeatable || self.refused.is_some() {
            return None;
        }
        let tick = self.announced.inspect(|tick| tick::resume(*tick));
        let account = || Account::new(Instant::now()).announced_in(tick);
        let (mut request, again, body) = match repeat::recall(bytes, self.running.server, &self.client, None, account) {
            Known::Request(request, again, body) => (request, again, body),
            Known::Seen(hash) => {
                self.seen_before = Some(hash);
                return None;
            }
            Known::Nothing => return None,
        };
        let (text, before) = match &again.head {
            SentHead::Http1 { text, persist, wish, .. } if !self.may_offer_http2(&request) => {
                self.wish = *wish;
                (text, *persist)
            }
            _ => {
                again.remember(request);
                return None;
            }
        };
        let persist = self.persist(&request, true);
        let mut front = mem::take(bytes);
        front.clear();
        match persist == before {
            true => front.extend_from_slice(text),
            false if write_head(&mut request, again.delimiter, persist, &mut front).is_none() => {}
            false => {
                *bytes = request.data.head.text().to_vec();
                return None;
            }
        }
        self.announced = None;
        self.received = request.data.head.len();
        request.account.sent.keepalive = persist.keep;
        request.account.sent.head = Some((again.delimiter, persist));
        let linger = self.lingers(&request);
        let head_len = front.len() as u64;
        let mut outgoing = Outgoing::new(front, None);
        outgoing.push(body);
        let exchange = Exchange::again(request, again, self.workers.acquire(), self.traffic);
        let sending = Sending { exchange, outgoing, head_len, keep: persist.keep, linger };
        Some(self.send(Composed { sending, stream: None, chunked: false }))
    }
}
