//! A server that already runs.

use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use server::Request;
use sys::time::Instant;

use crate::tally::{Fault, Tally};
use crate::tls::{Tls, TlsIdentity};

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(String),
    /// A port of a host, given by name or number.
    Tcp(String, u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{path}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Connections stay open after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How many idle ones a child keeps.
    pub max: usize,
    /// How long, if there is a limit.
    pub idle: Option<Duration>,
}

/// How long a connection may be idle if the configuration does not say.
const IDLE: Duration = Duration::from_secs(60);

impl Keep {
    /// Whether a connection may be used that has been idle since then.
    pub(crate) fn allows(self, since: Instant) -> bool {
        since.elapsed() < self.usual_idle()
    }

    /// How long a connection may be idle.
    pub(crate) fn usual_idle(self) -> Duration {
        self.idle.unwrap_or(IDLE)
    }
}

/// A server that already runs.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// Its address.
    pub address: Address,
    /// Its name in messages, as in its URL.
    pub name: String,
    /// How long it may take to accept a connection.
    pub connect: Duration,
    /// Whether connections stay open.
    pub keep: Option<Keep>,
    /// How its connections are encrypted; `None`: they are not.
    pub tls: Option<Tls>,
    /// What is special about the way to it. Such connections are never kept.
    pub way: Option<Arc<Way>>,
    /// What is counted of it, if anything is.
    pub tally: Option<Tally>,
}

impl RemoteServer {
    /// The response to a request has begun, so long after that.
    pub fn note_begun(&self, request: &Request, time: Duration) {
        self.tally.iter().for_each(|tally| tally.begun(time));
        request.account.upstream.iter().for_each(|upstream| upstream.set_begun(time));
    }

    /// A request goes over a connection that was there.
    pub fn note_reused(&self) {
        self.tally.iter().for_each(Tally::reused);
    }

    /// Something went wrong with it.
    pub fn note_fault(&self, fault: Fault) {
        self.tally.iter().for_each(|tally| tally.fault(fault));
    }

    /// What its connections have in common: any of them may carry any of its requests.
    pub fn kind(&self) -> Kind {
        let key = Key::new(self.address.clone(), self.tls.as_ref().map(Tls::identity));
        Kind { key, tally: self.tally.clone() }
    }
}

/// What is special about the way to a server.
#[derive(Clone, Default)]
pub struct Way {
    /// The address that connections come from.
    pub source: Option<IpAddr>,
    /// Whether an address must not be connected to; the reason, for the log.
    pub refuses: Option<Arc<Refuses>>,
    /// The server is a proxy, which is asked for a tunnel to the one that the request is for.
    pub tunnel: Option<Through>,
}

/// Says why an address must not be connected to.
pub type Refuses = dyn Fn(IpAddr) -> Option<String> + Send + Sync;

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("source", &self.source).field("tunnel", &self.tunnel).finish_non_exhaustive()
    }
}

/// A tunnel through a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// Where it leads: host and port.
    pub authority: String,
    /// The value of `Proxy-Authorization`.
    pub credentials: Option<String>,
}

/// What interchangeable connections have in common, and where they are counted.
#[derive(Clone, Debug)]
pub struct Kind {
    pub(crate) key: Key,
    /// Where idle ones are counted. They may go on for another name of the same server.
    pub(crate) tally: Option<Tally>,
}

/// What interchangeable connections have in common: the address, and everything about their encryption.
#[derive(Clone, Debug)]
pub(crate) struct Key(Arc<Common>);

/// It, with its hash: connections are looked up for every request.
#[derive(Debug)]
struct Common {
    address: Address,
    tls: Option<TlsIdentity>,
    hash: u64,
}

impl Key {
    fn new(address: Address, tls: Option<TlsIdentity>) -> Key {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);
        let hash = HASHER.hash_one((&address, &tls));
        Key(Arc::new(Common { address, tls, hash }))
    }

    /// The address, if the connections are not encrypted.
    pub(crate) fn plain(&self) -> Option<&Address> {
        self.0.tls.is_none().then_some(&self.0.address)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        let (one, other) = (&self.0, &other.0);
        Arc::ptr_eq(one, other) || one.hash == other.hash && one.address == other.address && one.tls == other.tls
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}
