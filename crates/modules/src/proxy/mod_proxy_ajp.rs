//! AJP/1.3, the protocol of Tomcat and its relatives, to servers behind this one.
//!
//! Apache manual: mod_proxy_ajp, which describes the protocol. The packets of requests are those of 2.4.71. Unlike Apache, a
//! response that two readers could read differently is refused.

mod exchange;
mod forward;
mod packet;
mod response;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conf::{Level, ModuleInfo};
use server::{HandlerResult, Module, Request};
use sys::time::Instant;
use upstream::{Connection, Fault, NoConnection, pool};

use self::exchange::{Exchange, Failure};
use super::mod_proxy::{Destination, Scheme, proxy_error};
use super::mod_proxy_http::{IDEMPOTENT, YOUNG};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_ajp_module", source: "mod_proxy_ajp.c", linked: false, directives: &[] },
    hooks: &[],
};

/// `ajp://`, for mod_proxy.
pub(super) const SCHEME: Scheme = Scheme {
    name: "ajp",
    module: "proxy_ajp_module",
    port: 8009,
    query: true,
    reuse: true,
    upgrade: None,
    path: |_, _| {},
    handler: Some(|request, destination| Box::pin(handle(request, destination))),
};

/// The module's name in log lines.
const NAME: &str = "proxy_ajp";
/// The length of packets that backends can read if nothing else is configured for them, and the greatest that their own
/// settings allow.
const PACKET: usize = 8 * 1024;
const PACKET_MAX: usize = 64 * 1024;
/// Lengths of packets are multiples of this.
const PACKET_UNIT: usize = 1024;

async fn handle(request: &mut Request, destination: Arc<Destination>) -> HandlerResult {
    let most = destination.ajp.buffer.unwrap_or(PACKET).clamp(PACKET, PACKET_MAX).next_multiple_of(PACKET_UNIT);
    let Some(forward) = forward::packet(request, &destination, most) else {
        let text = format!(
            "AH00868: request failed to {}: its fields do not fit into a packet of {most} bytes (iobuffersize)",
            destination.server.name
        );
        request.log(NAME, Level::Error, text);
        return HandlerResult::Status(400);
    };
    let may_repeat = request.body.is_none() && IDEMPOTENT.contains(&&*request.data.method);
    let keep = destination.server.keep.filter(|_| !request.env.contains("proxy-nokeepalive"));
    let is_first = request.client().keepalives.load(Ordering::Relaxed) == 0;
    let takes_kept = !(is_first && request.env.contains("proxy-initial-not-pooled"));
    // A backend that has just answered CPING is there.
    let within = (!may_repeat && destination.ajp.ping.is_none()).then_some(YOUNG);
    let mut kept = keep.filter(|_| takes_kept).and_then(|keep| pool::take(&destination.kind, keep, within));
    loop {
        let is_kept = kept.is_some();
        let connection = match kept.take() {
            Some(connection) => {
                destination.server.note_reused();
                connection
            }
            None => match connect(request, &destination).await {
                Ok(connection) => connection,
                Err(answer) => return answer,
            },
        };
        let mut exchange = Exchange::new(connection, request.body.clone(), most, destination.timeout);
        if let Some(time) = destination.ajp.ping
            && let Err(failure) = exchange.ping(time).await
        {
            if is_kept {
                continue;
            }
            return not_alive(request, &destination, time, &failure);
        }
        if let Some(attempt) = &destination.attempt {
            attempt.add_sent(forward.len() as u64 + request.body.length().unwrap_or(0));
        }
        let began = Instant::now();
        let head = match exchange.begin(forward.clone()).await {
            Ok(()) => response::head(&mut exchange).await,
            Err(failure) => Err(failure),
        };
        match head {
            Ok(head) => {
                destination.server.note_begun(request, began.elapsed());
                let back = keep.map(|keep| (destination.clone(), keep));
                return response::make(request, exchange, head, &destination, back).await;
            }
            Err(failure) => {
                let is_unanswered = matches!(failure, Failure::Lost(_))
                    && !exchange.has_begun()
                    && may_repeat
                    && !exchange.has_sent_body();
                if is_unanswered && is_kept {
                    continue;
                }
                if let Some(attempt) = destination.attempt.iter().find(|_| is_unanswered) {
                    attempt.set_unanswered();
                }
                return response::failed(request, &destination, &failure);
            }
        }
    }
}

/// Makes a connection. `Err`: the answer without one.
async fn connect(request: &mut Request, destination: &Destination) -> Result<Connection, HandlerResult> {
    upstream::connect(request, &destination.server, "AJP").await.map_err(|failure: NoConnection| {
        destination.attempt.iter().for_each(|attempt| attempt.set_unreached());
        let text = format!("AH00896: failed to make connection to backend: {}", destination.target.host);
        request.log(NAME, Level::Error, text);
        HandlerResult::Status(failure.status())
    })
}

/// The answer where a new connection leads to nobody who answers CPING: the request has not been sent.
fn not_alive(request: &mut Request, destination: &Destination, time: Duration, failure: &Failure) -> HandlerResult {
    destination.attempt.iter().for_each(|attempt| attempt.set_unreached());
    destination.server.note_fault(Fault::Connect);
    let text =
        format!("AH00897: cping/cpong failed to {} within {} ms: {failure}", destination.server.name, time.as_millis());
    request.log(NAME, Level::Error, text);
    proxy_error(request, 503, "The server does not answer")
}
