//! What a proxy changes in the fields of a message on its way (RFC 9110 section 7.6).

use std::borrow::Cow;
use std::collections::HashSet;

use http::Version;
use server::Request;

use super::settings::{ProxyDir, ProxyServer, Via};
use super::target::Target;

/// Fields that make a response depend on what the client has already.
const CONDITIONS: [&str; 5] = ["If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since"];
/// How many fields a proxy may add.
const ADDED: usize = 5;
/// Fields about one connection. Those that a message lists in `Connection` are, too.
const HOP_BY_HOP: [&str; 8] =
    ["Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"];

/// The fields of a message that concern one connection only.
pub(crate) struct HopByHop {
    /// The options of `Connection` that are not among those always, in lower case.
    listed: HashSet<String>,
}

impl HopByHop {
    /// Those of a message with this `Connection`.
    pub(crate) fn of(connection: &str) -> HopByHop {
        let options = connection.split(',').map(str::trim);
        let others = options.filter(|option| !option.eq_ignore_ascii_case("close") && !is_always(option));
        HopByHop { listed: others.map(str::to_ascii_lowercase).collect() }
    }

    /// Whether the field of this name is one of them.
    pub(crate) fn has(&self, name: &str) -> bool {
        is_always(name) || !self.listed.is_empty() && self.listed.contains(&name.to_ascii_lowercase())
    }
}

fn is_always(name: &str) -> bool {
    HOP_BY_HOP.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// The fields of a request for the next server, without those of the connection to it and `Host`. As in Apache, several
/// of one name are one.
pub(crate) fn fields(request: &Request) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let hop_by_hop = HopByHop::of(&request.header_joined("Connection").unwrap_or_default());
    // The conditions are about the whole response.
    let is_condition =
        |name: &str| request.is_subrequest() && CONDITIONS.iter().any(|one| one.eq_ignore_ascii_case(name));
    let headers = request.headers();
    let mut fields: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::with_capacity(headers.len() + ADDED);
    for (name, value) in headers {
        if !hop_by_hop.has(&name) && !name.eq_ignore_ascii_case("Host") && !is_condition(&name) {
            merge(&mut fields, name, value);
        }
    }
    let most = request.host::<ProxyServer>().max_forwards();
    let left = value_of(&fields, "Max-Forwards")
        .and_then(|text| text.trim().parse::<u64>().ok())
        .map(|left| left.saturating_sub(1));
    if let Some(left) = left.or(u64::try_from(most).ok()) {
        fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Max-Forwards"));
        fields.push(("Max-Forwards".into(), left.to_string().into()));
    }
    match via(request) {
        _ if request.host::<ProxyServer>().via() == Via::Block => {
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Via"));
        }
        Some(via) => merge(&mut fields, "Via".into(), via.into()),
        None => {}
    }
    if request.dir::<ProxyDir>().add_headers() {
        merge(&mut fields, "X-Forwarded-For".into(), request.client().ip().into());
        if let Some(host) = request.header("Host") {
            merge(&mut fields, "X-Forwarded-Host".into(), host);
        }
        merge(&mut fields, "X-Forwarded-Server".into(), Cow::Borrowed(&*request.vhost.name));
    }
    fields
}

fn value_of<'f>(fields: &'f [(Cow<'_, str>, Cow<'_, str>)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
}

/// Appends to the value of a name, or adds the field.
fn merge<'f>(fields: &mut Vec<(Cow<'f, str>, Cow<'f, str>)>, name: Cow<'f, str>, value: Cow<'f, str>) {
    match fields.iter_mut().find(|(have, _)| have.eq_ignore_ascii_case(&name)) {
        Some((_, have)) => *have = format!("{have}, {value}").into(),
        None => fields.push((name, value)),
    }
}

/// What this server adds to `Via`, if `ProxyVia` says so.
pub(crate) fn via(request: &Request) -> Option<String> {
    let via = request.host::<ProxyServer>().via();
    if matches!(via, Via::Off | Via::Block) {
        return None;
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
    Some(text)
}

/// The field `Host` for the next server: the backend's own name, or with `ProxyPreserveHost` the one that the client has
/// asked for.
pub(crate) fn host(request: &Request, target: &Target) -> String {
    match request.dir::<ProxyDir>().preserve_host() {
        false => target.authority(),
        true => request.header("Host").map_or_else(|| request.vhost.name.clone(), |host| host.into_owned()),
    }
}

/// The name of the host that a backend is asked for, without a port.
pub(crate) fn host_name<'n>(request: &'n Request, target: &'n Target) -> &'n str {
    match request.dir::<ProxyDir>().preserve_host() {
        false => &target.host,
        true => request.data.hostname.as_deref().unwrap_or(&request.vhost.name),
    }
}

/// Whether the client asks before it sends its body, and the backend is to answer that.
pub(crate) fn asks_first(request: &Request) -> bool {
    request.dir::<ProxyDir>().forward_continue()
        && !request.env.contains("force-proxy-request-1.0")
        && request.data.version >= Version::Http11
        && request.header("Expect").is_some_and(|text| text.trim().eq_ignore_ascii_case("100-continue"))
}
