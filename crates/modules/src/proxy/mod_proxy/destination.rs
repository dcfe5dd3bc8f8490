//! The destination of a request: the address of a backend, and what is configured for it.

use std::borrow::Cow;
use std::time::Duration;

use server::Request;
use server::core::CoreServer;
use upstream::{Address, Keep, RemoteServer};

use super::ajp_settings::AjpSettings;
use super::backends::others;
use super::map::SOCKET;
use super::member::Member;
use super::scheme::{Backend, Destination};
use super::schemes::scheme;
use super::settings::ProxyServer;
use super::status::Status;
use super::target::Target;
use super::worker::{Common, Parameters};

/// How many idle connections to a backend are kept without `max` and `smax`.
const MAX: usize = 256;

/// The settings of a backend, and what its requests have in common.
pub(super) fn parameters<'r>(
    request: &'r Request,
    target: &Target,
) -> Option<(Cow<'r, Parameters>, Option<&'r Common>)> {
    let conf = request.host::<ProxyServer>();
    Parameters::of(conf.workers.entries().iter().map(|(worker, _)| &**worker), target)
}

/// The backend of requests with this path whose target is a balancer: this member.
pub(super) fn to_member(request: &Request, member: &Member, mut path: &str) -> Backend {
    let mut target = member.worker.target.clone();
    if scheme(request, &target.scheme).is_some_and(|scheme| !scheme.query) {
        // The balancer's URL has the request's query, which URLs of this protocol have not.
        path = path.split('?').next().unwrap_or_default();
    }
    if target.path.is_empty() && path.is_empty() {
        path = "/";
    }
    target.path.push_str(path);
    let common = Common { tally: member.tally.clone(), limit: member.limit.clone(), rest: None };
    let known = Some((&member.worker.parameters, Some(&common)));
    backend_with(request, target, known)
}

/// How connections to a backend stay open, if they do.
pub(super) fn keep_of(known: &Parameters) -> Keep {
    let max = known.max.unwrap_or(MAX);
    Keep { max: known.smax.map_or(max, |smax| smax.min(max)), idle: known.idle }
}

/// The destination of a request with this target.
pub(super) fn destination(request: &Request, mut target: Target) -> Destination {
    // The choice of the backend depends on it, too.
    target.socket = target.socket.or_else(|| request.notes.get(SOCKET).map(str::to_string));
    let known = parameters(request, &target);
    backend_with(request, target, known.as_ref().map(|(known, common)| (&**known, *common))).into()
}

/// How long a server may be silent: `ProxyTimeout`, or `Timeout`.
pub(crate) fn timeout(request: &Request) -> Duration {
    let own = request.host::<ProxyServer>().timeout.get();
    own.copied().unwrap_or_else(|| request.host::<CoreServer>().timeout())
}

/// The backend of a target for which this is configured.
fn backend_with(request: &Request, target: Target, known: Option<(&Parameters, Option<&Common>)>) -> Backend {
    let common = known.and_then(|(_, common)| common);
    let tally = known.map_or_else(|| others(request), |_| common.map(|common| &common.tally)).cloned();
    let known = known.map(|(known, _)| known);
    let scheme = scheme(request, &target.scheme);
    // Nothing is configured for a backend that only a rule names: its connections serve one request each.
    let reuses = |known: &Parameters| known.reuse.unwrap_or(scheme.is_some_and(|scheme| scheme.reuse));
    let is_kept = known.is_some_and(reuses);
    let nothing = Parameters::default();
    let known = known.unwrap_or(&nothing);
    let timeout = known.timeout.unwrap_or_else(|| timeout(request));
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
    let keep = keep_of(known);
    let server = RemoteServer {
        address,
        name,
        connect: known.connect.unwrap_or(timeout),
        keep: Some(keep).filter(|_| is_kept),
        tls: None,
        way: None,
        tally,
    };
    let upgrade = known.upgrade.as_deref().or(scheme.and_then(|scheme| scheme.upgrade));
    let upgrade = upgrade.filter(|protocol| !protocol.eq_ignore_ascii_case("NONE")).map(str::to_string);
    Backend {
        target,
        kind: server.kind(),
        server,
        timeout,
        flush: known.flush == Some(true),
        ajp: AjpSettings {
            buffer: known.ajp.buffer.or(Some(request.host::<ProxyServer>().io_buffer())),
            ..known.ajp.clone()
        },
        upgrade,
        status: known.status.of(Status::default()),
        answering: None,
        limit: common.and_then(|common| common.limit.clone()),
        acquire: known.acquire,
        rest: common.and_then(|common| common.rest.clone()),
    }
}
