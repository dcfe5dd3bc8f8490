//! HTTP/1.1 to servers behind this one.
//!
//! Apache manual: mod_proxy_http. What the fields of each message become was measured on 2.4.71. Unlike Apache this
//! refuses responses that two readers could read differently, and it streams the bodies of requests.

mod connection;
mod encryption;
mod recurring;
mod response;
mod tunnel;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use conf::{Level, ModuleInfo};
use gateway::body_buffer::{IN_MEMORY, buffer_body};
use http::text::{from_bytes, to_bytes};
use http::{HeadWriter, KnownField, Version};
use server::{BodyError, HandlerResult, Module, Request};
use sys::time::Instant;
use upstream::http1::{Coding, Exchange, Failure};
use upstream::{Connection, ExpectedExchange, Keep, NoConnection, Room, Stream, pool};

use super::mod_proxy::{BLOCKED, Destination, Forwarded, Scheme, asks_first, fields, host, proxy_error};

use self::connection::{Back, NAME};
pub(super) use self::encryption::of as encryption_of;
use self::response::{Final, NoResponse};
pub(super) use self::tunnel::pass_on;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_http_module", source: "mod_proxy_http.c", linked: false, directives: &[] },
    hooks: &[],
};

/// `http://`, for mod_proxy.
pub(super) const SCHEME: Scheme = Scheme {
    upgrade: None,
    name: "http",
    module: "proxy_http_module",
    port: 80,
    query: true,
    reuse: true,
    path: |_, _| {},
    handler: Some(|request, destination| Box::pin(handle(request, destination))),
};

/// `https://`, for mod_proxy.
pub(super) const SECURE_SCHEME: Scheme = Scheme { name: "https", port: 443, ..SCHEME };

/// The methods whose effect is the same if a request arrives twice (RFC 9110 section 9.2.2).
pub(super) const IDEMPOTENT: [&str; 5] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];
/// How much of a body of unknown length may be here already without its end, in bytes: 16 KB, as in Apache.
const PRESENT_MAX: usize = 16 * 1024;
/// A request that must not be sent twice goes over a kept connection only if that was in use so recently: the server may
/// be about to close one that has been idle for longer.
pub(super) const YOUNG: Duration = Duration::from_secs(1);

async fn handle(request: &mut Request, mut destination: Arc<Destination>) -> HandlerResult {
    if has_ended(request) {
        return last_stop(request);
    }
    if encryption::is_demanded(&destination) {
        match encryption::of(request, &destination) {
            Ok(tls) => destination = Arc::new(destination.encrypted(tls)),
            Err(status) => return HandlerResult::Status(status),
        }
    }
    let body = match outgoing_body(request).await {
        Ok(body) => body,
        Err(status) => return HandlerResult::Status(status),
    };
    let is_single = ["proxy-nokeepalive", "force-proxy-request-1.0"].iter().any(|name| request.env.contains(name));
    let keep = destination.server.keep.filter(|_| !is_single);
    let upgrade = tunnel::wanted(request, &destination);
    // The backend was asked already, as for a request with this head before.
    let begun = request.take_asked::<ExpectedExchange>();
    let mut begun = begun.and_then(|begun| begun.into_exchange(destination.timeout));
    let mut room = Room::take();
    if begun.is_none()
        && let Err(status) = head(request, &destination, body.as_ref(), keep, upgrade.as_deref(), &mut room.request)
    {
        return HandlerResult::Status(status);
    }
    let may_repeat = body.is_none() && IDEMPOTENT.contains(&&*request.data.method);
    let is_first = request.client().keepalives.load(Ordering::Relaxed) == 0;
    let takes_kept = !(is_first && request.env.contains("proxy-initial-not-pooled"));
    let within = (!may_repeat).then_some(YOUNG);
    let mut kept = keep
        .filter(|_| takes_kept && begun.is_none())
        .and_then(|keep| pool::take_stream(&destination.kind, keep, within));
    loop {
        let is_kept = kept.is_some() || begun.is_some();
        let began = Instant::now();
        let mut exchange = match begun.take() {
            Some(exchange) => {
                destination.server.note_reused();
                exchange
            }
            None => {
                let stream = match kept.take() {
                    Some(stream) => {
                        destination.server.note_reused();
                        stream
                    }
                    None => match connect(request, &destination).await {
                        Ok(connection) => Stream::new(connection),
                        Err(answer) => return answer,
                    },
                };
                let outgoing = body.as_ref().map(|(body, coding)| (body.clone(), *coding));
                if let Some(attempt) = &destination.attempt {
                    let body = body.as_ref().and_then(|(body, _)| body.length()).unwrap_or(0);
                    attempt.add_sent(room.request.len() as u64 + body);
                }
                Exchange::new(stream, room, outgoing, destination.timeout)
            }
        };
        if asks_first(request) {
            exchange.hold_body();
        }
        let begun = response::final_head(request, &mut exchange, upgrade.as_deref()).await;
        if begun.is_ok() {
            destination.server.note_begun(request, began.elapsed());
        }
        match begun {
            Ok(Final::Tunnel(protocol)) => {
                return tunnel::make(request, exchange, protocol, destination.timeout);
            }
            Ok(Final::Response) => {
                let back = keep.map(|keep| Back { destination: destination.clone(), keep });
                return response::make(request, exchange, &destination, back);
            }
            Err(NoResponse::Failure(Failure::Lost(_))) if is_kept && may_repeat && !exchange.has_begun() => {
                room = exchange.into_room();
            }
            Err(why) => {
                let is_unanswered = matches!(why, NoResponse::Failure(Failure::Lost(_))) && !exchange.has_begun();
                if let Some(attempt) = destination.attempt.iter().find(|_| is_unanswered && may_repeat) {
                    attempt.set_unanswered();
                }
                return response::failed(request, &destination, why);
            }
        }
    }
}

/// Makes a connection. `Err`: the answer without one.
async fn connect(request: &mut Request, destination: &Destination) -> Result<Connection, HandlerResult> {
    let connected = upstream::connect(request, &destination.server, "HTTP").await;
    connected.map_err(|why| {
        if let NoConnection::Unreachable(_) = why {
            let text = format!("AH01114: HTTP: failed to make connection to backend: {}", destination.target.host);
            request.log(NAME, Level::Error, text);
        }
        unconnected(request, destination, why)
    })
}

/// The answer to a request without a connection.
pub(super) fn unconnected(request: &mut Request, destination: &Destination, why: NoConnection) -> HandlerResult {
    match why {
        NoConnection::Unreachable(status) => {
            destination.attempt.iter().for_each(|attempt| attempt.set_unreached());
            HandlerResult::Status(status)
        }
        NoConnection::Refused => proxy_error(request, 403, BLOCKED),
        NoConnection::Handshake => {
            // Nothing of the request has gone out. The member may be all right: the client's words can be part of its name.
            destination.attempt.iter().for_each(|attempt| attempt.set_unanswered());
            proxy_error(request, why.status(), "Error during SSL Handshake with remote server")
        }
    }
}

/// Whether this server is the last that the request may reach (`Max-Forwards`, RFC 9110 section 7.6.2).
pub(super) fn has_ended(request: &Request) -> bool {
    request.data.method == "OPTIONS" && request.header("Max-Forwards").is_some_and(|text| text.trim() == "0")
}

/// The response to a request that may go no further.
pub(super) fn last_stop(request: &mut Request) -> HandlerResult {
    let allowed = request.allowed_methods();
    request.response.headers_out.set("Allow", allowed);
    HandlerResult::Body(server::Body::Empty)
}

/// The body of the request, and how it goes out; `None`: there is none. `Err`: it cannot be read.
async fn outgoing_body(request: &mut Request) -> Result<Option<(server::RequestBody, Coding)>, u16> {
    if request.body.is_none() {
        return Ok(None);
    }
    if request.body.length().is_none()
        && (request.env.contains("proxy-sendcl") || request.env.contains("force-proxy-request-1.0"))
        && let Err(why) = buffer_body(request, IN_MEMORY, u64::MAX).await
    {
        request.log(NAME, Level::Error, format!("AH01089: the request body: {why}"));
        return Err(why.status());
    }
    if request.body.length().is_none() && !asks_first(request) {
        gather_present(request).await.map_err(|error| {
            request.log(NAME, Level::Error, "AH01095: Error reading request entity data");
            error.status()
        })?;
    }
    let coding = if request.body.length().is_some() { Coding::Length } else { Coding::Chunked };
    Ok(Some((request.body.clone(), coding)))
}

/// Reads the part of a body of unknown length that is here already. If that is all, its length is known now: many servers
/// understand no other bodies.
async fn gather_present(request: &mut Request) -> Result<(), BodyError> {
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut length = 0;
    let has_ended = loop {
        let body = &request.body;
        let step = std::future::poll_fn(|cx| Poll::Ready(body.poll_read(cx))).await;
        match step {
            Poll::Ready(Ok(Some(piece))) => {
                length += piece.len();
                pieces.push(piece);
                if length >= PRESENT_MAX {
                    break false;
                }
            }
            Poll::Ready(Ok(None)) => break true,
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => break false,
        }
    };
    request.body = request.body.after(pieces, has_ended);
    Ok(())
}

/// Writes the head of the request to the backend. `Err`: it cannot be sent.
fn head(
    request: &Request,
    destination: &Destination,
    body: Option<&(server::RequestBody, Coding)>,
    keep: Option<Keep>,
    upgrade: Option<&str>,
    out: &mut Vec<u8>,
) -> Result<(), u16> {
    let version = match request.env.contains("force-proxy-request-1.0") {
        true => Version::Http10,
        false => Version::Http11,
    };
    out.reserve(1024);
    let target = &destination.target;
    let asked = destination.request_target();
    let start = HeadWriter::start_request(out, &to_bytes(&request.data.method), &to_bytes(&asked), version);
    let Ok(mut head) = start else {
        let text = format!("AH10415: To be forwarded path contains control characters or spaces ({})", target.path);
        request.log(NAME, Level::Error, text);
        return Err(403);
    };
    let fields = fields(request, asks_first(request));
    let host = host(request, target);
    let length = match body {
        Some((body, Coding::Length)) => Some(("Content-Length", body.length().unwrap_or_default().to_string())),
        Some((_, Coding::Chunked)) => Some(("Transfer-Encoding", "chunked".to_string())),
        // The client says that its body is empty. A request on behalf of another has that one's field, and no body.
        None => {
            let length = request.header_bytes(KnownField::ContentLength.into());
            let says_empty = length.is_some_and(|text| text.trim_ascii() == b"0");
            says_empty.then(|| ("Content-Length", "0".to_string()))
        }
    };
    let connection = match (version, keep) {
        (Version::Http10, _) => None,
        _ if upgrade.is_some() => Some(("Connection", "Upgrade".to_string())),
        (_, Some(_)) => Some(("Connection", "Keep-Alive".to_string())),
        (_, None) => Some(("Connection", "close".to_string())),
    };
    // The key of a WebSocket over HTTP/2 has no use there (RFC 8441 section 5).
    let key = upgrade.filter(|_| request.header("Sec-WebSocket-Key").is_none()).map(tunnel::key);
    let upgrade = upgrade.map(|protocol| ("Upgrade", protocol.to_string()));
    let last = length.iter().chain(&connection).chain(&upgrade).chain(key.iter().flatten());
    let last = last.map(|(name, value)| (*name, value.as_str()));
    let last = last.chain(destination.credentials().map(|value| ("Proxy-Authorization", value)));
    let last = last.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let host = to_bytes(&host);
    let is_replaced = |field: &&Forwarded<'_>| field.is_for_proxies() && destination.credentials().is_some();
    let fields = fields.iter().filter(|field| !is_replaced(field)).map(|field| (&*field.name, &*field.value));
    for (name, value) in [(&b"Host"[..], &*host)].into_iter().chain(fields).chain(last) {
        if head.field(name, value).is_err() {
            let name = from_bytes(name);
            let text = format!("the field {name} cannot be passed on: it holds a control character");
            request.log(NAME, Level::Error, text);
            return Err(400);
        }
    }
    head.end();
    Ok(())
}
