//! What a proxy changes in the fields of a message on its way (RFC 9110 section 7.6).

use std::borrow::Cow;
use std::collections::HashSet;

use http::name::FieldSet;
use http::text::{from_bytes, to_bytes};
use http::{KnownField, Version};
use server::Request;

use super::settings::{ProxyDir, ProxyServer, Via};
use super::target::Target;

/// Fields that make a response depend on what the client has already.
const CONDITIONS: FieldSet = FieldSet::of(Some(KnownField::IfMatch))
    .and(FieldSet::of(Some(KnownField::IfModifiedSince)))
    .and(FieldSet::of(Some(KnownField::IfNoneMatch)))
    .and(FieldSet::of(Some(KnownField::IfRange)))
    .and(FieldSet::of(Some(KnownField::IfUnmodifiedSince)));
/// How many fields a proxy may add.
const ADDED: usize = 5;
/// Fields about one connection. Those that a message lists in `Connection` are, too.
const HOP_BY_HOP: FieldSet = FieldSet::of(Some(KnownField::Connection))
    .and(FieldSet::of(Some(KnownField::Te)))
    .and(FieldSet::of(Some(KnownField::TransferEncoding)))
    .and(FieldSet::of(Some(KnownField::Upgrade)))
    .and(FieldSet::of(Some(KnownField::ContentLength)));
/// Those of them that are not known.
const HOP_BY_HOP_TOO: [&[u8]; 3] = [b"Keep-Alive", b"Proxy-Connection", b"Trailer"];

/// The fields of a message that concern one connection only.
pub(crate) struct HopByHop {
    /// The options of `Connection` that are not among those always, in lower case.
    listed: HashSet<Vec<u8>>,
}

impl HopByHop {
    /// Those of a message with this `Connection`.
    pub(crate) fn of(connection: &[u8]) -> HopByHop {
        let options = connection.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let is_other = |option: &&[u8]| {
            !option.is_empty()
                && !option.eq_ignore_ascii_case(b"close")
                && !is_always(KnownField::classify(option), option)
        };
        HopByHop { listed: options.filter(is_other).map(<[u8]>::to_ascii_lowercase).collect() }
    }

    /// Whether the field of this name is one of them. `known`: which known name that is, if any.
    pub(crate) fn has(&self, known: Option<KnownField>, name: &[u8]) -> bool {
        is_always(known, name) || !self.listed.is_empty() && self.listed.contains(&name.to_ascii_lowercase())
    }
}

fn is_always(known: Option<KnownField>, name: &[u8]) -> bool {
    match known {
        Some(known) => HOP_BY_HOP.has(Some(known)),
        None => HOP_BY_HOP_TOO.iter().any(|one| one.eq_ignore_ascii_case(name)),
    }
}

/// A field of a request for the next server.
pub(crate) struct Forwarded<'r> {
    /// Which known name it has, if any.
    known: Option<KnownField>,
    pub(crate) name: Cow<'r, [u8]>,
    pub(crate) value: Cow<'r, [u8]>,
}

impl Forwarded<'_> {
    /// Whether it proves to a proxy who the client is.
    pub(crate) fn is_for_proxies(&self) -> bool {
        self.known == Some(KnownField::ProxyAuthorization)
    }

    fn is(&self, known: Option<KnownField>, name: &[u8]) -> bool {
        self.known == known && (known.is_some() || self.name.eq_ignore_ascii_case(name))
    }
}

/// The fields of a request for the next server, without those of the connection to it and `Host`. As in Apache, several
/// of one name are one. `expects`: with `Expect`.
pub(crate) fn fields(request: &Request, expects: bool) -> Vec<Forwarded<'_>> {
    let connection = request.header_bytes(KnownField::Connection.into());
    let hop_by_hop = HopByHop::of(connection.as_deref().unwrap_or_default());
    let mut dropped = FieldSet::of(Some(KnownField::Host));
    if !expects {
        dropped = dropped.and(FieldSet::of(Some(KnownField::Expect)));
    }
    if request.is_subrequest() {
        // The conditions are about the whole response.
        dropped = dropped.and(CONDITIONS);
    }
    if request.login.user.is_some() && !request.env.contains("Proxy-Chain-Auth") {
        // The user has proved to this server who he is: nobody else needs to know his password.
        dropped = dropped.and(FieldSet::of(Some(KnownField::ProxyAuthorization)));
    }
    let mut fields = Vec::with_capacity(USUAL + ADDED);
    for (known, name, value) in request.named_fields() {
        let is_dropped = known.is_some() && dropped.has(known);
        if !is_dropped && !hop_by_hop.has(known, &name) {
            merge(&mut fields, Forwarded { known, name, value });
        }
    }
    count_server(request, &mut fields);
    match via(request) {
        _ if request.host::<ProxyServer>().via() == Via::Block => fields.retain(|field| !field.is(None, b"Via")),
        Some(via) => merge(&mut fields, added(b"Via", to_bytes(&via).into_owned())),
        None => {}
    }
    if adds_fields(request) {
        let known = Some(KnownField::XForwardedFor);
        merge(&mut fields, Forwarded { known, ..added(b"X-Forwarded-For", request.client().ip().as_bytes()) });
        if let Some(host) = request.header_bytes(KnownField::Host.into()) {
            merge(&mut fields, added(b"X-Forwarded-Host", host));
        }
        merge(&mut fields, added(b"X-Forwarded-Server", to_bytes(&request.vhost.name)));
    }
    fields
}

/// Whether the next server learns whom the request comes from (`ProxyAddHeaders`).
pub(crate) fn adds_fields(request: &Request) -> bool {
    request.dir::<ProxyDir>().add_headers() && !request.data.forward
}

/// Fields that say how a message is to be read, who sends it, or where it goes. None of them may come after a body (RFC 9110 section
/// 6.5.1).
const BEFORE_BODY: [&str; 24] = [
    "authorization",
    "cache-control",
    "content-encoding",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "set-cookie",
    "vary",
    "via",
    "warning",
    "www-authenticate",
];

/// Whether a field after a body is passed on. `name`: in lower case.
pub(crate) fn is_trailer(name: &str) -> bool {
    let known = KnownField::classify(name.as_bytes());
    !is_always(known, name.as_bytes()) && !BEFORE_BODY.contains(&name) && !name.starts_with("x-forwarded-")
}

/// All fields of a request for a server that knows the client's request by its protocol; several of one name are one.
pub(crate) fn one_of_each(request: &Request) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let mut fields = Vec::new();
    for (known, name, value) in request.named_fields() {
        merge(&mut fields, Forwarded { known, name, value });
    }
    count_server(request, &mut fields);
    fields.into_iter().map(|field| (text(field.name), text(field.value))).collect()
}

fn text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => from_bytes(bytes),
        Cow::Owned(bytes) => Cow::Owned(from_bytes(&bytes).into_owned()),
    }
}

/// Counts this server in `Max-Forwards` (RFC 9110 section 7.6.2).
fn count_server(request: &Request, fields: &mut Vec<Forwarded<'_>>) {
    let most = request.host::<ProxyServer>().max_forwards();
    let known = Some(KnownField::MaxForwards);
    let left = fields.iter().find(|field| field.known == known);
    let left = left
        .and_then(|field| std::str::from_utf8(&field.value).ok()?.trim().parse::<u64>().ok())
        .map(|left| left.saturating_sub(1));
    if let Some(left) = left.or(u64::try_from(most).ok()) {
        fields.retain(|field| field.known != known);
        fields.push(Forwarded { known, ..added(b"Max-Forwards", left.to_string().into_bytes()) });
    }
}

/// How many fields a request has, as a rule.
const USUAL: usize = 12;

/// A field that this server adds, which has no known name.
fn added<'r>(name: &'static [u8], value: impl Into<Cow<'r, [u8]>>) -> Forwarded<'r> {
    Forwarded { known: None, name: name.into(), value: value.into() }
}

/// Appends to the value of a name, or adds the field.
fn merge<'f>(fields: &mut Vec<Forwarded<'f>>, field: Forwarded<'f>) {
    match fields.iter_mut().find(|have| have.is(field.known, &field.name)) {
        Some(have) => {
            let text = have.value.to_mut();
            text.extend_from_slice(b", ");
            text.extend_from_slice(&field.value);
        }
        None => fields.push(field),
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
pub(crate) fn host<'r>(request: &'r Request, target: &'r Target) -> Cow<'r, str> {
    match request.dir::<ProxyDir>().preserve_host() {
        false => target.authority(),
        true => request.header("Host").unwrap_or_else(|| request.vhost.name.as_str().into()),
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
        && request
            .header_bytes(KnownField::Expect.into())
            .is_some_and(|text| text.trim_ascii().eq_ignore_ascii_case(b"100-continue"))
}
