//! An exchange: a request and its answer, as every protocol sees them.
//!
//! A protocol makes a [`RequestHead`] from received bytes and a [`BodySource`](crate::BodySource) for those that
//! follow, and [begins](Exchange::begin) an exchange. [`Exchange::answer`] takes the request through the phases; the
//! request then has the answer's status and fields, and the [`Response`] its body. When all of it has been sent, or
//! could not be, the protocol [ends](Exchange::end) the exchange, which accounts for it and logs it. The protocol alone
//! decides about bytes on the wire, and the exchange about the content of an answer.

mod begin;
mod describe;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use runtime::scoreboard::{Answered, Row, Traffic, Workers};

use crate::message::fields::Fields;
use crate::message::head::RequestHead;
use crate::phases;
use crate::phases::process::Response;
use crate::request::{Client, Request};

pub(crate) use self::begin::{AskedHost, request, unknown_host, virtual_host};
pub use self::begin::{Running, TurnedAway, Unserved};

/// A request on its way to its answer, with its row of the scoreboard.
pub struct Exchange {
    /// The request, with the status and fields of its answer.
    pub request: Box<Request>,
    pub(crate) row: Row,
}

/// The bytes of an exchange on the wire.
#[derive(Debug, Default)]
pub struct Transfer {
    /// All bytes sent.
    pub sent: u64,
    /// Bytes of the answer's body among them.
    pub body: u64,
    /// All bytes received.
    pub received: u64,
    /// Whether the answer was sent completely.
    pub complete: bool,
    /// The fields after the request's body.
    pub trailers: Fields,
}

impl Exchange {
    /// Begins an exchange with a well-formed head. `so_far`: the connection's bytes before it. `Err`: the head is
    /// refused, and why; the protocol decides about the answer.
    pub fn begin(
        running: Running,
        client: &Arc<Client>,
        head: RequestHead,
        workers: &Arc<Workers>,
        so_far: u64,
    ) -> Result<Exchange, Box<TurnedAway>> {
        let row = workers.acquire();
        let request = request(running, client, head, AskedHost::Checked)?;
        Ok(Exchange::of(request, row, so_far))
    }

    pub(crate) fn of(request: Box<Request>, row: Row, so_far: u64) -> Exchange {
        let accesses = u64::from(request.client.connection().keepalives.load(Ordering::Relaxed));
        row.begin(Traffic { accesses, bytes: so_far });
        if request.server.extended_status {
            describe::describe(&request, &row);
        }
        Exchange { request, row }
    }

    /// Makes the answer: through phases, handlers and filters. May be dropped when the client has gone.
    pub async fn answer(&mut self) -> Response {
        phases::answer(&mut self.request).await
    }

    /// Makes the answer for a refused request with this status: an error document, or the server's own page.
    pub async fn refuse(&mut self, status: u16) -> Response {
        phases::refuse(&mut self.request, status).await
    }

    /// Accounts for the exchange and logs it.
    pub fn end(&mut self, transfer: Transfer) {
        let Exchange { request, row } = self;
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
        let watches = request.account.watches && request.answer.status() == 200;
        if request.server.extended_status && !watches {
            describe::visited(request, row);
        }
        row.finish(Answered {
            status: request.answer.status(),
            sent: request.account.sent.bytes,
            received: request.account.sent.received,
            took: request.account.sent.duration,
            watches,
        });
        request.client.connection().keepalives.fetch_add(1, Ordering::Relaxed);
    }
}
