//! What a proxy changes in the fields of a message on its way (RFC 9110 section 7.6).

use http::Version;
use server::{Fields, Request};

use super::settings::{ProxyDir, ProxyServer, Via};
use super::target::Target;

/// Fields about one connection. Those that a message lists in `Connection` are, too.
const HOP_BY_HOP: [&str; 8] =
    ["Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"];

/// Removes the fields that concern one connection only.
pub(crate) fn drop_hop_by_hop(fields: &mut Fields) {
    let listed = fields.joined("Connection").unwrap_or_default();
    HOP_BY_HOP.into_iter().chain(listed.split(',').map(str::trim)).for_each(|name| {
        fields.remove(name);
    });
}

/// The fields of a request for the next server, without those of the connection to it, `Host` and `Expect`.
pub(crate) fn fields(request: &Request) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in request.headers() {
        fields.merge(name.into_owned(), &value);
    }
    drop_hop_by_hop(&mut fields);
    let asked_host = fields.get("Host").map(str::to_string);
    fields.remove("Host");
    let most = request.host::<ProxyServer>().max_forwards();
    let left = fields.get("Max-Forwards").and_then(|text| text.trim().parse::<i32>().ok()).map(|left| left - 1);
    if let Some(left) = left.or(Some(most)).filter(|left| *left >= 0) {
        fields.set("Max-Forwards", left.to_string());
    }
    match request.host::<ProxyServer>().via() {
        Via::Block => fields.remove("Via"),
        _ => add_via(request, &mut fields),
    }
    if request.dir::<ProxyDir>().add_headers() {
        fields.merge("X-Forwarded-For", &request.client().ip());
        if let Some(host) = asked_host {
            fields.merge("X-Forwarded-Host", &host);
        }
        fields.merge("X-Forwarded-Server", &request.vhost.name);
    }
    fields
}

/// Adds this server to `Via`, if `ProxyVia` says so.
pub(crate) fn add_via(request: &Request, fields: &mut Fields) {
    let via = request.host::<ProxyServer>().via();
    if matches!(via, Via::Off | Via::Block) {
        return;
    }
    let version = match request.data.version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
        Version::Http2 => "2.0",
    };
    let (name, port) = (&request.vhost.name, request.server_port());
    let mut text = match port == request.vhost.scheme_port() {
        true => format!("{version} {name}"),
        false => format!("{version} {name}:{port}"),
    };
    let software = request.server.software.split(' ').next().unwrap_or_default();
    if via == Via::Full && !software.is_empty() {
        text.push_str(&format!(" ({software})"));
    }
    fields.merge("Via", &text);
}

/// The field `Host` for the next server: the backend's own name, or with `ProxyPreserveHost` the one that the client has
/// asked for.
pub(crate) fn host(request: &Request, target: &Target) -> String {
    match request.dir::<ProxyDir>().preserve_host() {
        false => target.authority(),
        true => request.header("Host").map_or_else(|| request.vhost.name.clone(), |host| host.into_owned()),
    }
}

/// Whether the client asks before it sends its body, and the backend is to answer that.
pub(crate) fn asks_first(request: &Request) -> bool {
    request.dir::<ProxyDir>().forward_continue()
        && request.data.version >= Version::Http11
        && request.header("Expect").is_some_and(|text| text.trim().eq_ignore_ascii_case("100-continue"))
}
