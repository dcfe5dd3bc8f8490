//! An exchange: a request and its response, as every protocol sees them.
//!
//! A protocol makes a [`RequestHead`](crate::message::head::RequestHead) from received bytes and a
//! [`BodySource`](crate::BodySource) for those that follow, and [begins](Exchange::begin) an exchange.
//! [`Exchange::respond`] takes the request through the phases, or makes an error page if the head is refused; the
//! request then has the response's status and fields, and the [`Response`] its body. When the whole response has been
//! sent, or could not be, the protocol [ends](Exchange::end) the exchange, which accounts for it and logs it. The
//! protocol alone decides about bytes on the wire, and the exchange about the content of a response.

mod begin;
mod describe;
pub mod errand;
mod refused_head;
pub(crate) mod repeat;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use runtime::scoreboard::{Row, ServedRequest, Traffic};
use sys::time::Instant;

use crate::exchange::describe::Shown;
use crate::exchange::repeat::{Begun, Repeat, Slot};
use crate::message::fields::Fields;
use crate::phases;
use crate::phases::process::Response;
use crate::request::{Client, Request};

pub use self::begin::{Received, Running};
pub(crate) use self::begin::{request, virtual_host};
pub use self::refused_head::RefusedHead;

/// A request on its way to its response, with its row of the scoreboard.
pub struct Exchange {
    /// The request, with the status and fields of its response.
    pub request: Box<Request>,
    pub(crate) row: Row,
    refusal: Option<RefusedHead>,
    /// How to send the response again, if a request with the same head may get it.
    pub(crate) repeat: Option<Box<Repeat>>,
    is_repeat: bool,
    /// What the status page shows of it, if it began right before its handler.
    shown: Option<Arc<Shown>>,
    /// For what becomes known of its response, if the handler expects such responses to recur.
    pub(crate) slot: Option<Arc<Slot>>,
}

/// The bytes of an exchange on the wire.
#[derive(Debug, Default)]
pub struct Transfer {
    /// All bytes sent.
    pub sent: u64,
    /// Bytes of the response's body among them.
    pub body: u64,
    /// All bytes received.
    pub received: u64,
    /// Whether the response was sent completely.
    pub complete: bool,
    /// The fields after the request's body.
    pub trailers: Fields,
}

impl Exchange {
    /// Begins an exchange with a head. `row`: its row of the scoreboard; `so_far`: the connection's bytes before it.
    pub fn begin(running: Running, client: &Arc<Client>, received: Received, row: Row, so_far: u64) -> Exchange {
        let (request, refusal) = request(running, client, received);
        let exchange = Exchange { refusal, ..Exchange::new(request, row) };
        exchange.show(so_far);
        exchange
    }

    /// Begins an exchange whose response is known: that of an earlier request.
    pub(crate) fn again(request: Box<Request>, repeat: Box<Repeat>, row: Row, so_far: u64) -> Exchange {
        repeat.count();
        let exchange = Exchange { repeat: Some(repeat), is_repeat: true, ..Exchange::new(request, row) };
        exchange.show(so_far);
        exchange
    }

    /// Begins an exchange with a request that is right before its handler.
    pub(crate) fn prepared(Begun { request, shown, slot, .. }: Begun, row: Row, so_far: u64) -> Exchange {
        let exchange = Exchange { shown: Some(shown), slot, ..Exchange::new(request, row) };
        exchange.show(so_far);
        exchange
    }

    /// Shows the request in its row.
    fn show(&self, so_far: u64) {
        let Exchange { request, row, .. } = self;
        let accesses = u64::from(request.client.connection().keepalives.load(Ordering::Relaxed));
        row.begin(Traffic { accesses, bytes: so_far }, request.account.time);
        if request.server.extended_status {
            describe::describe(request, self.shown(), row);
        }
    }

    /// What is known of a request that is repeated, or began right before its handler.
    fn shown(&self) -> Option<&Shown> {
        let of_repeat = self.repeat.as_ref().filter(|_| self.is_repeat).map(|repeat| &repeat.shown);
        of_repeat.or(self.shown.as_ref()).map(|shown| &**shown)
    }

    fn new(request: Box<Request>, row: Row) -> Exchange {
        Exchange { request, row, refusal: None, repeat: None, is_repeat: false, shown: None, slot: None }
    }

    /// Why the head is refused, if it is.
    pub fn refusal(&self) -> Option<RefusedHead> {
        self.refusal
    }

    /// Makes the response: through phases, handlers and filters, or an error page for a refused head. May be dropped
    /// when the client has gone.
    pub async fn respond(&mut self) -> Response {
        let prepared = self.request.prepared.as_ref().map(|prepared| prepared.handler);
        match (self.refusal, prepared) {
            (None, Some(handler)) => phases::answer_prepared(&mut self.request, handler).await,
            (None, None) => phases::process(&mut self.request).await,
            (Some(refusal), _) => {
                let status = refusal.status(self.request.data.head.version());
                phases::refuse(&mut self.request, status).await
            }
        }
    }

    /// Makes the response with this status instead: an error document, or the server's own page.
    pub async fn refuse(&mut self, status: u16) -> Response {
        phases::refuse(&mut self.request, status).await
    }

    /// Accounts for the exchange and logs it.
    pub fn end(&mut self, transfer: Transfer) {
        let request = &mut self.request;
        let sent = &mut request.account.sent;
        let now = Instant::now();
        sent.duration = now - request.account.start;
        sent.first_byte.get_or_insert(sent.duration);
        sent.bytes = transfer.sent;
        sent.body = transfer.body;
        sent.received = transfer.received;
        sent.aborted = !transfer.complete;
        sent.trailers_in = transfer.trailers;
        for hook in &request.hooks.log {
            hook(request);
        }
        let ended = request.account.ended();
        let watches = request.account.watches && request.response.status() == 200;
        if request.server.extended_status && !watches {
            describe::visited(&self.request, self.shown(), ended, &self.row);
        }
        let Exchange { request, row, .. } = self;
        row.finish(ServedRequest {
            status: request.response.status(),
            sent: request.account.sent.bytes,
            received: request.account.sent.received,
            took: request.account.sent.duration,
            ended,
            watches,
            repeated: self.is_repeat,
            prepared: self.shown.is_some(),
        });
        request.client.connection().keepalives.fetch_add(1, Ordering::Relaxed);
    }
}
