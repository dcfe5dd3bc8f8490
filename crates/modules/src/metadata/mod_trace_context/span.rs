//! A request as a span in OpenTelemetry's JSON.
//!
//! OpenTelemetry Protocol 1, `opentelemetry/proto/trace/v1/trace.proto`; semantic conventions for HTTP spans, 1.23 and later.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use serde_json::{Value, json};
use server::{RecordedTrace, Request, TO_BACKEND};

use super::channel::LINE_MAX;

/// The methods that have a name of their own in the conventions; others may be anything.
const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];

/// How much remains of a long text, in bytes. If the line is too long with the first, the next is tried.
const CUTS: [usize; 3] = [1024, 256, 64];

/// `SPAN_KIND_SERVER`, and `STATUS_CODE_ERROR`.
const SERVER: u32 = 2;
pub(super) const ERROR: u32 = 2;

/// The line for a request whose response has gone out.
pub(super) fn line(request: &Request, recorded: &RecordedTrace) -> Vec<u8> {
    fitting(|cut| span(request, recorded, cut))
}

/// A span as a line, with its long texts cut as far as they have to be.
pub(super) fn fitting(span: impl Fn(usize) -> Value) -> Vec<u8> {
    let mut line = Vec::new();
    for cut in CUTS {
        line = span(cut).to_string().into_bytes();
        line.push(b'\n');
        if line.len() <= LINE_MAX {
            break;
        }
    }
    line
}

fn span(request: &Request, recorded: &RecordedTrace, cut: usize) -> Value {
    let begin = request.time();
    let end = begin + request.account.sent.duration;
    let mut span = json!({
        "traceId": recorded.trace,
        "spanId": recorded.span,
        "name": name(request, cut),
        "kind": SERVER,
        "startTimeUnixNano": begin.as_nanos().to_string(),
        "endTimeUnixNano": end.as_nanos().to_string(),
        "attributes": attributes(request, cut),
    });
    if let Some(parent) = &recorded.parent {
        span["parentSpanId"] = parent.as_str().into();
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
    request.mapped.handler.as_deref().map(shown_handler)
}

/// The name of a handler, without the URL that may be its own.
pub(super) fn shown_handler(name: &str) -> &str {
    if name.starts_with(TO_BACKEND) { "proxy-server" } else { name }
}

/// The method of the client's own request.
pub(super) fn method(request: &Request) -> Cow<'_, str> {
    request.original().map_or(Cow::Borrowed(&*request.data.method), |original| Cow::Borrowed(&*original.method))
}

pub(super) fn known(method: &str) -> Option<&'static str> {
    METHODS.into_iter().find(|known| *known == method)
}

fn attributes(request: &Request, cut: usize) -> Vec<Value> {
    let text = |key: &str, value: &str| text(key, value, cut);
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

pub(super) fn text(key: &str, value: &str, cut: usize) -> Value {
    json!({ "key": key, "value": { "stringValue": shown(value, cut) } })
}

/// Integers of 64 bits are texts in the JSON of protocol buffers.
pub(super) fn number(key: &str, value: impl Display) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

pub(super) fn seconds(key: &str, time: Duration) -> Value {
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
pub(super) fn shown(text: &str, most: usize) -> String {
    let bytes = http::text::to_bytes(text);
    String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
}
