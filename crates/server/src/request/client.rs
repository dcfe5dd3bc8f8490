//! The client of a connection, as its requests know it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use conf::expr::EvalError;

use crate::config::core::{CoreDir, Tri};
use crate::request::Request;
use crate::request::dns::{self, Reply, Unanswered};
use crate::request::unique::{self, Unique};
use crate::transport::Endpoint;
use crate::transport::tls::Session;

/// What is the same for all requests of a connection.
pub struct Client {
    /// The client's address.
    pub peer: SocketAddr,
    /// Requests served on this connection before this one.
    pub keepalives: AtomicU32,
    endpoint: Arc<dyn Endpoint>,
    misdirected: AtomicBool,
    /// Who is at the other end, where that is not the client but somebody who speaks for it.
    speaker: Option<Arc<Client>>,
    /// What the other end has said of the client before its first request.
    announced: OnceLock<Announced>,
    /// Our address; asked for only when somebody wants to know.
    local: OnceLock<Box<SocketAddr>>,
    /// The name that belongs to the address, once it was looked up. Anybody can name an address of his after somebody else.
    name: OnceLock<Reply<Option<Arc<str>>>>,
    /// The same, if that name leads back to the address.
    own_name: OnceLock<Reply<Option<Arc<str>>>>,
    /// What stands for the connection in logs; 0 until the error log has said something about it.
    pub(crate) log_id: AtomicU64,
}

/// Whom the other end of a connection speaks for, by what it says before its first request (PROXY protocol).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announced {
    /// For itself.
    #[default]
    Nobody,
    /// For the client with this address.
    Client(SocketAddr),
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
            misdirected: AtomicBool::new(false),
            speaker: None,
            announced: OnceLock::new(),
            local: OnceLock::new(),
            name: OnceLock::new(),
            own_name: OnceLock::new(),
            log_id: AtomicU64::new(0),
        }
    }

    /// The client with that address, which this one speaks for.
    pub fn behind(self: &Arc<Client>, peer: SocketAddr) -> Client {
        let speaker = self.speaker.as_ref().unwrap_or(self);
        Client { speaker: Some(speaker.clone()), ..Client::new(peer, self.endpoint.clone()) }
    }

    /// Remembers whom the other end speaks for.
    pub(crate) fn announce(&self, announced: Announced) {
        // It is said once.
        let _ = self.announced.set(announced);
    }

    /// Whom the other end of the connection speaks for.
    pub fn announced(&self) -> Announced {
        self.connection().announced.get().copied().unwrap_or_default()
    }

    /// Who is at the other end of the connection: the client, or somebody who speaks for it.
    pub fn connection(&self) -> &Client {
        self.speaker.as_deref().unwrap_or(self)
    }

    /// Whether the client sends nothing more. It may be gone, or wait for the answer.
    pub fn has_ended(&self) -> bool {
        self.endpoint.has_ended()
    }

    /// What the client and we have agreed on, so that nobody between us can read or change what is sent. `None`: anybody can.
    pub fn session(&self) -> Option<&Session> {
        self.endpoint.session()
    }

    /// Whether nobody between the client and us can read or change what is sent.
    pub fn is_secure(&self) -> bool {
        self.session().is_some()
    }

    /// Whether the client speaks without TLS where that is spoken. No request of it is served.
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

    /// The client's IP address as text; IPv4 also where it came in through an IPv6 socket.
    pub fn ip(&self) -> String {
        self.peer.ip().to_canonical().to_string()
    }

    /// The client's name, if that leads back to its address. Only such a name may decide anything.
    pub async fn own_name(&self) -> Result<Option<Arc<str>>, Unanswered> {
        let (address, deadline) = (self.peer.ip(), dns::deadline());
        // Logs show the name from now on, as in Apache.
        let name = dns::name_of(address, deadline).await;
        let _ = self.name.set(name);
        let own = dns::own_name_of(address, deadline).await;
        let _ = self.own_name.set(own.clone());
        own
    }

    /// Looks the client up for logs and variables as `HostnameLookups` says, once per connection.
    pub(crate) async fn look_up(&self, how: Tri) {
        let (address, deadline) = (self.peer.ip(), dns::deadline());
        let _ = match how {
            Tri::Off => return,
            Tri::On => self.name.set(dns::name_of(address, deadline).await),
            Tri::Other => self.own_name.set(dns::own_name_of(address, deadline).await),
        };
    }

    /// What looking the client up has come to. Where `HostnameLookups` is `Double` nothing but a checked name counts, even if
    /// another section or a rule has had the name looked up before; otherwise what is known is shown.
    pub(crate) fn looked_up(&self, how: Tri) -> Option<&Reply<Option<Arc<str>>>> {
        match how {
            Tri::Other => self.own_name.get(),
            Tri::On | Tri::Off => self.name.get().or_else(|| self.own_name.get()),
        }
    }

    /// The id that stands for this connection in the access log and in the error log (`%{c}L`): there is none until the
    /// error log has written something about one of its requests.
    pub fn log_id(&self) -> Option<String> {
        let id = self.connection().log_id.load(Ordering::Relaxed);
        (id != 0).then(|| unique::letters(&id.to_be_bytes()))
    }

    pub(super) fn make_log_id(&self) {
        let id = Unique::draw().number();
        // Several requests may be under way at once: whichever was first, the id stays.
        let _ = self.connection().log_id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Request {
    pub(crate) fn hostname_lookups(&self) -> Tri {
        self.dir::<CoreDir>().hostname_lookups()
    }

    /// The client's name, if it was looked up and found: by `HostnameLookups`, or to decide about access.
    pub fn client_name(&self) -> Option<&str> {
        self.client.looked_up(self.hostname_lookups())?.as_ref().ok()?.as_deref()
    }

    /// What a rule knows the client by: its name, or its address if it has none.
    ///
    /// # Errors
    /// `HostnameLookups` wants the name, and nobody knows it: the rule might be about this client.
    pub fn client_host(&self) -> Result<String, EvalError> {
        let how = self.hostname_lookups();
        let unknown = |why: &Unanswered| Err(EvalError::Unknown(format!("{why}: the client's name is unknown")));
        match self.client.looked_up(how) {
            Some(Ok(Some(name))) => Ok(name.to_string()),
            Some(Err(why)) if how != Tri::Off => unknown(why),
            None if how != Tri::Off => unknown(&Unanswered::NotAsked),
            _ => Ok(self.client.ip()),
        }
    }
}
