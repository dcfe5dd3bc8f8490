//! Runs the phases in their order: map, check, handle, filter.

use std::sync::atomic::Ordering;

use conf::Level;

use crate::message::response::{Body, HandlerResult, Keep};
use crate::message::tunnel::Tunnel;
use crate::module::{self, Module};
use crate::phases::access::check;
use crate::phases::run_hooks::{run_all, run_until_decided};
use crate::phases::{delivery, error_document, filters, redirect, trace_method, walk};
use crate::request::Request;
use crate::request::flow::{Flow, Waiting};
use crate::request::hooks::{Handler, Hooks, ModuleHook, Moment, QuickHandler, ResponseHook, SubrequestTarget};
use crate::request::phase::Phase;
use crate::request::recurring::Recurrence;
use crate::settings::core::{CoreDir, CoreServer, Tri};
use crate::trace::HANDLER;

/// The hooks of these modules for requests.
pub fn hooks(modules: &[&'static Module]) -> Hooks {
    module::request_hooks(modules, run_phases)
}

/// The response to the client.
pub struct Response {
    /// The body.
    pub body: Body,
    /// The body is the whole response, head included (an nph- script).
    pub raw: bool,
    /// There is no body: the connection becomes a tunnel.
    pub tunnel: Option<Box<Tunnel>>,
}

impl Response {
    /// For a body with a head.
    pub(crate) fn of(body: Body) -> Response {
        Response { body, raw: false, tunnel: None }
    }
}

/// Takes a new request through all phases, its redirects and error documents, and its response through its filters.
pub(crate) async fn process(request: &mut Request) -> Response {
    name_client(request).await;
    let result = match unmet_expectation(request) {
        Some(status) => HandlerResult::Status(status),
        None => match prepare(request).await {
            Ok(()) => match run_quick_handlers(request, Moment::BeforeHandler).await {
                HandlerResult::Declined => run_handlers(request).await,
                result => result,
            },
            Err(result) => result,
        },
    };
    finish(request, result).await
}

/// Takes a request that begins where the phases have left another one to its handler, and its response through its filters.
/// `handler`: the place of that.
pub(crate) async fn answer_prepared(request: &mut Request, handler: usize) -> Response {
    let tables = request.recurrence.is_wanted().then(|| (request.env.clone(), request.notes.clone()));
    let result = match request.hooks.handler.get(handler).map(|handler| handler.hook) {
        Some(Handler::Later { run, .. }) => run_waiting(request, run).await,
        Some(Handler::Now(_)) | None => HandlerResult::Status(500),
    };
    let Some((env, notes)) = tables else { return finish(request, result).await };
    // From here on, whoever asks anything else makes the response one that does not recur.
    request.beyond_head.store(false, Ordering::Relaxed);
    let response = finish(request, result).await;
    if !(request.env.iter().eq(env.iter()) && request.notes.iter().eq(notes.iter())) {
        request.recurrence = Recurrence::None;
    }
    response
}

/// The response to a request that cannot be served: the error document for a status.
pub(crate) async fn refuse(request: &mut Request, status: u16) -> Response {
    name_client(request).await;
    finish(request, HandlerResult::Status(status)).await
}

/// Goes from a first response through redirects, error documents and filters to the final response.
async fn finish(request: &mut Request, mut result: HandlerResult) -> Response {
    let mut redirects = 0;
    loop {
        if let HandlerResult::Status(status) = result
            && status != 304
            && let Some(caching) = request.caching.take()
            && let Some(body) = caching.replace_page(request, status).await
        {
            result = HandlerResult::Recalled(body);
        }
        if matches!(result, HandlerResult::Status(304)) && request.caching.is_some() {
            // Perhaps the cache has what the page would be about.
            request.response.set_status(304);
            result = HandlerResult::Body(Body::Empty);
        }
        let (uri, status, keep) = match result {
            HandlerResult::Body(body) => match deliver(request, body).await {
                Ok(response) => return response,
                Err(instead) => {
                    result = instead;
                    continue;
                }
            },
            HandlerResult::Recalled(body) => match deliver_recalled(request, body) {
                Ok(response) => return response,
                Err(instead) => {
                    result = instead;
                    continue;
                }
            },
            // What takes over the connection is none of a cache's business, where others may wait for it.
            HandlerResult::Raw(body) => {
                request.caching = None;
                return Response { raw: true, ..Response::of(body) };
            }
            HandlerResult::Tunnel(tunnel) if is_tunnel_wanted(request) => {
                request.caching = None;
                return Response { tunnel: Some(tunnel), ..Response::of(Body::Empty) };
            }
            HandlerResult::Tunnel(_) => {
                request.log("core", Level::Error, "a handler wants a tunnel where the client has asked for none");
                result = HandlerResult::Status(500);
                continue;
            }
            HandlerResult::Declined => match error_document::find(request, 500) {
                error_document::Page::Body(body) => return own_page(request, body).await,
                error_document::Page::Redirect(uri) => (uri, 500, Keep::default()),
            },
            HandlerResult::Status(status) => match error_document::find(request, status) {
                error_document::Page::Body(body) => return own_page(request, body).await,
                error_document::Page::Redirect(uri) => (uri, status, Keep::default()),
            },
            HandlerResult::Redirect { uri, keep } => (uri, 200, keep),
        };
        redirects += 1;
        if redirects > request.vhost.plan.redirects_max {
            let body = redirect::too_many(request);
            return own_page(request, body).await;
        }
        result = follow(request, &uri, status, keep).await;
    }
}

/// The status for an expectation that is not met (RFC 9110 section 10.1.1).
fn unmet_expectation(request: &mut Request) -> Option<u16> {
    let expect = request.header_joined("Expect")?;
    if expect.is_empty() || expect.eq_ignore_ascii_case("100-continue") {
        return None;
    }
    request.data.uri = path_as_sent(request);
    request.note_reason(417, "core", None, |request| {
        let expect = request.header_joined("Expect").unwrap_or_default();
        (format!("Expect: {expect}"), "is not an expectation that a server can meet".into())
    });
    Some(417)
}

/// Continues with another path of this server.
async fn follow(request: &mut Request, uri: &str, status: u16, keep: Keep) -> HandlerResult {
    // What another path answers is not the response for the path that was asked for.
    request.caching = None;
    redirect::redirect(request, uri, status, keep);
    // The request's own variables are set again for the new path.
    let read = run_all(request, Phase::PostRead).await;
    // An error document is sent all the same: it reports the error.
    if let (Err(flow), 0..400) = (read, status) {
        return HandlerResult::Status(flow.status());
    }
    // The path may have come from a client, through the configuration or a script: trust it no more than that of a
    // request.
    let raw = http::text::to_bytes(&request.data.uri).into_owned();
    let mapped = map_target(request, &raw, Some(uri)).await;
    let prepared = match mapped {
        Ok(()) => after_mapping(request).await,
        Err(flow) => Err(flow),
    };
    match prepared {
        Ok(()) => run_handlers(request).await,
        Err(flow) => HandlerResult::Status(flow.status()),
    }
}

/// `HostnameLookups` of the request's sections so far: code that needs the client's name later cannot wait for it.
async fn name_client(request: &Request) {
    let how = request.hostname_lookups();
    if how == Tri::Off {
        return;
    }
    // Another client has another name.
    request.asks_beyond_head();
    if request.client.looked_up(how).is_none() && !request.is_subrequest() {
        Box::pin(request.client.look_up(how)).await;
    }
}

/// All phases before the handler. `Err`: the response is known without one.
async fn prepare(request: &mut Request) -> Result<(), HandlerResult> {
    let refused = |flow: Flow| HandlerResult::Status(flow.status());
    if !request.data.head.target().starts_with(b"/")
        && let Some(find_out) = request.hooks.forward
        && let flow @ Flow::Status(_) = find_out(request)
    {
        request.data.uri = path_as_sent(request);
        return Err(refused(flow));
    }
    if !request.hooks.of(Phase::PostRead).is_empty() {
        // These hooks see the path as it was sent.
        request.data.uri = path_as_sent(request);
    }
    run_all(request, Phase::PostRead).await.map_err(refused)?;
    if request.mapped.handler.is_some() && !request.data.forward {
        // A module has named the handler: no other configuration for requests comes before that.
        return Ok(());
    }
    if request.env.contains("downgrade-1.0") {
        // A client that claims more than it can do (Apache manual, special purpose environment variables).
        request.data.version = http::Version::Http10;
    }
    match run_quick_handlers(request, Moment::BeforePhases).await {
        HandlerResult::Declined => {}
        result => return Err(result),
    }
    if request.data.forward {
        request.data.uri = path_as_sent(request);
        map(request).await.map_err(refused)?;
    } else if request.data.method == "CONNECT" {
        request.note_reason(405, "core", None, |_| {
            ("CONNECT".into(), "asks for a forward proxy, which this is not".into())
        });
        return Err(HandlerResult::Status(405));
    } else {
        let head = request.data.head.clone();
        map_target(request, head.path(), None).await.map_err(refused)?;
    }
    after_mapping(request).await.map_err(refused)
}

/// Asks the quick handlers. Before the phases they see the path as it was sent, and the settings outside all sections.
async fn run_quick_handlers(request: &mut Request, moment: Moment) -> HandlerResult {
    for QuickHandler { claims, run } in &request.hooks.quick_handler {
        if claims(request, moment) && !request.is_hypothetical() {
            if moment == Moment::BeforePhases {
                request.data.uri = path_as_sent(request);
            }
            match run(request, moment).await {
                HandlerResult::Declined => {}
                result => return result,
            }
        }
    }
    HandlerResult::Declined
}

/// The path as it was sent, except that it begins with one slash. As in Apache, more of them would hide a path from patterns
/// that begin with `^/`. To a forward proxy the whole target is what others call the path.
fn path_as_sent(request: &Request) -> String {
    if request.data.forward {
        return request.data.sent_target().into_owned();
    }
    let path = request.data.head.path();
    let surplus = path.iter().take_while(|byte| **byte == b'/').count().saturating_sub(1);
    http::text::from_bytes(&path[surplus..]).into_owned()
}

/// Goes from the path of a target to the file, or backend, and the settings of all sections. `target`: if it is not the client's own.
async fn map_target(request: &mut Request, path: &[u8], target: Option<&str>) -> Result<(), Flow> {
    if map_undecoded(request, path).await? {
        return map_to_storage(request).await;
    }
    decode(request, path, target)?;
    map(request).await
}

/// Lets a module map a path before it is decoded. Returns whether one has.
async fn map_undecoded(request: &mut Request, path: &[u8]) -> Result<bool, Flow> {
    let Some(hook) = request.hooks.undecoded.filter(|hook| (hook.is_wanted)(request)) else { return Ok(false) };
    // What cannot be a path is refused where it would be decoded.
    let Ok(path) = http::normalize_path(path, request.vhost.plan.path.merge_slashes) else { return Ok(false) };
    request.data.uri = path;
    begin_sections(request);
    walk::locations(request)?;
    name_client(request).await;
    walk::conditions(request).await?;
    match (hook.map)(request) {
        Flow::Ok => Ok(true),
        Flow::Declined => Ok(false),
        Flow::Status(status) => Err(Flow::Status(status)),
    }
}

/// Sets the request's path to that of a target, decoded and cleaned. `target`: if it is not the client's own.
fn decode(request: &mut Request, path: &[u8], target: Option<&str>) -> Result<(), Flow> {
    let plan = request.vhost.plan;
    if path == b"*" && request.data.method == "OPTIONS" {
        request.data.uri = "*".into();
        return Ok(());
    }
    request.data.uri = match http::decode_path(path, &plan.path) {
        Ok(path) => path,
        Err(error) => {
            let status = error.status();
            if status == 400 {
                let target = target.map_or_else(|| request.data.unparsed_uri(), std::borrow::Cow::Borrowed);
                request.log("core", Level::Error, format!("AH10244: invalid URI path ({target})"));
            }
            request.data.uri = http::text::from_bytes(path).into_owned();
            note_bad_path(request, error);
            return Err(Flow::Status(status));
        }
    };
    Ok(())
}

/// Says what is wrong with a path.
fn note_bad_path(request: &Request, error: http::PathError) {
    let slashes = request.host::<CoreServer>().encoded_slashes.0.origin();
    let origin = slashes.filter(|_| error == http::PathError::EncodedSlash);
    request.note_reason(error.status(), "core", origin, |request| match error {
        http::PathError::EncodedSlash => {
            ("AllowEncodedSlashes Off".into(), format!("forbids the %2F in {}", request.data.uri))
        }
        error => (format!("{}: {error}", request.data.uri), String::new()),
    });
}

/// Goes from the URL to the file and the settings of all sections.
async fn map(request: &mut Request) -> Result<(), Flow> {
    begin_sections(request);
    if request.data.uri == "*" {
        // As in Apache, `Vary` tells which fields the conditions look at.
        name_client(request).await;
        return walk::conditions(request).await;
    }
    walk::locations(request)?;
    name_client(request).await;
    walk::conditions(request).await?;
    if let Flow::Status(status) = run_until_decided(request, Phase::Translate).await {
        return Err(Flow::Status(status));
    }
    map_to_storage(request).await
}

/// Goes from the file name, which may be a URL, to the settings of all sections.
async fn map_to_storage(request: &mut Request) -> Result<(), Flow> {
    if trace_method::is_asked(request) {
        return trace_method::check(request);
    }
    begin_sections(request);
    match run_until_decided(request, Phase::MapToStorage).await {
        Flow::Declined => {
            if let Err(stop) = walk::directories(request) {
                walk::read_apart(request, stop).await?;
            }
        }
        Flow::Ok => {}
        Flow::Status(status) => return Err(Flow::Status(status)),
    }
    walk::locations(request)?;
    name_client(request).await;
    walk::conditions(request).await?;
    name_client(request).await;
    Ok(())
}

/// Goes from the file name to the settings of its sections: the beginning of a subrequest by file.
async fn map_file(request: &mut Request) -> Result<(), Flow> {
    begin_sections(request);
    match walk::directories(request) {
        Ok(()) => Ok(()),
        Err(stop) => walk::read_apart(request, stop).await,
    }
}

fn begin_sections(request: &mut Request) {
    request.dir = request.vhost.base.base();
    request.trace.iter_mut().for_each(|trace| trace.begin());
}

/// The phases after mapping.
async fn after_mapping(request: &mut Request) -> Result<(), Flow> {
    // `TRACE` and `OPTIONS *` name nothing that could be refused or has a type.
    if is_about_the_server(request) {
        return Ok(());
    }
    run_all(request, Phase::HeaderParser).await?;
    check(request).await.map_err(|flow| asked_by_proxy(request, flow))?;
    if let Flow::Status(status) = run_until_decided(request, Phase::TypeChecker).await {
        return Err(Flow::Status(status));
    }
    run_all(request, Phase::Fixups).await?;
    let limit = request.dir::<CoreDir>().limit_request_body();
    if !request.is_subrequest() && request.body.set_limit(limit).is_err() {
        let told = request.body.length().unwrap_or_default();
        let text =
            format!("AH01588: Requested content-length of {told} is larger than the configured limit of {limit}");
        request.log("http", Level::Info, text);
        request.note_reason(413, "http", request.dir::<CoreDir>().limit_request_body.origin(), |_| {
            (format!("LimitRequestBody {limit}"), format!("is less than the {told} bytes of the request's body"))
        });
        return Err(Flow::Status(413));
    }
    Ok(())
}

/// A forward proxy asks for credentials of its own (RFC 9110 section 11.7): the others are for the server that the request goes to.
fn asked_by_proxy(request: &mut Request, flow: Flow) -> Flow {
    if !request.data.forward || flow != Flow::Status(401) {
        return flow;
    }
    let fields = &mut request.response.err_headers_out;
    if let Some(challenge) = fields.joined("WWW-Authenticate") {
        fields.remove("WWW-Authenticate");
        fields.set("Proxy-Authenticate", challenge);
    }
    Flow::Status(407)
}

/// Whether the client has asked for a tunnel: by `Upgrade`, or of a forward proxy by `CONNECT`.
fn is_tunnel_wanted(request: &Request) -> bool {
    request.tunnel_for().is_some() || request.data.forward && request.data.method == "CONNECT"
}

/// Runs the handlers until one does not decline.
async fn run_handlers(request: &mut Request) -> HandlerResult {
    if request.data.method == "TRACE" && request.mapped.backend_url().is_none() {
        request.trace.iter_mut().for_each(|trace| trace.decided(HANDLER, "core", None));
        return trace_method::handle(request).await;
    }
    if request.data.method == "OPTIONS" && request.data.uri == "*" {
        return HandlerResult::Body(Body::Empty);
    }
    filters::on_input(request);
    for (place, ModuleHook { module, hook }) in request.hooks.handler.iter().enumerate() {
        let result = match hook {
            Handler::Now(handler) => match handler(request) {
                HandlerResult::Declined => continue,
                result => Some(result),
            },
            Handler::Later { claims, check, .. } if claims(request) => check(request),
            Handler::Later { .. } => continue,
        };
        if let Some(trace) = &mut request.trace {
            let status = if let Some(HandlerResult::Status(status)) = &result { Some(*status) } else { None };
            trace.decided(HANDLER, module, status);
        }
        return match (result, hook) {
            (Some(result), _) => result,
            // A hypothetical request: a handler that would have to wait does not start.
            (None, _) if request.is_hypothetical() => {
                request.trace.iter().for_each(|trace| trace.reached());
                std::future::pending().await
            }
            (None, Handler::Later { run, .. }) => {
                if request.may_prepare_others {
                    request.prepare_others(place);
                }
                run_waiting(request, *run).await
            }
            (None, Handler::Now(_)) => HandlerResult::Status(500),
        };
    }
    HandlerResult::Status(500)
}

/// Runs a handler that has to wait.
async fn run_waiting(request: &mut Request, run: fn(&mut Request) -> Waiting<'_, HandlerResult>) -> HandlerResult {
    runtime::needs_worker().await;
    match run(request).await {
        HandlerResult::Declined => HandlerResult::Status(500),
        result => result,
    }
}

/// Asks the handlers for a part of another response, with its filters applied. `Err`: there is none, and this status
/// says why.
async fn respond_as_part(request: &mut Request) -> Result<Body, u16> {
    loop {
        match run_handlers(request).await {
            HandlerResult::Body(body) => {
                filters::prepare(request);
                return Ok(filters::of(request).run(request, body).await);
            }
            HandlerResult::Status(status) => return Err(status),
            // The nesting depth of subrequests is limited.
            HandlerResult::Redirect { uri, .. } => {
                let page = request.page.take();
                *request = *request.lookup_link(&uri).await;
                request.page = page;
                if request.response.status() != 200 {
                    return Err(request.response.status());
                }
            }
            // A response that takes over the connection cannot be a part of a page.
            // Nor is one of a cache, which has nothing to do with parts.
            HandlerResult::Raw(_) | HandlerResult::Tunnel(_) | HandlerResult::Recalled(_) | HandlerResult::Declined => {
                return Err(500);
            }
        }
    }
}

/// Delivers a handler's response: its validators decide whether it is wanted, then come the filters that the
/// configuration names. `Err`: an error is sent instead.
async fn deliver(request: &mut Request, mut body: Body) -> Result<Response, HandlerResult> {
    // As in Apache, neither modules nor filters change an answer about the server.
    let is_of_modules = !is_about_the_server(request);
    if is_of_modules {
        filters::prepare(request);
    }
    let instead = delivery::preconditions(request);
    let is_instead = instead.is_some();
    if let Some(instead) = instead {
        note_condition(request);
        body = instead;
    }
    if request.response.status() == 304
        && let Some(caching) = request.caching.take()
    {
        caching.confirm(request).await?;
    }
    if is_instead && request.response.status() == 304 {
        filters::unmodified(request);
    }
    if is_of_modules && !(is_instead && matches!(request.response.status(), 304 | 412)) {
        let chain = filters::of(request);
        if !chain.is_empty() {
            runtime::needs_worker().await;
            let before = request.response.status();
            body = chain.run(request, body).await;
            // A filter that cannot use the body reports that with the status.
            let status = request.response.status();
            if status >= 500 && status != before {
                return Err(HandlerResult::Status(status));
            }
        }
    }
    let mut body = run_filter_hooks(request, body);
    delivery::default_charset(request);
    // As in Apache, an unmet condition is not an error for them. They run before ranges: to them it is still a response
    // of 200.
    if is_of_modules && !response_fields(request, false).await {
        // The error page gets new fields.
        request.response.headers_out.clear();
        request.response.err_headers_out.clear();
        return Err(HandlerResult::Status(500));
    }
    if let Some(caching) = request.caching.take() {
        body = caching.save(request, body).await?;
    }
    cut(request, body)
}

/// Delivers a response that has been through the filters before: only the client's conditions and ranges are its own.
fn deliver_recalled(request: &mut Request, body: Body) -> Result<Response, HandlerResult> {
    let instead = delivery::preconditions(request);
    if instead.is_some() {
        note_condition(request);
    }
    cut(request, instead.unwrap_or(body))
}

/// Cuts the ranges that the client wants out of a response.
fn cut(request: &mut Request, body: Body) -> Result<Response, HandlerResult> {
    match delivery::ranges(request, body) {
        Ok(body) => Ok(Response::of(body)),
        Err(delivery::Unsatisfiable { length }) => {
            request.note_reason(416, "core", None, |request| {
                let range = request.header("Range").unwrap_or_default();
                (format!("Range: {range}"), format!("begins after the end of the response, which has {length} bytes"))
            });
            // The error page gets new fields, and as in Apache none of the earlier ones.
            request.response.err_headers_out.clear();
            request.response.err_headers_out.set("Content-Range", format!("bytes */{length}"));
            Err(HandlerResult::Status(416))
        }
    }
}

/// Whether the response is about the server or the connection, not about anything that is served: as in Apache no module adds
/// fields to a response to `TRACE` or `OPTIONS *`.
fn is_about_the_server(request: &Request) -> bool {
    trace_method::is_asked(request) || request.data.method == "OPTIONS" && request.data.uri == "*"
}

/// Says which condition of the client's kept the response back.
fn note_condition(request: &Request) {
    let status = request.response.status();
    request.note_reason(status, "core", None, |request| {
        let names = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"];
        let asked: Vec<&str> = names.into_iter().filter(|name| request.header(name).is_some()).collect();
        let effect = if status == 304 { "says that the client has this already" } else { "does not hold" };
        (asked.join(" and "), effect.into())
    });
}

/// One of our own pages, with its charset.
async fn own_page(request: &mut Request, body: Body) -> Response {
    let body = run_filter_hooks(request, body);
    if !response_fields(request, true).await {
        return Response::of(error_document::unsendable(request));
    }
    Response::of(body)
}

/// The modules' last changes of the response's fields. `false`: some line cannot be decided, which was logged. The response is not
/// sent then: the line may be what protects the client or the content.
async fn response_fields(request: &mut Request, is_error: bool) -> bool {
    request.undecided.store(false, Ordering::Relaxed);
    for i in 0..request.hooks.response_fields.len() {
        match request.hooks.response_fields[i] {
            ResponseHook::Now(change) => change(request, is_error),
            ResponseHook::Later { claims, run } if claims(request) => {
                request.asks_beyond_head();
                run(request, is_error).await;
            }
            ResponseHook::Later { .. } => {}
        }
    }
    !request.undecided.load(Ordering::Relaxed)
}

/// Sends a body through the modules' filters for every response.
fn run_filter_hooks(request: &mut Request, mut body: Body) -> Body {
    for i in 0..request.hooks.filter.len() {
        body = request.hooks.filter[i](request, body);
    }
    body
}

/// Takes a subrequest through the phases.
fn run_phases(request: &mut Request, from: SubrequestTarget) -> Waiting<'_, Result<(), Flow>> {
    Box::pin(async move {
        match from {
            SubrequestTarget::Path => {
                let decoded = request.data.uri.clone();
                let raw = http::uri::escape_path(&decoded);
                match map_undecoded(request, raw.as_bytes()).await? {
                    true => map_to_storage(request).await?,
                    false => {
                        request.data.uri = decoded;
                        map(request).await?;
                    }
                }
            }
            SubrequestTarget::File => {
                map_file(request).await?;
                walk::locations(request)?;
                walk::conditions(request).await?;
            }
        }
        after_mapping(request).await
    })
}

impl Request {
    /// Makes the response of a subrequest, as a part of another one (a header of a listing, an include). `Err`:
    /// there is none, and this status says why.
    pub async fn run_subrequest(&mut self) -> Result<Body, u16> {
        respond_as_part(self).await
    }
}
