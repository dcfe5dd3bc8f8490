//! The client of a connection, from the view of its requests.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use crate::request::dns::{self, Reply, Unanswered};
use crate::request::unique::{self, Unique};
use crate::settings::core::Tri;
use crate::transport::endpoint::{Endpoint, NoConnection};
use crate::transport::tls::session::Session;

/// The properties shared by all requests of a connection.
pub struct Client {
    /// The client's address.
    pub peer: SocketAddr,
    /// Requests served on this connection before this one.
    pub keepalives: AtomicU32,
    endpoint: Arc<dyn Endpoint>,
    /// The client's IP address as text, once somebody has asked for it.
    ip: OnceLock<Box<str>>,
    misdirected: AtomicBool,
    /// It waits for nothing: the server has made its requests.
    is_absent: bool,
    /// The proxy at the other end, if it is not the client itself.
    speaker: Option<Arc<Client>>,
    /// The proxy's announcement of the client before the first request.
    announced: OnceLock<Announced>,
    /// Our address; determined on first use.
    local: OnceLock<Box<SocketAddr>>,
    /// The name of the address, once it was looked up. Anybody can name an own address after somebody else.
    name: OnceLock<Reply<Option<Arc<str>>>>,
    /// The name of the address, if that name leads back to the address (`HostnameLookups Double`).
    own_name: OnceLock<Reply<Option<Arc<str>>>>,
    /// The id of the connection in the logs; 0 until the error log has mentioned it.
    pub(crate) log_id: AtomicU64,
}

/// The client that a proxy announces before the first request (PROXY protocol).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announced {
    /// Nobody: it speaks for itself.
    #[default]
    Nobody,
    /// The client with this address.
    Client(SocketAddr),
}

/// The client of a request that is only remembered.
pub(crate) fn nobody() -> Arc<Client> {
    static NOBODY: LazyLock<Arc<Client>> = LazyLock::new(|| {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Arc::new(Client::new(nowhere, Arc::new(NoConnection { local: nowhere, session: None })))
    });
    NOBODY.clone()
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Client {
    /// The client at the other end.
    pub fn new(peer: SocketAddr, endpoint: Arc<dyn Endpoint>) -> Client {
        Client {
            peer,
            keepalives: AtomicU32::new(0),
            endpoint,
            ip: OnceLock::new(),
            misdirected: AtomicBool::new(false),
            is_absent: false,
            speaker: None,
            announced: OnceLock::new(),
            local: OnceLock::new(),
            name: OnceLock::new(),
            own_name: OnceLock::new(),
            log_id: AtomicU64::new(0),
        }
    }

    /// The client with that address, for which this one is the proxy.
    pub fn behind(self: &Arc<Client>, peer: SocketAddr) -> Client {
        let speaker = self.speaker.as_ref().unwrap_or(self);
        Client { speaker: Some(speaker.clone()), ..Client::new(peer, self.endpoint.clone()) }
    }

    /// One that is like the other end of this connection, for requests whose responses nobody gets.
    pub(crate) fn absent(&self) -> Client {
        let connection = self.connection();
        let ends = NoConnection { local: self.local(), session: self.session().cloned() };
        let absent = Client { is_absent: true, ..Client::new(connection.peer, Arc::new(ends)) };
        absent.announce(self.announced());
        absent
    }

    /// Whether nobody gets the responses to its requests.
    pub(crate) fn is_absent(&self) -> bool {
        self.connection().is_absent
    }

    /// Records the announced client.
    pub(crate) fn announce(&self, announced: Announced) {
        // Announced only once.
        let _ = self.announced.set(announced);
    }

    /// The announced client.
    pub fn announced(&self) -> Announced {
        self.connection().announced.get().copied().unwrap_or_default()
    }

    /// The other end of the connection: the client, or its proxy.
    pub fn connection(&self) -> &Client {
        self.speaker.as_deref().unwrap_or(self)
    }

    /// Whether the client has stopped sending. It may be gone, or wait for the response.
    pub fn has_ended(&self) -> bool {
        self.endpoint.has_ended()
    }

    /// The TLS session with the client, which protects the connection against reading and changes. `None`: there is no
    /// protection.
    pub fn session(&self) -> Option<&Session> {
        self.endpoint.session()
    }

    /// Whether the connection is protected against reading and changes.
    pub fn is_secure(&self) -> bool {
        self.session().is_some()
    }

    /// Whether the client speaks plain HTTP to a TLS port. None of its requests is served.
    pub fn is_misdirected(&self) -> bool {
        self.misdirected.load(Ordering::Relaxed)
    }

    pub(crate) fn set_misdirected(&self) {
        self.misdirected.store(true, Ordering::Relaxed);
    }

    /// Our address of this connection.
    pub fn local(&self) -> SocketAddr {
        let unknown = |_| SocketAddr::from(([0, 0, 0, 0], 0));
        **self.connection().local.get_or_init(|| Box::new(self.endpoint.local().unwrap_or_else(unknown)))
    }

    /// The client's IP address as text; IPv4 even if it came in through an IPv6 socket.
    pub fn ip(&self) -> &str {
        self.ip.get_or_init(|| http::address_text(self.peer.ip()).into())
    }

    /// The client's name, if that leads back to its address. Only such a name may be used for decisions.
    pub async fn own_name(&self) -> Result<Option<Arc<str>>, Unanswered> {
        let (address, deadline) = (self.peer.ip(), dns::deadline());
        // From now on logs show the name, as in Apache.
        let name = dns::name_of(address, deadline).await;
        let _ = self.name.set(name);
        let own = dns::own_name_of(address, deadline).await;
        let _ = self.own_name.set(own.clone());
        own
    }

    /// Looks the client up for logs and variables according to `HostnameLookups`, once per connection.
    pub(crate) async fn look_up(&self, how: Tri) {
        let (address, deadline) = (self.peer.ip(), dns::deadline());
        let _ = match how {
            Tri::Off => return,
            Tri::On => self.name.set(dns::name_of(address, deadline).await),
            Tri::Other => self.own_name.set(dns::own_name_of(address, deadline).await),
        };
    }

    /// The result of looking the client up. If `HostnameLookups` is `Double` only a checked name counts, even if
    /// another section or a rule had the name looked up before; otherwise any known name is shown.
    pub(crate) fn looked_up(&self, how: Tri) -> Option<&Reply<Option<Arc<str>>>> {
        match how {
            Tri::Other => self.own_name.get(),
            Tri::On | Tri::Off => self.name.get().or_else(|| self.own_name.get()),
        }
    }

    /// The id of this connection in the access log and in the error log (`%{c}L`): there is none until the error log
    /// has mentioned one of its requests.
    pub fn log_id(&self) -> Option<String> {
        let id = self.connection().log_id.load(Ordering::Relaxed);
        (id != 0).then(|| unique::letters(&id.to_be_bytes()))
    }

    pub(super) fn make_log_id(&self) {
        let id = Unique::draw().number();
        // Several requests may run at once: the first id stays.
        let _ = self.connection().log_id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
    }
}
