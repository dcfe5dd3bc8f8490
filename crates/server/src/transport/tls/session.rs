//! What a handshake has agreed on.

use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use rustls::{NamedGroup, ProtocolVersion, SupportedCipherSuite};

/// The result of a handshake. It does not change during the connection.
#[derive(Clone, Debug)]
pub struct Session {
    /// The name that the client asked for (SNI), in lower case.
    pub server_name: Option<Arc<str>>,
    /// The index of the virtual host whose configuration was used.
    pub host: usize,
    /// The protocol version.
    pub version: ProtocolVersion,
    /// The cipher suite.
    pub suite: SupportedCipherSuite,
    /// The group of the key exchange; a resumed TLS 1.2 session has none.
    pub group: Option<NamedGroup>,
    /// The negotiated protocol (ALPN).
    pub protocol: Option<Vec<u8>>,
    /// The client's certificate and the others it sent, in this order; empty if the client was not asked or has none.
    pub client_chain: Vec<CertificateDer<'static>>,
    /// The handshake resumed an earlier session.
    pub is_resumed: bool,
    /// The server certificate with its chain. In a resumed session, the one that a full handshake would have shown.
    pub certificate: Option<Arc<CertifiedKey>>,
    /// The session's id; a resumed TLS 1.3 session keeps it.
    pub id: [u8; ID],
    /// The result of verifying the client's certificate again after the handshake; `None`: it is not valid. Filled on
    /// first use.
    pub trust: OnceLock<Option<Trust>>,
}

/// What a client has asked for in its handshake: all that a response may depend on and still be the same for another
/// connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name that it asked for (SNI), in lower case.
    pub server_name: Option<Arc<str>>,
    /// The index of the virtual host whose configuration was used.
    pub host: usize,
    /// The negotiated protocol (ALPN).
    pub protocol: Option<Vec<u8>>,
}

impl Session {
    /// What the client has asked for.
    pub fn named(&self) -> Named {
        Named { server_name: self.server_name.clone(), host: self.host, protocol: self.protocol.clone() }
    }

    /// Whether the client has asked for this.
    pub(crate) fn is_named(&self, named: &Named) -> bool {
        self.host == named.host && self.server_name == named.server_name && self.protocol == named.protocol
    }

    /// The session that a current browser and this virtual host would negotiate, for a simulated request.
    pub(crate) fn usual(host: usize, asked: Option<&str>) -> Session {
        let name = asked.map(|asked| asked.split(':').next().unwrap_or_default().to_ascii_lowercase());
        Session {
            server_name: name.filter(|name| name.parse::<std::net::IpAddr>().is_err()).map(Arc::from),
            host,
            version: ProtocolVersion::TLSv1_3,
            suite: cipher_suite::TLS13_AES_256_GCM_SHA384,
            group: Some(NamedGroup::X25519MLKEM768),
            protocol: None,
            client_chain: Vec::new(),
            is_resumed: false,
            certificate: None,
            id: [0; ID],
            trust: OnceLock::new(),
        }
    }
}

/// The size of a session id, in bytes.
pub const ID: usize = 32;

/// The trust in a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Why the server accepts the certificate although it is not valid.
    pub flaw: Option<&'static str>,
    /// The number of certificates above it in the chain.
    pub depth: usize,
}
