//! The whole way of a request through a backend.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use conf::Level;
use server::{ChildSpan, HandlerResult, Request, Running};
use sys::time::Instant;

use super::call::{BackendCall, Head, StderrMessages};
use super::class::EncodedClass;
use super::exchange::BackendExchange;
use super::lease::{Lease, NoBackend};
use super::manager_messages::Outcome;
use super::tunnel;
use crate::caller::Caller;
use crate::protocol::Protocol;
use crate::script::{Failure, Reached, Script};
use crate::{env, response};
use upstream::Stream;

/// How many backends a request may try, if one after the other is gone before it got the request.
const TRIES: u32 = 3;

/// Lets a backend of the class serve the request, and turns its output into a response.
pub async fn respond(
    request: &mut Request,
    caller: Caller,
    class: &EncodedClass,
    head: &Head,
    stderr: StderrMessages,
) -> HandlerResult {
    let running = request.begin_script();
    let span = running.as_ref().map(Running::span);
    env::add(request).await;
    let bytes = match head.bytes(request, true) {
        Ok(bytes) => bytes,
        Err(length) => return too_long(request, &caller, length),
    };
    let may_repeat = is_safe(request);
    let (offer, says) = caller.tunnel.map(tunnel::offer).unzip();
    let call = BackendCall { caller: &caller, head, stderr, tunnel: says.as_ref() };
    let call = PoolCall { call, class, may_repeat, span: span.as_deref() };
    let result = match (call.begin(request, bytes).await, offer) {
        (Ok(script), Some(offer)) => offer.relay(request, script.within(running), &caller).await,
        (Ok(script), None) => response::relay(request, script.within(running), &caller).await,
        (Err(status), _) => HandlerResult::Status(status),
    };
    request.child_led_to(span.as_deref(), &result);
    result
}

/// Lets a server that already runs serve the request, over an existing connection.
pub async fn respond_over(
    request: &mut Request,
    caller: Caller,
    socket: OwnedFd,
    head: &Head,
    stderr: StderrMessages,
) -> HandlerResult {
    let running = request.begin_script();
    let span = running.as_ref().map(Running::span);
    env::add(request).await;
    let bytes = match head.bytes(request, false) {
        Ok(bytes) => bytes,
        Err(length) => return too_long(request, &caller, length),
    };
    let call = BackendCall { caller: &caller, head, stderr, tunnel: None };
    let result = match call.begin(request, Stream::new(Arc::new(socket)), None, bytes).await {
        Ok(script) => response::relay(request, script.within(running), &caller).await,
        Err(failure) => HandlerResult::Status(failed(request, &caller, &failure)),
    };
    request.child_led_to(span.as_deref(), &result);
    result
}

impl BackendCall<'_> {
    /// Sends the request over a connection, and waits until the response begins. A backend of a pool comes with its lease.
    async fn begin(
        &self,
        request: &mut Request,
        stream: Stream,
        lease: Option<Lease>,
        bytes: Vec<u8>,
    ) -> Result<Script, Failure> {
        let exchange = BackendExchange::new(request, *self, stream, lease, bytes);
        let mut script = Script::new(Box::new(exchange), self.caller);
        script.begins(request).await?;
        Ok(script)
    }
}

/// A request to a backend of a pool.
#[derive(Clone, Copy)]
pub(super) struct PoolCall<'a> {
    pub(super) call: BackendCall<'a>,
    pub(super) class: &'a EncodedClass,
    /// Asking twice is as good as asking once.
    pub(super) may_repeat: bool,
    /// The child span that it belongs to, if the request is recorded.
    pub(super) span: Option<&'a ChildSpan>,
}

impl PoolCall<'_> {
    /// Gives the request to a backend of the class, and waits until the response begins. `Err`: there is no response; this
    /// is the status, and the reason is logged.
    pub(super) async fn begin(&self, request: &mut Request, bytes: Vec<u8>) -> Result<Script, u16> {
        let PoolCall { call, class, may_repeat, span } = *self;
        let mut tries = 1;
        loop {
            span.iter().for_each(|span| span.waits());
            let (lease, stream) = match Lease::of(class).await {
                Ok(got) => got,
                Err(none) => return Err(no_backend(request, call.caller, class, none)),
            };
            span.iter().for_each(|span| span.goes_on());
            if lease.queued && request.client().has_ended() {
                // The client has closed the connection meanwhile, so the next request need not wait for an unread response.
                lease.done(Outcome::Ready, stream);
                request.log(
                    call.caller.module,
                    Level::Debug,
                    "the client closed its connection while its request was waiting for a backend",
                );
                return Err(408);
            }
            // A FastCGI application that has served enough ends by itself, without notice: one that had served before is
            // replaced once, if the request may be repeated. A request that was never sent has had no effect at all.
            let whole = request.body.is_none() && lease.served > 0;
            let may_repeat_lost = whole && tries == 1 && call.head.protocol() == Protocol::FastCgi && may_repeat;
            let may_send_again = whole && tries < TRIES;
            let began = Instant::now();
            match call.begin(request, stream, Some(lease), bytes.clone()).await {
                Ok(script) => return Ok(script),
                // One that took too long would do so again; the manager's clock differs a little from this one.
                Err(failure)
                    if failure.is_lost()
                        && (may_repeat_lost || may_send_again && failure.reached == Reached::Nothing)
                        && class.class.settings.busy.is_none_or(|busy| began.elapsed() < busy / 2) =>
                {
                    tries += 1;
                }
                Err(failure) => return Err(failed(request, call.caller, &failure)),
            }
        }
    }
}

/// Whether asking twice is as good as asking once, and changes nothing (RFC 9110 section 9.2.1).
pub(super) fn is_safe(request: &Request) -> bool {
    matches!(&*request.data.method, "GET" | "HEAD" | "OPTIONS")
}

/// Logs why there is no response. Returns its status.
fn failed(request: &Request, caller: &Caller, failure: &Failure) -> u16 {
    request.log(caller.module, failure.level, &failure.text);
    failure.status
}

pub(super) fn too_long(request: &Request, caller: &Caller, length: usize) -> HandlerResult {
    let text = format!("{}: {length} bytes of variables are too many for the protocol", request.mapped.filename);
    request.log(caller.module, Level::Error, text);
    HandlerResult::Status(400)
}

/// Logs why there is no backend. Returns the status of the response.
fn no_backend(request: &mut Request, caller: &Caller, class: &EncodedClass, none: NoBackend) -> u16 {
    let (status, why) = match none {
        NoBackend::Refused { status, why } => (status, why),
        NoBackend::NoManager => (503, "there is no process manager".to_string()),
        NoBackend::TooLong => (500, "its command and environment are too long".to_string()),
        NoBackend::Failed(error) => (503, format!("cannot reach the process manager: {}", sys::describe(&error))),
    };
    request.log(
        caller.module,
        Level::Error,
        format!("no backend for {} ({}): {why}", request.mapped.filename, class.class.name),
    );
    if status == 503 {
        request.response.err_headers_out.set("Retry-After", "1");
    }
    status
}
