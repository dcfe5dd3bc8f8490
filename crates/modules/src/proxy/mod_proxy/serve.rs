//! From the URL of a backend to its response.

use std::sync::Arc;

use conf::Level;
use server::{Flow, HandlerResult, NOCANON, Request, Running, TO_BACKEND, Waiting};
use upstream::{Attempt, Tally};

use super::backends;
use super::balance::ToBalancer;
use super::balancer::of_url;
use super::carried::{Carrier, carried};
use super::destination::{destination, parameters};
use super::foreseen;
use super::forward::with_domain;
use super::limited;
use super::map::{add_query, canonical_port, complete, set};
use super::rest::Rest;
use super::scheme::{Destination, Scheme, SchemeHandler, proxy_error};
use super::schemes::scheme;
use super::settings::ProxyDir;
use super::target::Target;
use super::way;
use crate::proxy::mod_proxy_connect::{connect, is_asked};

/// Whether `ProxyPass` has mapped the request, or the handler is a URL.
pub(super) fn claims(request: &Request) -> bool {
    request.mapped.backend_url().is_some() || named_url(request).is_some()
}

/// The URL in the handler's name.
fn named_url(request: &Request) -> Option<&str> {
    request.mapped.handler.as_deref()?.strip_prefix(TO_BACKEND)
}

/// The conditions for passing a request on. `None`: they are met.
pub(super) fn refusal(request: &mut Request) -> Option<HandlerResult> {
    if let Some(refused) = no_forwards(request) {
        return Some(refused);
    }
    if request.data.method == "TRACE"
        && let Err(Flow::Status(status)) = request.may_be_traced()
    {
        return Some(HandlerResult::Status(status));
    }
    if is_asked(request) {
        request.note_step("proxy_connect", None, |request| format!("a tunnel to {}", request.data.uri));
        return None;
    }
    let mapped = request.mapped.backend_url();
    let is_named = mapped.is_none();
    let url = match mapped {
        Some(url) => url.to_string(),
        None => format!("{}{}", named_url(request).unwrap_or_default(), request.mapped.filename),
    };
    let Ok(mut target) = Target::parse(&url) else {
        request.log("proxy", Level::Error, format!("AH01059: error parsing URL {url}: it is no URL of a backend"));
        return Some(HandlerResult::Status(500));
    };
    if let Some(redirected) = with_domain(request, &target) {
        return Some(redirected);
    }
    let Some(scheme) = scheme(request, &target.scheme) else {
        let text = format!(
            "AH01144: No protocol handler was valid for the URL {} (scheme '{}'). Tsubame speaks http, https, h2, h2c, ws, wss, ajp, fcgi, scgi and uwsgi to \
             backends, each with the module mod_proxy_NAME, which LoadModule loads.",
            request.data.uri, target.scheme
        );
        request.log("proxy", Level::Error, text);
        return Some(HandlerResult::Status(500));
    };
    if is_named {
        canonical_port(&mut target, scheme);
        if scheme.query {
            complete(request, &mut target, scheme);
        }
        set(request, &target);
        if parameters(request, &target).is_none() {
            // Nothing is configured for the backend: as in Apache, its connections serve one request each.
            request.env.set("proxy-nokeepalive", "1");
        }
    } else if target.socket.is_some() || lacks_query(request, &target, scheme) {
        // A rule in a section has named it.
        if lacks_query(request, &target, scheme) {
            add_query(request, &mut target, scheme);
        }
        set(request, &target);
    }
    explain(request, scheme, target);
    None
}

/// Records which backend would get the request.
fn explain(request: &mut Request, scheme: &Scheme, target: Target) {
    let module = scheme.module.trim_end_matches("_module");
    if !request.is_hypothetical() {
        return;
    }
    let url = target.url();
    let steps = match of_url(request, &url) {
        Some(balancer) => foreseen::balancer(&balancer, request, &url),
        None => vec![foreseen::backend(&destination(request, target))],
    };
    for step in steps {
        request.note_step(module, None, |_| step);
    }
}

/// Whether the target lacks the request's query: that of a rule in a section.
fn lacks_query(request: &Request, target: &Target, scheme: &Scheme) -> bool {
    scheme.query && request.data.args.is_some() && !target.path.contains('?') && !request.notes.contains(NOCANON)
}

/// `Max-Forwards` (RFC 9110 section 7.6.2). `Some`: the request is not passed on.
fn no_forwards(request: &mut Request) -> Option<HandlerResult> {
    let text = request.header("Max-Forwards")?.into_owned();
    if matches!(&*request.data.method, "TRACE" | "OPTIONS") && text.trim() == "0" {
        return None;
    }
    let why = match text.trim().parse::<u64>() {
        Ok(0) => "Max-Forwards has reached zero - proxy loop?",
        Ok(_) => return None,
        Err(_) => {
            let text = format!("AH10188: Max-Forwards value '{text}' could not be parsed");
            request.log("proxy", Level::Warn, text);
            "Max-Forwards request header could not be parsed"
        }
    };
    Some(proxy_error(request, 400, why))
}

/// How requests with the same URL of a backend go on.
enum Plan {
    /// To a backend.
    Backend { scheme: &'static Scheme, handler: SchemeHandler, destination: Arc<Destination> },
    /// To a member of a balancer.
    Balancer(ToBalancer),
    /// There is no such URL.
    Impossible,
}

fn plan(request: &Request) -> Plan {
    let url = request.mapped.backend_url().unwrap_or_default();
    let Ok(target) = Target::parse(url) else { return Plan::Impossible };
    let Some(scheme) = scheme(request, &target.scheme) else { return Plan::Impossible };
    match scheme.handler {
        Some(handler) => Plan::Backend { scheme, handler, destination: Arc::new(destination(request, target)) },
        None => Plan::Balancer(ToBalancer::new(request, &target)),
    }
}

/// Passes the request on to its backend, and makes the response from the answer.
pub(super) fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        if request.data.method == "TRACE" && request.header("Max-Forwards").is_some_and(|text| text.trim() == "0") {
            return request.echo().await;
        }
        if is_asked(request) {
            return connect(request).await;
        }
        let answer = match &*request.plan(plan) {
            Plan::Impossible => return HandlerResult::Status(500),
            Plan::Backend { scheme, handler, destination } => {
                let destination = match way::is_special(request) {
                    true => match way::complete(request, (**destination).clone()).await {
                        Ok(destination) => Arc::new(destination),
                        Err(refused) => return refused,
                    },
                    false => destination.clone(),
                };
                if !Rest::status(destination.rest.as_ref(), destination.status).is_usable() {
                    let name = &destination.server.name;
                    let text = format!("AH00940: {}: disabled connection for ({name})", scheme.name);
                    request.log("proxy", Level::Error, text);
                    return HandlerResult::Status(503);
                }
                let Ok(permit) = limited::permit(request, scheme, &destination).await else {
                    return HandlerResult::Status(503);
                };
                let running = backends::note(request, || destination.target.server(), &destination.server, 1);
                let span = running.as_ref().map(Running::span);
                let under_way = destination.server.tally.as_ref().map(Tally::begin);
                let result = match &destination.rest {
                    Some(rest) => attempt(request, rest, &destination, *handler).await,
                    None => handler(request, destination).await,
                };
                request.child_led_to(span.as_deref(), &result);
                match under_way {
                    Some(under_way) => carried(result, Carrier::Server(under_way), permit, running),
                    None => result,
                }
            }
            Plan::Balancer(balancer) => balancer.handle(request).await,
        };
        let overridden = |status| request.dir::<ProxyDir>().error_override.get().is_some_and(|one| one.covers(status));
        match answer {
            // The backend's page is dropped.
            HandlerResult::Body(_) if overridden(request.response.status()) => {
                // Without the challenge nobody could answer it (RFC 9110 section 15.5.2).
                if let Some(challenge) = request.response.headers_out.joined("WWW-Authenticate") {
                    request.response.err_headers_out.set("WWW-Authenticate", challenge);
                }
                HandlerResult::Status(request.response.status())
            }
            answer => answer,
        }
    })
}

/// Passes the request on to a backend that rests if it cannot be reached.
async fn attempt(
    request: &mut Request,
    rest: &Rest,
    destination: &Destination,
    handler: SchemeHandler,
) -> HandlerResult {
    let attempt = Arc::<Attempt>::default();
    let destination = Arc::new(Destination { attempt: Some(attempt.clone()), ..destination.clone() });
    let server = destination.server.name.clone();
    let result = handler(request, destination).await;
    if attempt.is_unreached() {
        rest.begin();
        let text =
            format!("AH00959: ap_proxy_connect_backend disabling worker for ({server}) for {}s", rest.time().as_secs());
        request.log("proxy", Level::Error, text);
    }
    result
}
