//! The parts of a request that take time as spans: scripts, their waits, and requests to servers behind this one.

use std::time::Duration;

use serde_json::{Value, json};
use server::{ChildSpan, RecordedTrace, Request, Work, new_id};

use super::span::{ERROR, fitting, known, method, number, seconds, shown, shown_handler, text};

/// `SPAN_KIND_INTERNAL`, and `SPAN_KIND_CLIENT`.
const INTERNAL: u32 = 1;
const CLIENT: u32 = 3;

/// A shorter wait is none.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// A line for each, after the response has gone out.
pub(super) fn lines(request: &Request, recorded: &RecordedTrace) -> Vec<Vec<u8>> {
    let last = request.time() + request.account.sent.duration;
    let mut lines = Vec::new();
    for child in recorded.children() {
        // A script may live on, but its part of this request is over.
        let end = child.end().map_or(last, |end| end.min(last));
        lines.push(fitting(|cut| span(request, recorded, &child, end, cut)));
        if let Some((begin, end)) = child.wait(end).filter(|(begin, end)| *end >= *begin + WAIT_MIN) {
            let id = new_id::<8>();
            lines.push(fitting(|_| bare(recorded, [&id, &child.id], "wait", INTERNAL, (begin, end))));
        }
    }
    lines
}

/// A span without attributes, with its own id and that of its parent.
fn bare(
    recorded: &RecordedTrace,
    [own, parent]: [&str; 2],
    name: &str,
    kind: u32,
    (begin, end): (Duration, Duration),
) -> Value {
    json!({
        "traceId": recorded.trace,
        "spanId": own,
        "parentSpanId": parent,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": begin.as_nanos().to_string(),
        "endTimeUnixNano": end.as_nanos().to_string(),
    })
}

fn span(request: &Request, recorded: &RecordedTrace, child: &ChildSpan, end: Duration, cut: usize) -> Value {
    let (name, kind, mut attributes) = match &child.work {
        Work::Program { file, handler } => {
            let handler = handler.as_deref().map_or("program", shown_handler);
            (format!("run {}", shown(handler, cut)), INTERNAL, vec![text("tsubame.script.file", file, cut)])
        }
        Work::Upstream { server, attempt } => {
            let method = method(request);
            let method = known(&method).unwrap_or("HTTP");
            let mut all = vec![
                text("http.request.method", method, cut),
                text("tsubame.upstream.name", &server.name, cut),
                text("tsubame.upstream.address", &server.address, cut),
                number("tsubame.upstream.attempt", attempt),
            ];
            all.extend(server.connected().map(|time| seconds("tsubame.upstream.connected", time)));
            all.extend(server.begun().map(|time| seconds("tsubame.upstream.first_byte", time)));
            (method.to_string(), CLIENT, all)
        }
    };
    attributes.extend(child.status().map(|status| number("http.response.status_code", status)));
    let mut span = bare(recorded, [&child.id, &recorded.span], &name, kind, (child.begin, end));
    // Whoever left before there was a response is no error.
    if let Some(status) = child.status().filter(|status| *status >= 500) {
        attributes.push(text("error.type", &status.to_string(), cut));
        span["status"] = json!({ "code": ERROR });
    }
    span["attributes"] = attributes.into();
    span
}
