//! From a head to a request: chooses its virtual host, and checks it.

use std::borrow::Cow;
use std::sync::Arc;

use http::KnownField;
use sys::time::Instant;

use crate::exchange::refused_head::RefusedHead;
use crate::message::head::RequestHead;
use crate::request::hooks::Hooks;
use crate::request::{Account, Client, Request, RequestData, RequestKind, Source, StreamId};
use crate::site::server::Server;
use crate::site::vhost::{self, VirtualHost};

/// The server and hooks with which a child serves.
#[derive(Clone, Copy)]
pub struct Running {
    /// The server.
    pub server: &'static Server,
    /// The loaded modules' hooks for requests.
    pub hooks: &'static Hooks,
}

/// A head, as a protocol received it.
pub struct Received {
    /// The head; as much of it as arrived, if it is `broken`.
    pub head: Arc<RequestHead>,
    /// Why the protocol refuses it.
    pub broken: Option<RefusedHead>,
    /// The stream that it came in, if a connection has several at once.
    pub stream: Option<StreamId>,
}

impl Received {
    /// A whole head, the only one under way on its connection.
    pub fn whole(head: impl Into<Arc<RequestHead>>) -> Received {
        Received { head: head.into(), broken: None, stream: None }
    }
}

/// Makes a request from a head, and says why it is refused, if it is: its protocol or its virtual host does not serve it. The
/// reason was logged.
pub(crate) fn request(
    Running { server, hooks }: Running,
    client: &Arc<Client>,
    Received { head, broken, stream }: Received,
) -> (Box<Request>, Option<RefusedHead>) {
    let text = |bytes: &[u8]| http::text::from_bytes(bytes).into_owned();
    let authority = head.authority().filter(|_| broken.is_none_or(RefusedHead::has_host));
    let hostname = authority.map(|authority| {
        // The head was refused unless this is a host with or without a port.
        let colon = memchr::memrchr(b':', authority).filter(|_| !authority.ends_with(b"]"));
        let mut host = text(&authority[..colon.unwrap_or(authority.len())]);
        host.make_ascii_lowercase();
        host.truncate(host.strip_suffix('.').map_or(host.len(), str::len));
        host
    });
    let (vhost, known) = virtual_host(server, client, hostname.as_deref());
    let method = match head.method() {
        b"GET" => Cow::Borrowed("GET"),
        b"HEAD" => Cow::Borrowed("HEAD"),
        b"POST" => Cow::Borrowed("POST"),
        other => Cow::Owned(text(other)),
    };
    let is_own = |name: &String| known || *name == vhost.name;
    let refusal = match broken {
        Some(broken) => Some(broken),
        None if vhost::is_strict(vhost) && !hostname.as_ref().is_none_or(is_own) => Some(RefusedHead::UnknownHost),
        None if vhost.plan.only_registered_methods && !server.knows_method(&method) => {
            Some(RefusedHead::UnregisteredMethod)
        }
        None => None,
    };
    let (args, version) = (head.query().map(text), head.version());
    let source = Source { server, hooks, vhost, client: client.clone() };
    let data = RequestData::new(head);
    let mut request = Request::new(source, RequestKind::Main, data, Account::new(Instant::now()));
    let data = &mut request.data;
    data.header_only = method == "HEAD";
    data.method = method;
    data.version = version;
    data.args = args;
    data.hostname = hostname;
    data.stream = stream;
    reset_host(&mut request);
    if let Some(refusal) = refusal {
        refusal.note(&mut request);
    }
    (request, refusal)
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
    let Some(authority) = request.data.head.authority() else { return };
    if request.data.head.field(KnownField::Host) == Some(authority)
        || request.data.version < http::Version::Http2 && !request.data.head.has(KnownField::Host)
    {
        return;
    }
    let port = memchr::memrchr(b':', authority).filter(|_| !authority.ends_with(b"]"));
    let port = http::text::from_bytes(&authority[port.unwrap_or(authority.len())..]).into_owned();
    let host = request.data.hostname.clone().unwrap_or_default();
    request.headers_mut().set("Host", format!("{host}{port}"));
}
