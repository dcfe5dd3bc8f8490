//! HTTP/2 to servers behind this one, by the URLs `h2://` (encrypted) and `h2c://` (not encrypted, and without HTTP/1.1 before).
//!
//! Apache manual: mod_proxy_http2. What a request becomes was measured on 2.4.71. Unlike Apache, requests of different clients share
//! a connection.

mod head;
mod response;

use std::sync::Arc;

use conf::{Level, ModuleInfo};
use server::{HandlerResult, Module, Request};
use sys::time::Instant;
use upstream::NoConnection;
use upstream::http2::{Exchange, Failure, Link, Outgoing, link};

use super::mod_proxy::{Destination, Scheme, asks_first, is_trailer};
use super::mod_proxy_http::{IDEMPOTENT, encryption_of, has_ended, last_stop, unconnected};

use self::head::RequestHead;
use self::response::NAME;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_http2_module", source: "mod_proxy_http2.c", linked: false, directives: &[] },
    hooks: &[],
};

/// `h2c://`, for mod_proxy.
pub(super) const SCHEME: Scheme = Scheme {
    name: "h2c",
    module: "proxy_http2_module",
    port: 80,
    query: true,
    reuse: true,
    upgrade: None,
    path: |_, _| {},
    handler: Some(|request, destination| Box::pin(handle(request, destination))),
};

/// `h2://`, for mod_proxy.
pub(super) const SECURE_SCHEME: Scheme = Scheme { name: "h2", port: 443, ..SCHEME };

/// How often a request looks for a connection whose room no other one takes first.
const LOOKS: usize = 8;

/// How often a request that servers do not process is sent again.
const REPEATS_MAX: usize = 3;

async fn handle(request: &mut Request, mut destination: Arc<Destination>) -> HandlerResult {
    if has_ended(request) {
        return last_stop(request);
    }
    if destination.target.scheme == SECURE_SCHEME.name {
        match encryption_of(request, &destination) {
            Ok(tls) => destination = Arc::new(destination.encrypted(tls.speaking("h2"))),
            Err(status) => return HandlerResult::Status(status),
        }
    }
    let head = match RequestHead::of(request, &destination) {
        Ok(head) => head,
        Err(status) => return HandlerResult::Status(status),
    };
    let is_idempotent = request.body.is_none() && IDEMPOTENT.contains(&&*request.data.method);
    let mut repeats = 0;
    loop {
        let (mut exchange, is_kept) = match begin(request, &destination, &head).await {
            Ok(begun) => begun,
            Err(answer) => return answer,
        };
        if is_kept {
            destination.server.note_reused();
        }
        let began = Instant::now();
        if let Some(attempt) = &destination.attempt {
            attempt.add_sent(head.size() + request.body.length().unwrap_or(0));
        }
        let failure = match response::final_head(request, &mut exchange).await {
            Ok(head) => {
                destination.server.note_begun(request, began.elapsed());
                return response::make(request, exchange, head, &destination);
            }
            Err(failure) => failure,
        };
        // A request that was not processed may go elsewhere whatever its method is (RFC 9113 section 8.7).
        let is_unprocessed = matches!(failure, response::NoResponse::Failure(Failure::Unprocessed));
        let may_be_repeated = match &failure {
            _ if is_unprocessed => !exchange.has_sent_body(),
            response::NoResponse::Failure(Failure::Lost(_)) => is_idempotent && !exchange.has_begun(),
            _ => false,
        };
        if may_be_repeated {
            let unsent = exchange.take_unsent();
            if !unsent.is_empty() {
                request.body = request.body.after(vec![unsent], false);
            }
            // Others may share a connection that the server leaves, and the next one, too.
            let goes_again = if is_unprocessed { repeats < REPEATS_MAX } else { repeats == 0 && is_kept };
            if goes_again {
                repeats += 1;
                continue;
            }
            destination.attempt.iter().for_each(|attempt| attempt.set_unanswered());
        }
        return response::failed(request, &destination, failure);
    }
}

/// Sends a request over a connection. Returns whether that has carried others before. `Err`: the answer without one.
async fn begin(
    request: &mut Request,
    destination: &Destination,
    head: &RequestHead,
) -> Result<(Exchange, bool), HandlerResult> {
    for _ in 0..LOOKS {
        let link = connection(request, destination).await?;
        let is_kept = link.is_kept();
        let outgoing = Outgoing {
            body: Some(request.body.clone()).filter(|body| !body.is_none()),
            asks_first: asks_first(request),
            to_head: request.data.method == "HEAD",
            timeout: destination.timeout,
            is_trailer,
        };
        match Exchange::begin(link, outgoing, |writer| head.write(writer)) {
            Ok(Some(exchange)) => return Ok((exchange, is_kept)),
            Ok(None) => {}
            Err(_) => {
                request.log(NAME, Level::Error, "a field cannot be passed on: it holds a control character");
                return Err(HandlerResult::Status(400));
            }
        }
    }
    let text = format!("AH03372: session unavailable: no connection to {} has room", destination.server.name);
    request.log(NAME, Level::Error, text);
    Err(unconnected(request, destination, NoConnection::Unreachable(503)))
}

/// A connection for the request. `Err`: the answer without one.
async fn connection(request: &mut Request, destination: &Destination) -> Result<Link, HandlerResult> {
    let keep = destination.server.keep.filter(|_| !request.env.contains("proxy-nokeepalive"));
    let linked = link(request, &destination.server, &destination.kind, keep).await;
    linked.map_err(|why| {
        if let NoConnection::Unreachable(_) = why {
            let text = format!("AH03352: H2: failed to make connection to backend: {}", destination.target.host);
            request.log(NAME, Level::Error, text);
        }
        unconnected(request, destination, why)
    })
}
