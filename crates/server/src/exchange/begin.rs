//! From a head to a request: chooses its virtual host, and checks it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::Known;

use crate::message::head::RequestHead;
use crate::request::Account;
use crate::request::Asked;
use crate::request::Client;
use crate::request::hooks::Hooks;
use crate::request::{Kind, Request, Source};
use crate::site::server::Server;
use crate::site::vhost;
use crate::site::vhost::VirtualHost;

/// The server and hooks with which a child serves.
#[derive(Clone, Copy)]
pub struct Running {
    /// The server.
    pub server: &'static Server,
    /// The loaded modules' hooks for requests.
    pub hooks: &'static Hooks,
}

/// Why a well-formed head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// The host in it is unknown, and `StrictHostCheck` demands a known one.
    UnknownHost,
    /// `HttpProtocolOptions RegisteredMethods`, and the method is not registered.
    Method,
}

/// A refused head.
pub struct TurnedAway {
    /// The reason.
    pub why: Unserved,
    /// The head.
    pub head: RequestHead,
}

impl Unserved {
    /// The status of the answer, and a clause for the error log.
    pub fn words(self) -> (u16, &'static str) {
        match self {
            Unserved::UnknownHost => (400, "no virtual host has the requested name (StrictHostCheck)"),
            Unserved::Method => (501, "the method is not registered (HttpProtocolOptions)"),
        }
    }
}

/// The error log's text for a request with an unknown host.
pub(crate) fn unknown_host(request: &Request) -> String {
    let name = request.asked.hostname.as_deref().unwrap_or_default();
    match &request.vhost.origin {
        None => format!(
            "AH10156: Requested hostname '{name}' did not match any ServerName/ServerAlias in the global server \
             configuration "
        ),
        Some(origin) => format!(
            "AH10157: Requested hostname '{name}' did not match any ServerName/ServerAlias in the matching virtual host \
             (default vhost for current connection is {origin})"
        ),
    }
}

/// How far to trust the host in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskedHost {
    /// Check it: a host that the configuration rejects is refused.
    Checked,
    /// Take it as it is: the request is refused in its name.
    Given,
    /// Ignore it: the head is broken.
    Nothing,
}

/// Makes a request from a head.
pub(crate) fn request(
    Running { server, hooks }: Running,
    client: &Arc<Client>,
    head: RequestHead,
    believed: AskedHost,
) -> Result<Box<Request>, Box<TurnedAway>> {
    let text = |bytes: &[u8]| http::text::from_bytes(bytes).into_owned();
    let authority = head.authority().filter(|_| believed != AskedHost::Nothing);
    let hostname = authority.map(|authority| {
        // The head was refused unless this is a host with or without a port.
        let colon = memchr::memrchr(b':', authority).filter(|_| !authority.ends_with(b"]"));
        let mut host = text(&authority[..colon.unwrap_or(authority.len())]);
        host.make_ascii_lowercase();
        host.truncate(host.strip_suffix('.').map_or(host.len(), str::len));
        host
    });
    let (vhost, known) = virtual_host(server, client, hostname.as_deref());
    let check = believed == AskedHost::Checked;
    let is_own = |name: &String| known || *name == vhost.name;
    if check && vhost::is_strict(vhost) && !hostname.as_ref().is_none_or(is_own) {
        return Err(Box::new(TurnedAway { why: Unserved::UnknownHost, head }));
    }
    let method = match head.method() {
        b"GET" => Cow::Borrowed("GET"),
        b"HEAD" => Cow::Borrowed("HEAD"),
        b"POST" => Cow::Borrowed("POST"),
        other => Cow::Owned(text(other)),
    };
    if check && vhost.plan.only_registered_methods && !server.knows_method(&method) {
        return Err(Box::new(TurnedAway { why: Unserved::Method, head }));
    }
    let (args, version) = (head.query().map(text), head.version());
    let source = Source { server, hooks, vhost, client: client.clone() };
    let time = SystemTime::UNIX_EPOCH + sys::time::realtime();
    let asked = Asked::new(Arc::new(head));
    let mut request = Request::new(source, Kind::Main, asked, Account::new(time, Instant::now()));
    let asked = &mut request.asked;
    asked.header_only = method == "HEAD";
    asked.method = method;
    asked.version = version;
    asked.args = args;
    asked.hostname = hostname;
    reset_host(&mut request);
    Ok(request)
}

/// The virtual host for a name, and whether it knows the name; without a name, the first one of the address.
pub(crate) fn virtual_host(
    server: &'static Server,
    client: &Client,
    name: Option<&str>,
) -> (&'static VirtualHost, bool) {
    match server.by_name.is_empty() {
        true => (server.main(), false),
        false => server.host_at(client.local(), name),
    }
}

/// The target's host takes precedence, and the field must agree with it (RFC 9112 section 3.2.2), because programs look
/// there.
fn reset_host(request: &mut Request) {
    let Some(authority) = request.asked.head.authority() else { return };
    if request.asked.head.field(Known::Host) == Some(authority)
        || request.asked.version < http::Version::Http2 && !request.asked.head.has(Known::Host)
    {
        return;
    }
    let port = memchr::memrchr(b':', authority).filter(|_| !authority.ends_with(b"]"));
    let port = http::text::from_bytes(&authority[port.unwrap_or(authority.len())..]).into_owned();
    let host = request.asked.hostname.clone().unwrap_or_default();
    request.headers_mut().set("Host", format!("{host}{port}"));
}
