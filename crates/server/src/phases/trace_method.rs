//! `TRACE`.

use crate::message::response::{Body, HandlerResult};
use crate::request::flow::Flow;
use crate::request::{Request, RequestKind};
use crate::settings::core::{CoreServer, Tri};

/// `TRACE` shows the client only what it sent, so it needs no look-up and no access check, once it is known that no
/// module redirects it or passes it on to another server.
pub(super) fn is_asked(request: &Request) -> bool {
    request.data.method == "TRACE"
        && matches!(request.kind, RequestKind::Main)
        && request.mapped.backend_url().is_none()
}

impl Request {
    /// Whether `TRACE` is enabled (`TraceEnable`).
    pub fn may_be_traced(&self) -> Result<(), Flow> {
        check(self)
    }

    /// The response to `TRACE`: the request as it was received.
    pub async fn echo(&mut self) -> HandlerResult {
        handle(self).await
    }
}

/// Whether it is enabled (`TraceEnable`).
pub(super) fn check(request: &Request) -> Result<(), Flow> {
    let core = request.host::<CoreServer>();
    match core.trace() {
        Tri::Off => {
            request
                .note_reason(405, "core", core.trace.origin(), |_| ("TraceEnable Off".into(), "forbids TRACE".into()));
            Err(Flow::Status(405))
        }
        Tri::On if !request.body.is_none() => {
            request.note_reason(413, "core", core.trace.origin(), |_| {
                ("TraceEnable On".into(), "allows no body, and the request announces one".into())
            });
            request.body.refuse();
            Err(Flow::Status(413))
        }
        _ => Ok(()),
    }
}

/// The request as it was received (RFC 9110 section 9.3.8).
pub(super) async fn handle(request: &mut Request) -> HandlerResult {
    let mut echo = format!("{}\r\n", request.request_line());
    for (name, value) in request.headers() {
        echo.push_str(&format!("{name}: {value}\r\n"));
    }
    echo.push_str("\r\n");
    let mut bytes = http::text::to_bytes(&echo).into_owned();
    match request.body.collect(TRACE_BODY_MAX).await {
        Ok(body) => bytes.extend_from_slice(&body),
        Err(error) => return HandlerResult::Status(error.status()),
    }
    request.response.set_content_type("message/http");
    HandlerResult::Body(Body::Bytes(bytes.into()))
}

/// The largest body that `TraceEnable extended` echoes, in bytes, as in Apache.
const TRACE_BODY_MAX: usize = 64 * 1024;
