//! How connections to servers behind this one are encrypted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection};

/// Checks the certificates of a server, its own first, when a handshake is complete; the second argument is the name of
/// the server. `Err`: what is wrong with them.
pub type PeerCheck = Box<dyn Fn(&[CertificateDer<'_>], &str) -> Result<(), String> + Send + Sync>;

/// The settings of encrypted connections: protocols, suites, the verification, the certificate to show. They remember
/// the sessions to resume.
pub struct TlsSettings {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) check: PeerCheck,
    number: u64,
}

impl TlsSettings {
    /// Settings that share no connection and no session with any others.
    pub fn new(config: ClientConfig, check: PeerCheck) -> TlsSettings {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        TlsSettings { config: Arc::new(config), check, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsSettings").field(&self.number).finish()
    }
}

/// How the connections to a server are encrypted.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) settings: Arc<TlsSettings>,
    pub(crate) name: Arc<str>,
    /// The protocol that the server has to choose (ALPN, RFC 7301); `None`: nothing is said about it.
    pub(crate) protocol: Option<&'static str>,
}

/// Two connections are interchangeable only if they have the same identity: the settings, the name of the server that
/// was asked for, and the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TlsIdentity(u64, Arc<str>, Option<&'static str>);

impl Tls {
    /// `name`: the server's, which is asked for (SNI) unless it is an IP address; an IPv6 address may be in brackets.
    pub fn new(settings: Arc<TlsSettings>, name: &str) -> Tls {
        let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        Tls { settings, name: inner.into(), protocol: None }
    }

    /// The same for connections that speak this protocol, by its registered name.
    #[must_use]
    pub fn speaking(self, protocol: &'static str) -> Tls {
        Tls { protocol: Some(protocol), ..self }
    }

    pub(crate) fn identity(&self) -> TlsIdentity {
        TlsIdentity(self.settings.number, self.name.clone(), self.protocol)
    }

    /// A session whose handshake has not begun. `Err`: why there cannot be one.
    pub(crate) fn client(&self) -> Result<ClientConnection, String> {
        let name = ServerName::try_from(self.name.to_string());
        let name = name.map_err(|_| format!("{:?} is no name of a server", self.name))?;
        let protocols = self.protocol.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        ClientConnection::new_with_alpn(self.settings.config.clone(), name, protocols)
            .map_err(|error| error.to_string())
    }
}
