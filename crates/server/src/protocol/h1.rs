//! A connection's life, stage by stage: read a head, process, write; wait for the next; linger; close.
//!
//! Only this module speaks HTTP/1.1. The MPM decides which thread polls the stages.

pub(crate) mod body;
pub(super) mod connection;
mod head;
mod interim;
mod outgoing;
mod preface;
mod refuse;
mod repeat;
mod tunnel;
mod upgrade;
mod wait;
mod write;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::h1::framing::{Framing, Persistence};
use http::{Head, Parse};
use runtime::scoreboard::Row;
use runtime::{Connection, Stage, Stepping, tick};
use sys::time::Instant;

use super::linger::{LINGER, SHORT_LINGER};
use crate::exchange::{self, Exchange, Received, RefusedHead};
use crate::message::buffers;
use crate::message::head::RequestHead;
use crate::request::hooks::PrefaceOutcome;
use crate::settings::plan::Plan;
use crate::transport;
use crate::transport::park_state::{Evicted, HeldMemory, WaitingFor};

pub(super) use self::connection::{HEAD_PIECE, Http1Connection};
use self::repeat::Unanswered;

/// After this many pipelined requests, other connections get their turn.
const PIPELINED: u32 = 16;

impl Connection for Http1Connection {
    fn step(&mut self, stage: Stage) -> Stepping<'_> {
        if self.upgraded.is_some() {
            return self.upgraded.as_mut().map_or(Stepping::Done(Stage::Closed), |upgraded| upgraded.step(stage));
        }
        match stage {
            Stage::Serve => {
                self.go_on();
                if let Some(exchange) = self.unexpected.take() {
                    return Stepping::waiting(self.answer_prepared(*exchange));
                }
                match self.serve_at_once() {
                    Ok(next) => Stepping::Done(next),
                    Err(Unanswered::Prepared(begun)) => match self.begin_prepared(begun) {
                        Some(exchange) => Stepping::waiting(self.answer_prepared(exchange)),
                        None => Stepping::Resting(self),
                    },
                    Err(Unanswered::New(head)) => Stepping::waiting(self.serve(head)),
                }
            }
            Stage::ReadHead => Stepping::waiting(self.read_head()),
            Stage::WriteCompletion => Stepping::waiting(self.write_completion()),
            Stage::KeepAlive => Stepping::Resting(self),
            Stage::Tunnel => Stepping::waiting(self.tunnel()),
            Stage::Linger => Stepping::waiting(self.linger(LINGER)),
            Stage::ShortLinger => Stepping::waiting(self.linger(SHORT_LINGER)),
            Stage::Closed => Stepping::Done(Stage::Closed),
        }
    }

    fn poll_resting(&mut self, cx: &mut Context<'_>) -> Poll<Stage> {
        if self.expecting.is_some() { self.poll_expected(cx) } else { self.poll_next_request(cx) }
    }

    fn has_input(&self) -> bool {
        self.transport.has_input()
    }
}

impl Http1Connection {
    /// Starts with bytes that the client has already sent.
    pub(super) fn begin_with(&mut self, received: Vec<u8>) {
        self.buffer = received;
    }

    /// The client has spoken HTTP where TLS is expected. Its request is not read: the response goes to the stand-in
    /// request that Apache shows in its logs.
    pub(super) fn misdirected(&mut self) {
        self.client.set_misdirected();
        self.buffer = b"GET /mod_ssl:error:HTTP-request HTTP/1.0\r\n\r\n".to_vec();
    }

    /// Serves a request whose response is known, without a future: most requests are repeats. `Err`: how another one goes on.
    fn serve_at_once(&mut self) -> Result<Stage, Unanswered> {
        self.key = None;
        if self.behind >= PIPELINED || self.preface.is_some() || self.cut_off.is_some() {
            return Err(Unanswered::New(None));
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        if bytes.is_empty() {
            // If the rest is not there yet, or never will be, the stage that can wait for it finds out.
            let _ = self.transport.poll_read(&mut Context::from_waker(Waker::noop()), &mut bytes, HEAD_PIECE);
            if bytes.is_empty() {
                return Ok(Stage::ReadHead);
            }
        }
        let next = self.repeat(&mut bytes);
        if next.is_err() {
            self.buffer = bytes;
        }
        next
    }

    /// Serves a request: from its complete head to as much of its response as fits into the socket. `head`: its head, if it
    /// was parsed.
    async fn serve(&mut self, head: Option<Arc<RequestHead>>) -> Stage {
        let (head, rest) = match head {
            Some(head) => (head, Vec::new()),
            None => match self.next_head().await {
                Ok(next) => next,
                Err(stage) => return stage,
            },
        };
        self.respond(head, rest).await
    }

    /// The next head, and the bytes received after it. `Err`: there is none; what comes instead.
    async fn next_head(&mut self) -> Result<(Arc<RequestHead>, Vec<u8>), Stage> {
        if self.behind >= PIPELINED {
            self.behind = 0;
            runtime::yield_now().await;
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        if bytes.is_empty() {
            // If the rest is not there yet, or never will be, the stage that can wait for it finds out.
            let _ = self.transport.poll_read(&mut Context::from_waker(Waker::noop()), &mut bytes, HEAD_PIECE);
        }
        if self.preface.is_some() {
            match self.take_preface(&mut bytes) {
                Some(Stage::Serve) => {}
                Some(next) => return Err(next),
                None => {
                    self.buffer = bytes;
                    return Err(if self.cut_off.is_some() { Stage::Closed } else { Stage::ReadHead });
                }
            }
        }
        let mut head = buffers::take_head();
        let why = match Head::parse(&bytes, &self.plan().limits, &mut head) {
            Ok(Parse::Complete { len }) => {
                let rest = if bytes.len() > len { bytes.split_off(len) } else { Vec::new() };
                return Ok((RequestHead::received(bytes, head).into(), rest));
            }
            Ok(Parse::Partial) => match self.cut_off {
                None => {
                    buffers::give_head(head);
                    self.buffer = bytes;
                    return Err(Stage::ReadHead);
                }
                Some(why) => why,
            },
            Err(error) => RefusedHead::Invalid(error),
        };
        let row = self.workers.acquire();
        Err(self.refuse(self.begin(RequestHead::received(bytes, head).into(), Some(why), row)).await)
    }

    /// Reads a head to its end, or to its first error.
    async fn read_head(&mut self) -> Stage {
        let start = Instant::now();
        self.transport.park_state().wait(WaitingFor::Head, start);
        let next = self.read_head_since(start).await;
        self.transport.park_state().go_on();
        next
    }

    async fn read_head_since(&mut self, start: Instant) -> Stage {
        let plan = *self.plan();
        let mut row = self.workers.acquire();
        row.park();
        let mut head = Head::default();
        loop {
            let mut deadline = Instant::now() + plan.timeout;
            if let Some(limit) = plan.head_timeout {
                deadline = deadline.min(limit.deadline(start, self.buffer.len() as u64));
            }
            self.transport.park_state().hold(HeldMemory::Input, self.buffer.len());
            self.announced = None; // The end of a head may be sent after the tick that announced its beginning.
            let Self { timer, transport, buffer, .. } = self;
            let received = poll_fn(|cx| match transport.poll_read(cx, buffer, HEAD_PIECE) {
                Poll::Ready(received) => Poll::Ready(Ok(received)),
                Poll::Pending => transport.park_state().poll_evicted(cx).map(Err),
            });
            self.cut_off = match timer.until(deadline, received).await {
                Some(Ok(Ok(0))) if !self.buffer.is_empty() => Some(RefusedHead::Truncated),
                Some(Ok(Ok(0))) => {
                    self.transport.close();
                    return Stage::Closed;
                }
                Some(Ok(Err(_))) => return Stage::Closed,
                Some(Ok(Ok(_))) if self.needs_more_input(&plan, &mut head) => continue,
                Some(Ok(Ok(_))) => None,
                Some(Err(Evicted::Memory)) => Some(RefusedHead::NoRoom),
                Some(Err(Evicted::Place)) | None => Some(RefusedHead::Timeout),
            };
            return Stage::Serve;
        }
    }

    /// Whether more must arrive before anything can be served: the rest of a preface, or of a head.
    fn needs_more_input(&self, plan: &Plan, head: &mut Head) -> bool {
        let start = match self.preface.map(|preface| (preface.read)(&self.buffer)) {
            Some(None) => return true,
            Some(Some(PrefaceOutcome::Broken(..))) => return false,
            Some(Some(PrefaceOutcome::Announced(_, length))) => length,
            None => 0,
        };
        Head::parse(&self.buffer[start..], &plan.limits, head) == Ok(Parse::Partial)
    }

    /// The settings before the virtual host is known: the first one of the address decides.
    fn plan(&mut self) -> &'static Plan {
        let (server, client) = (self.running.server, &self.client);
        &self.by_address.get_or_insert_with(|| exchange::virtual_host(server, client, None).0).plan
    }

    fn begin(&self, head: Arc<RequestHead>, broken: Option<RefusedHead>, row: Row) -> Exchange {
        let received = Received { broken, ..Received::whole(head) };
        Exchange::begin(self.running, &self.client, received, row, self.traffic)
    }

    /// Processes a request and writes its response. `rest`: the bytes received after its head.
    async fn respond(&mut self, head: Arc<RequestHead>, rest: Vec<u8>) -> Stage {
        let row = self.workers.acquire();
        let (table, text) = head.parts();
        let framing = match Framing::of(table, text) {
            Ok(framing) => framing,
            Err(error) => return self.refuse(self.begin(head, Some(RefusedHead::Invalid(error)), row)).await,
        };
        let (wish, expects) = (Persistence::of(table, text), expects_continue(&head));
        self.cut_off = None;
        let mut exchange = self.begin(head, None, row);
        if exchange.refusal().is_some() {
            return self.refuse(exchange).await;
        }
        let request = &mut exchange.request;
        request.may_prepare_others = self.key.is_some();
        request.account.tick = self.announced.take().inspect(|tick| tick::resume(*tick));
        self.wish = wish;
        self.received = request.data.head.len();
        if request.vhost.plan.upgrades {
            if let Some(upgrade) = self.asks_for_http2(request, framing) {
                self.buffer = rest;
                return Box::pin(self.upgrade(exchange, upgrade)).await;
            }
            self.offer_http2(request);
        }
        if framing.has_body() {
            self.received += rest.len() as u64;
            let body = body::incoming(
                &self.transport,
                framing,
                rest,
                expects,
                request.vhost.plan.body,
                request.data.head.len(),
            );
            if let Some((incoming, body)) = body {
                self.incoming = Some(incoming);
                request.body = body;
            }
        } else if !rest.is_empty() {
            self.buffer = rest;
        }
        request.interim = self.interim.take();
        match transport::unless_reset(&*self.transport, exchange.respond()).await {
            Some(response) => self.write(exchange, response).await,
            None => self.give_up(exchange),
        }
    }
}

fn expects_continue(head: &RequestHead) -> bool {
    // HTTP/1.0 knows no interim answers (RFC 9110 section 10.1.1).
    head.version() >= http::Version::Http11
        && head.field(http::KnownField::Expect).is_some_and(|expect| expect.eq_ignore_ascii_case(b"100-continue"))
}

#[cfg(test)]
mod tests;
