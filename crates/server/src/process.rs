//! A request's way through the phases, up to its answer (contract.md 5 and 11).

use std::sync::Arc;

use conf::Level;

use crate::access::{all, check, first};
use crate::core::{CoreDir, CoreServer, LIMIT_REQUEST_BODY, Tri};
use crate::error_document;
use crate::fields::Fields;
use crate::module::{Flow, Handler};
use crate::request::{Kind, Previous, Request};
use crate::response::{Answer, Body};
use crate::walk;

/// What goes to the client.
pub(crate) struct Response {
    pub(crate) body: Body,
    /// The body is the whole answer, head included (an nph- script).
    pub(crate) raw: bool,
}

/// Answers a request: through internal redirects and error documents to the end.
pub(crate) async fn respond(request: &mut Request) -> Response {
    let mut answer = match prepare(request) {
        Ok(()) => handle(request).await,
        Err(flow) => Answer::Status(status_of(flow)),
    };
    let mut redirects = 0;
    loop {
        match answer {
            Answer::Body(body) => return deliver(request, body).await,
            Answer::Raw(body) => return Response { body, raw: true },
            Answer::Declined => answer = Answer::Status(500),
            Answer::Status(status) => match error_document::find(request, status) {
                error_document::Page::Body(body) => return finish(request, body),
                error_document::Page::Redirect(uri) => {
                    redirects += 1;
                    if redirects > request.vhost.plan.redirects_max {
                        return Response { body: too_many(request), raw: false };
                    }
                    redirect(request, &uri, status, false);
                    answer = again(request).await;
                }
            },
            Answer::Redirect { uri, keep_method } => {
                redirects += 1;
                if redirects > request.vhost.plan.redirects_max {
                    return Response { body: too_many(request), raw: false };
                }
                redirect(request, &uri, 200, keep_method);
                answer = again(request).await;
            }
        }
    }
}

fn too_many(request: &mut Request) -> Body {
    let limit = request.vhost.plan.redirects_max;
    request.log(
        "core",
        Level::Error,
        format!(
            "AH00124: Request exceeded the limit of {limit} internal redirects due to probable configuration error. \
             Use 'LimitInternalRecursion' to increase the limit if necessary. Use 'LogLevel debug' to get a backtrace."
        ),
    );
    error_document::canned(request, 500)
}

async fn again(request: &mut Request) -> Answer {
    match map(request).and_then(|()| late(request)) {
        Ok(()) => handle(request).await,
        Err(flow) => Answer::Status(status_of(flow)),
    }
}

pub(crate) fn status_of(flow: Flow) -> u16 {
    match flow {
        Flow::Status(status) => status,
        Flow::Ok | Flow::Declined => 500,
    }
}

/// All phases before the handler.
fn prepare(request: &mut Request) -> Result<(), Flow> {
    let server = request.server.clone();
    all(request, &server.hooks.post_read)?;
    decode(request)?;
    map(request)?;
    late(request)
}

/// The path of the target, decoded and cleaned.
fn decode(request: &mut Request) -> Result<(), Flow> {
    let plan = request.vhost.plan;
    let incoming = request.incoming.clone();
    let path = incoming.head.path(&incoming.bytes);
    if path == b"*" && request.method == "OPTIONS" {
        request.uri = "*".into();
        return Ok(());
    }
    request.uri = match http::decode_path(path, &plan.path) {
        Ok(path) => path,
        Err(error) => {
            let status = error.status();
            if status == 400 {
                let target = request.unparsed_uri.clone();
                request.log("core", Level::Error, format!("AH10244: invalid URI path ({target})"));
            }
            request.uri = http::text::from_bytes(path).into_owned();
            return Err(Flow::Status(status));
        }
    };
    Ok(())
}

/// From the URL to the file and the settings of all sections.
pub(crate) fn map(request: &mut Request) -> Result<(), Flow> {
    let server = request.server.clone();
    request.dir = request.vhost.base.clone();
    if request.uri == "*" {
        return Ok(());
    }
    walk::locations(request)?;
    walk::conditions(request)?;
    if let Flow::Status(status) = first(request, &server.hooks.translate) {
        return Err(Flow::Status(status));
    }
    map_file(request)?;
    walk::locations(request)?;
    walk::conditions(request)
}

/// From the file name to the settings of its sections: where a look-up by file begins.
pub(crate) fn map_file(request: &mut Request) -> Result<(), Flow> {
    request.dir = request.vhost.base.clone();
    walk::directories(request)
}

/// The phases after mapping.
pub(crate) fn late(request: &mut Request) -> Result<(), Flow> {
    let server = request.server.clone();
    let hooks = &server.hooks;
    if matches!(request.kind, Kind::Main) {
        method_allowed(request)?;
    }
    all(request, &hooks.header_parser)?;
    if request.uri != "*" {
        check(request)?;
    }
    if let Flow::Status(status) = first(request, &hooks.type_checker) {
        return Err(Flow::Status(status));
    }
    all(request, &hooks.fixups)?;
    let limit = request.dir::<CoreDir>().limit_request_body.or(LIMIT_REQUEST_BODY);
    if !request.is_lookup() && request.body.set_limit(limit).is_err() {
        request.log(
            "core",
            Level::Error,
            format!("AH01587: Requested content-length is larger than the configured limit of {limit}"),
        );
        return Err(Flow::Status(413));
    }
    Ok(())
}

/// `TRACE` is decided before anything else looks at the request.
fn method_allowed(request: &Request) -> Result<(), Flow> {
    if request.method != "TRACE" {
        return Ok(());
    }
    match request.host::<CoreServer>().trace.or(Tri::On) {
        Tri::Off => Err(Flow::Status(405)),
        Tri::On if !request.body.is_none() => Err(Flow::Status(413)),
        _ => Ok(()),
    }
}

/// Asks the handlers, one after the other.
async fn handle(request: &mut Request) -> Answer {
    if request.method == "TRACE" {
        return trace(request).await;
    }
    if request.method == "OPTIONS" && request.uri == "*" {
        return Answer::Body(Body::Empty);
    }
    let server = request.server.clone();
    if request.handler.is_none() {
        // A media type may be a handler's name, as in the oldest configurations (`AddType application/x-httpd-cgi`).
        request.handler = request.content_type.as_ref().map(|text| {
            std::borrow::Cow::Owned(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
        });
    }
    for handler in &server.hooks.handler {
        let answer = match handler {
            Handler::Now(handler) => handler(request),
            Handler::Later(handler) => handler(request).await,
        };
        if !matches!(answer, Answer::Declined) {
            return answer;
        }
    }
    Answer::Status(500)
}

/// The request as it was received (RFC 9110 section 9.3.8).
async fn trace(request: &mut Request) -> Answer {
    let mut echo = format!("{}\r\n", request.request_line());
    for (name, value) in request.headers() {
        echo.push_str(&format!("{name}: {value}\r\n"));
    }
    echo.push_str("\r\n");
    let mut bytes = http::text::to_bytes(&echo).into_owned();
    match request.body.collect(TRACE_BODY_MAX).await {
        Ok(body) => bytes.extend_from_slice(&body),
        Err(error) => return Answer::Status(error.status()),
    }
    request.set_content_type("message/http");
    Answer::Body(Body::Bytes(bytes.into()))
}

/// The largest body that `TraceEnable extended` echoes, in bytes, as in Apache.
const TRACE_BODY_MAX: usize = 64 * 1024;

/// A handler's answer: its validators decide whether it is wanted, then come the filters that configuration names.
async fn deliver(request: &mut Request, body: Body) -> Response {
    match crate::output::preconditions(request) {
        Some(instead) => finish(request, instead),
        None => {
            let body = crate::filters::content(request, body).await;
            finish(request, body)
        }
    }
}

/// Filters and ranges: what every answer goes through.
fn finish(request: &mut Request, mut body: Body) -> Response {
    let server = request.server.clone();
    for filter in &server.hooks.filter {
        body = filter(request, body);
    }
    Response { body: crate::output::ranges(request, body), raw: false }
}

/// Turns the request into one for another path of this server.
fn redirect(request: &mut Request, uri: &str, status: u16, keep_method: bool) {
    let before = request.previous().cloned();
    let previous = Previous {
        status: if status == 200 { request.status } else { status },
        uri: request.uri.clone(),
        args: request.args.clone(),
        env: std::mem::take(&mut request.env),
        user: request.user.take(),
        notes: std::mem::take(&mut request.notes),
        method: request.method.to_string(),
        before,
    };
    let mut env = Fields::default();
    for (name, value) in previous.env.iter() {
        env.set(format!("REDIRECT_{name}"), value);
    }
    env.set("REDIRECT_STATUS", previous.status.to_string());
    let path = http::uri::escape_path(&previous.uri).into_owned();
    let qualify = request.dir::<CoreDir>().qualify_redirect_url.or(false);
    env.set("REDIRECT_URL", if qualify { request.url(&path) } else { previous.uri.clone() });
    if let Some(args) = previous.args.as_ref().filter(|args| !args.is_empty()) {
        env.set("REDIRECT_QUERY_STRING", args);
    }
    if !keep_method && request.method != "GET" && request.method != "HEAD" {
        env.set("REDIRECT_REQUEST_METHOD", &*previous.method);
    }
    request.env = env;
    request.kind = Kind::Redirected(Arc::new(previous));
    if !keep_method {
        request.method = "GET".into();
    }
    let (path, args) = match uri.split_once('?') {
        Some((path, args)) => (path, Some(args.to_string())),
        None => (uri, None),
    };
    request.uri = path.to_string();
    request.args = args;
    request.no_local_copy |= status >= 400;
    request.reset_mapping(status);
    let server = request.server.clone();
    // Variables of the request's own are made again for the new path.
    let _ = all(request, &server.hooks.post_read);
}
