//! The way to a server: which hosts are refused, which proxy is asked, which address connections come from.

use std::sync::Arc;

use conf::Level;
use conf::pattern::MatchError;
use server::{HandlerResult, Request, dns};
use upstream::{Address, RemoteServer, Through, Way};

use super::blocked::BLOCKED;
use super::guard::{is_expected, is_named, reason};
use super::remote::{Direct, Remote};
use super::scheme::{Backend, Credentials, Destination, proxy_error};
use super::schemes::port_of;
use super::settings::ProxyServer;

/// A host to connect to, as the URL of a request names it.
pub(crate) struct Wanted<'w> {
    /// The URL, or `host:port`.
    pub(crate) url: &'w str,
    pub(crate) host: &'w str,
    pub(crate) port: u16,
    /// A proxy is asked for a tunnel, and not for the answer.
    pub(crate) by_tunnel: bool,
}

/// Why a request has no way.
pub(crate) struct NoWay {
    status: u16,
    reason: &'static str,
}

impl NoWay {
    /// The answer to the request.
    pub(crate) fn answer(self, request: &mut Request) -> HandlerResult {
        proxy_error(request, self.status, self.reason)
    }
}

/// Finds the way of a request: completes its server. `Some`: a proxy answers it, with these credentials. `Err`: it has
/// none, for this reason.
pub(crate) async fn find(
    request: &Request,
    server: &mut RemoteServer,
    wanted: &Wanted<'_>,
) -> Result<Option<Credentials>, NoWay> {
    let (vhost, is_forward) = (request.vhost, request.data.forward);
    let conf = vhost.settings.get::<ProxyServer>();
    let Wanted { url, host, port, by_tunnel } = *wanted;
    if is_named(conf, host) {
        return Err(NoWay { status: 403, reason: BLOCKED });
    }
    let mut way = Way { source: conf.source.get().copied(), ..Way::default() };
    let mut answering = None;
    let remote = remote_for(conf, url, host).await.map_err(|why| {
        request.log("proxy", Level::Error, format!("ProxyRemoteMatch cannot decide about {url}: {why}"));
        NoWay { status: 500, reason: "The way to the remote server cannot be decided" }
    })?;
    match remote {
        Some(remote) => {
            server.address = Address::Tcp(remote.host.clone(), remote.port);
            server.name = format!("{}:{}", remote.host, remote.port);
            let credentials = remote.credentials.clone();
            match by_tunnel {
                true => way.tunnel = Some(Through { authority: format!("{host}:{port}"), credentials }),
                false => answering = Some(credentials),
            }
        }
        None => {
            let is_guarded = is_forward && !is_expected(request, host, port);
            if is_guarded || !conf.blocked.is_empty() {
                way.refuses = Some(Arc::new(move |ip| reason(vhost, is_guarded, ip)));
            }
        }
    }
    if is_forward || way.source.is_some() || way.refuses.is_some() || way.tunnel.is_some() {
        server.keep = None;
    }
    server.way = Some(Arc::new(way));
    Ok(answering)
}

/// The proxy for a URL of this host; `None`: its server is connected to directly. `Err`: a line cannot decide.
async fn remote_for<'c>(conf: &'c ProxyServer, url: &str, host: &str) -> Result<Option<&'c Remote>, MatchError> {
    let mut found = None;
    for remote in conf.remotes.iter() {
        if remote.which.covers(url)? {
            found = Some(remote);
            break;
        }
    }
    let Some(remote) = found else { return Ok(None) };
    if conf.direct.iter().any(|direct| direct.has_name(host)) {
        return Ok(None);
    }
    let networks = || {
        conf.direct.iter().filter_map(|direct| match direct {
            Direct::Network(network) => Some(network),
            Direct::Domain(_) | Direct::Host(_) => None,
        })
    };
    if networks().next().is_some() {
        // A name that only the proxy can resolve is not in any of them.
        let addresses = dns::all_addresses_of(host).await.unwrap_or_default();
        if addresses.iter().any(|ip| networks().any(|network| network.contains(*ip))) {
            return Ok(None);
        }
    }
    Ok(Some(remote))
}

/// Whether there is anything to find out about the way of a request.
pub(super) fn is_special(request: &Request) -> bool {
    let conf = request.host::<ProxyServer>();
    request.data.forward || !conf.remotes.is_empty() || !conf.blocked.is_empty() || conf.source.is_set()
}

/// Completes the destination of a request. `Err`: it cannot be reached.
pub(super) async fn complete(request: &mut Request, destination: Destination) -> Result<Destination, HandlerResult> {
    let target = &destination.target;
    let port = target.port.unwrap_or_else(|| port_of(&target.scheme));
    let by_tunnel = match target.scheme.as_str() {
        _ if target.socket.is_some() => return Ok(destination),
        "http" | "ws" => false,
        "https" | "wss" | "h2" | "h2c" => true,
        _ => return Ok(destination),
    };
    let wanted = Wanted { url: &target.url(), host: &target.host, port, by_tunnel };
    let mut server = destination.server.clone();
    match find(request, &mut server, &wanted).await {
        Ok(answering) => {
            let backend = Backend { kind: server.kind(), server, answering, ..Backend::clone(&destination) };
            Ok(Destination { backend: Arc::new(backend), ..destination })
        }
        Err(none) => Err(none.answer(request)),
    }
}
