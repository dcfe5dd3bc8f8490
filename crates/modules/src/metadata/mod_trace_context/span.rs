//! A request as a span in OpenTelemetry's JSON.
//!
//! OpenTelemetry Protocol 1, `opentelemetry/proto/trace/v1/trace.proto`; semantic conventions for HTTP spans, 1.23 and later.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use serde_json::{Value, json};
use server::{Request, TO_BACKEND};

use super::channel::LINE_MAX;

/// The note with the ids of a request that is recorded: trace, span and, if there is one, parent, in hexadecimal digits.
const IDS: &str = "trace-context-ids";

/// The lengths of a trace's and of a span's id, in digits.
const TRACE: usize = 32;
const SPAN: usize = 16;

/// The methods that have a name of their own in the conventions; others may be anything.
const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];

/// How much remains of a long text, in bytes. If the line is too long with the first, the next is tried.
const CUTS: [usize; 3] = [1024, 256, 64];

/// `SPAN_KIND_SERVER`, and `STATUS_CODE_ERROR`.
const SERVER: u32 = 2;
const ERROR: u32 = 2;

/// Notes that the request is recorded, under these ids.
pub(super) fn record(request: &mut Request, trace: &str, span: &str, parent: Option<&str>) {
    request.notes.set(IDS, [trace, span, parent.unwrap_or_default()].concat());
}

/// The ids of a request that is recorded.
fn ids(request: &Request) -> Option<&str> {
    request.original().map_or(&request.notes, |original| &original.notes).get(IDS)
}

/// Whether a request is recorded.
pub(super) fn is_recorded(request: &Request) -> bool {
    ids(request).is_some()
}

/// The line for a request whose response has gone out; `None`: it is not recorded.
pub(super) fn line(request: &Request) -> Option<Vec<u8>> {
    let ids = ids(request)?;
    let mut line = Vec::new();
    for cut in CUTS {
        line = span(request, ids, cut).to_string().into_bytes();
        line.push(b'\n');
        if line.len() <= LINE_MAX {
            break;
        }
    }
    Some(line)
}

fn span(request: &Request, ids: &str, cut: usize) -> Value {
    let (trace, rest) = ids.split_at_checked(TRACE).unwrap_or_default();
    let (own, parent) = rest.split_at_checked(SPAN).unwrap_or_default();
    let begin = request.time();
    let end = begin + request.account.sent.duration;
    let mut span = json!({
        "traceId": trace,
        "spanId": own,
        "name": name(request, cut),
        "kind": SERVER,
        "startTimeUnixNano": begin.as_nanos().to_string(),
        "endTimeUnixNano": end.as_nanos().to_string(),
        "attributes": attributes(request, cut),
    });
    if !parent.is_empty() {
        span["parentSpanId"] = parent.into();
    }
    if request.response.status() >= 500 {
        span["status"] = json!({ "code": ERROR });
    }
    span
}

/// The method, and what the configuration had answer: few names, whatever clients ask for.
fn name(request: &Request, cut: usize) -> String {
    let method = known(&method(request)).unwrap_or("HTTP");
    match handler(request) {
        Some(handler) => format!("{method} {}", shown(handler, cut)),
        None => method.into(),
    }
}

/// The handler, if the request had another one than that for files.
fn handler(request: &Request) -> Option<&str> {
    let name = request.mapped.handler.as_deref()?;
    Some(if name.starts_with(TO_BACKEND) { "proxy-server" } else { name })
}

/// The method of the client's own request.
fn method(request: &Request) -> Cow<'_, str> {
    request.original().map_or(Cow::Borrowed(&*request.data.method), |original| Cow::Borrowed(&*original.method))
}

fn known(method: &str) -> Option<&'static str> {
    METHODS.into_iter().find(|known| *known == method)
}

fn attributes(request: &Request, cut: usize) -> Vec<Value> {
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": shown(value, cut) } });
    let (method, status, client) = (method(request), request.response.status(), request.client());
    let mut all = vec![
        text("http.request.method", known(&method).unwrap_or("_OTHER")),
        text("url.path", &path(request)),
        text("url.scheme", if client.is_secure() { "https" } else { "http" }),
        number("http.response.status_code", status),
        number("http.response.body.size", request.account.sent.body),
        text("server.address", request.data.hostname.as_deref().unwrap_or(&request.vhost.name)),
        number("server.port", request.local().port()),
        text("client.address", client.ip()),
        text("network.peer.address", &client.connection().peer.ip().to_canonical().to_string()),
        number("network.peer.port", client.connection().peer.port()),
        text("network.protocol.version", version(request)),
    ];
    if known(&method).is_none() {
        all.push(text("http.request.method_original", &method));
    }
    if status >= 500 {
        all.push(text("error.type", &status.to_string()));
    }
    if let Some(agent) = request.header("User-Agent") {
        all.push(text("user_agent.original", &agent));
    }
    if let Some(script) = &request.account.script {
        all.push(seconds("tsubame.script.queued", script.queued));
        all.push(seconds("tsubame.script.started", script.spawned()));
    }
    if let Some(upstream) = &request.account.upstream {
        all.push(text("tsubame.upstream.name", &upstream.name));
        all.push(text("tsubame.upstream.address", &upstream.address));
        all.extend(upstream.connected().map(|time| seconds("tsubame.upstream.connected", time)));
        all.extend(upstream.begun().map(|time| seconds("tsubame.upstream.first_byte", time)));
    }
    all
}

/// Integers of 64 bits are texts in the JSON of protocol buffers.
fn number(key: &str, value: impl Display) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

fn seconds(key: &str, time: Duration) -> Value {
    json!({ "key": key, "value": { "doubleValue": time.as_secs_f64() } })
}

/// The path as the client sent it. Queries stay here: they hold what people type.
fn path(request: &Request) -> String {
    let target = request.data.sent_target();
    let target = target.split(['?', '#']).next().unwrap_or_default();
    match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]).into(),
        _ => target.into(),
    }
}

fn version(request: &Request) -> &'static str {
    match request.data.stream {
        Some(_) => "2",
        None => request.protocol().strip_prefix("HTTP/").unwrap_or_default(),
    }
}

/// A text for people, cut to this length.
fn shown(text: &str, most: usize) -> String {
    let bytes = http::text::to_bytes(text);
    String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
}
