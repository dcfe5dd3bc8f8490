//! From a head to a request: whose it is, and what it says of itself.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http1::framing::Framing;

use super::refuse::{Refusal, Why};
use crate::config::core::CoreServer;
use crate::config::vhost;
use crate::config::{Server, VirtualHost};
use crate::protocol::body::RequestBody;
use crate::request::{Client, Incoming, Kind, Request, Source};

/// Makes a request of a head, and what was received behind it. `check`: a host that is not known is refused where
/// `StrictHostCheck` says so.
pub(crate) fn request(
    server: &'static Server,
    client: &Arc<Client>,
    mut incoming: Incoming,
    framing: Framing,
    check: bool,
) -> Result<(Box<Request>, Vec<u8>), Box<Refusal>> {
    let (head, bytes) = (&incoming.head, &incoming.bytes[..]);
    let text = |bytes: &[u8]| http1::text::from_bytes(bytes).into_owned();
    let hostname = head.host(bytes).map(|authority| {
        // The head was refused unless this is a host with or without a port.
        let colon = memchr::memrchr(b':', authority).filter(|_| !authority.ends_with(b"]"));
        let mut host = text(&authority[..colon.unwrap_or(authority.len())]);
        host.make_ascii_lowercase();
        host.truncate(host.strip_suffix('.').map_or(host.len(), str::len));
        host
    });
    let vhost = virtual_host(server, client, hostname.as_deref(), check);
    let Some(vhost) = vhost else { return Err(Refusal::boxed(Why::UnknownHost, incoming)) };
    let method = match head.method(bytes) {
        b"GET" => Cow::Borrowed("GET"),
        b"HEAD" => Cow::Borrowed("HEAD"),
        b"POST" => Cow::Borrowed("POST"),
        other => Cow::Owned(text(other)),
    };
    if check && vhost.plan.only_registered_methods && !vhost.settings.get::<CoreServer>().knows_method(&method) {
        return Err(Refusal::boxed(Why::Method, incoming));
    }
    let (unparsed_uri, args) = (text(head.target(bytes)), head.query(bytes).map(text));
    let version = head.version();
    let expects = head.field(bytes, http1::Known::Expect).is_some_and(|e| e.eq_ignore_ascii_case(b"100-continue"));
    let mut received = incoming.head_len as u64;
    let mut rest = Vec::new();
    if incoming.bytes.len() > incoming.head_len {
        rest = incoming.bytes.split_off(incoming.head_len);
    }
    let body = if framing.has_body() {
        let begun = std::mem::take(&mut rest);
        received += begun.len() as u64;
        RequestBody::new(client.clone(), framing, begun, expects, vhost.plan.body)
    } else {
        RequestBody::default()
    };
    let origin = Source { server, vhost, client: client.clone(), incoming: Arc::new(incoming) };
    let time = SystemTime::UNIX_EPOCH + sys::time::realtime();
    let mut request = Request::new(origin, Kind::Main, time, Instant::now());
    request.header_only = method == "HEAD";
    request.method = method;
    request.version = version;
    request.unparsed_uri = unparsed_uri;
    request.args = args;
    request.hostname = hostname;
    reset_host(&mut request);
    request.body = body;
    request.sent.received = received;
    Ok((request, rest))
}

/// The virtual host; `None`: the name is unknown, and that is to be checked.
fn virtual_host(
    server: &'static Server,
    client: &Client,
    name: Option<&str>,
    check: bool,
) -> Option<&'static VirtualHost> {
    let hosts = &server.by_name;
    let (index, known) = if hosts.is_empty() { (0, false) } else { hosts.choose(client.local(), name) };
    let host = &server.hosts[index];
    if check && name.is_some() && !known && vhost::is_strict(host) && name != Some(host.name.as_str()) {
        return None;
    }
    Some(host)
}

/// The host of an absolute target counts, and the field has to say the same (RFC 9112 section 3.2.2): programs look there.
fn reset_host(request: &mut Request) {
    let (head, bytes) = (&request.incoming.head, &request.incoming.bytes);
    let (Some(authority), Some(field)) = (head.host(bytes), head.field(bytes, http1::Known::Host)) else { return };
    if authority == field {
        return;
    }
    let port = memchr::memrchr(b':', authority).filter(|_| !authority.ends_with(b"]"));
    let port = http1::text::from_bytes(&authority[port.unwrap_or(authority.len())..]).into_owned();
    let host = request.hostname.clone().unwrap_or_default();
    request.headers_mut().set("Host", format!("{host}{port}"));
}
