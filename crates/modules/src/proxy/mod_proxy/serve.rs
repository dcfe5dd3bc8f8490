//! From the URL of a backend to its response.

use conf::Level;
use server::core::CoreServer;
use server::{HandlerResult, NOCANON, Request, TO_BACKEND, Waiting};
use upstream::{Address, Keep, RemoteServer};

use super::map::{SOCKET, add_query, canonical_port, complete, set};
use super::scheme::{Destination, Scheme, proxy_error};
use super::schemes::scheme;
use super::settings::{ProxyDir, ProxyServer};
use super::target::Target;
use super::worker::Parameters;

/// How many idle connections to a backend a child keeps without `max`.
const MAX: usize = 64;

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
    let Some(scheme) = scheme(request, &target.scheme) else {
        let text = format!(
            "AH01144: No protocol handler was valid for the URL {} (scheme '{}'). Tsubame speaks http, ws, fcgi, scgi and uwsgi to \
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
    request.note_step(scheme.module.trim_end_matches("_module"), None, |request| {
        let destination = destination(request, target);
        let server = &destination.server;
        let kept = if server.keep.is_some() { "a persistent connection" } else { "a new connection" };
        format!("{}, over {kept} to {}", destination.target.url(), server.address)
    });
    None
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

/// The settings of a backend.
fn parameters(request: &Request, target: &Target) -> Option<Parameters> {
    let conf = request.host::<ProxyServer>();
    let workers: Vec<_> = conf.workers.iter().map(|worker| &**worker).collect();
    Parameters::of(&workers, target)
}

fn destination(request: &Request, mut target: Target) -> Destination {
    // The choice of the backend depends on it, too.
    target.socket = target.socket.or_else(|| request.notes.get(SOCKET).map(str::to_string));
    let known = parameters(request, &target);
    let scheme = scheme(request, &target.scheme);
    // Nothing is configured for a backend that only a rule names: its connections serve one request each.
    let reuses = |known: &Parameters| known.reuse.unwrap_or(scheme.is_some_and(|scheme| scheme.reuse));
    let is_kept = known.as_ref().is_some_and(reuses);
    let known = known.unwrap_or_default();
    let conf = request.host::<ProxyServer>();
    let own = conf.timeout.get().copied().unwrap_or_else(|| request.host::<CoreServer>().timeout());
    let timeout = known.timeout.unwrap_or(own);
    let port = target.port.or(scheme.map(|scheme| scheme.port)).unwrap_or_default();
    let socket = target.socket.as_ref();
    let address = match socket {
        Some(path) if path.starts_with('/') => Address::Unix(path.clone()),
        Some(path) => Address::Unix(conf::paths::join(&request.server.language.runtime_dir(), path)),
        None => Address::Tcp(target.host.clone(), port),
    };
    let name = match socket {
        Some(path) => format!("{path} ({})", target.host),
        None => format!("{}:{port}", target.host),
    };
    let keep = Keep { max: known.max.unwrap_or(MAX), idle: known.idle };
    let server =
        RemoteServer { address, name, connect: known.connect.unwrap_or(timeout), keep: Some(keep).filter(|_| is_kept) };
    let default = scheme.and_then(|scheme| scheme.upgrade).map(str::to_string);
    let upgrade = known.upgrade.or(default).filter(|protocol| !protocol.eq_ignore_ascii_case("NONE"));
    Destination { target, server, timeout, flush: known.flush == Some(true), upgrade }
}

/// Passes the request on to its backend, and makes the response from the answer.
pub(super) fn handle(request: &mut Request) -> Waiting<'_, HandlerResult> {
    Box::pin(async move {
        let url = request.mapped.backend_url().unwrap_or_default();
        let Ok(target) = Target::parse(url) else { return HandlerResult::Status(500) };
        let Some(scheme) = scheme(request, &target.scheme) else { return HandlerResult::Status(500) };
        let destination = destination(request, target);
        let answer = (scheme.handler)(request, destination).await;
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
