//! What the lines about a virtual host's connections amount to: certificates, versions, cipher suites.
//!
//! It is made when a server starts or reloads, by the parent, which may still read keys that its children must not.

use std::fmt;
use std::sync::{Arc, OnceLock};

use conf::{Merge, Origin};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ProtocolVersion, ServerConfig, SupportedProtocolVersion, version};
use server::VirtualHost;

use super::tickets::Tickets;
use super::values::Protocols;
use super::{SslDir, SslServer, certificates, suites};

/// How long a session may go on where nothing is said, in seconds (`SSLSessionCacheTimeout`).
const SESSION_TIMEOUT: u32 = 300;

/// A place for the context of a virtual host, which is filled when a server starts with it.
#[derive(Clone, Default)]
pub struct Place(Option<Arc<OnceLock<Context>>>);

/// What connections of a virtual host are encrypted with.
pub(super) struct Context {
    pub(super) config: Arc<ServerConfig>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.get().is_some()).finish()
    }
}

impl Merge for Place {
    fn merge(_: &Self, add: &Self) -> Self {
        add.clone()
    }

    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}

impl Place {
    /// One of its own, for a virtual host.
    pub(super) fn new() -> Place {
        Place(Some(Arc::default()))
    }

    pub(super) fn get(&self) -> Option<&Context> {
        self.0.as_ref()?.get()
    }

    pub(super) fn fill(&self, context: Context) {
        if let Some(place) = &self.0 {
            // A configuration is prepared once.
            let _ = place.set(context);
        }
    }
}

/// Certificates of several kinds: a client gets the first that it understands.
#[derive(Debug)]
struct Choice(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |one: &&Arc<CertifiedKey>| one.key.choose_scheme(hello.signature_schemes()).is_some();
        self.0.iter().find(fits).or(self.0.first()).cloned()
    }
}

/// Makes the context of a virtual host. `Err` is what the log says, without the host's name.
pub(super) fn prepare(host: &VirtualHost) -> Result<Context, String> {
    let server = host.settings.get::<SslServer>();
    let certificates = certificates::load(host)?;
    let provider = Arc::new(provider(host)?);
    let versions = versions(server.protocols.or(Protocols::DEFAULT));
    if versions.is_empty() {
        return Err("AH02231: No SSL protocols available [hint: SSLProtocol]".into());
    }
    let error = |error: rustls::Error| error.to_string();
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).map_err(error)?;
    let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(Choice(certificates)));
    config.ignore_client_order = server.honor_cipher_order.or(false);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if server.session_tickets.or(true) {
        let lifetime = server.cache_timeout.or(SESSION_TIMEOUT);
        let secret = match server.ticket_key_file.get() {
            None => None,
            Some(file) => Some(ticket_secret(file)?),
        };
        let tickets = Tickets::new(host.log_name(), secret, lifetime);
        config.ticketer = Arc::new(tickets.ok_or("the system has no random numbers")?);
    } else {
        config.send_tls13_tickets = 0;
    }
    Ok(Context { config: Arc::new(config) })
}

/// The secret of `SSLSessionTicketKeyFile`: 48 bytes.
fn ticket_secret(file: &str) -> Result<Vec<u8>, String> {
    let bytes = std::fs::read(file)
        .map_err(|error| format!("AH02286: Failed to read TLS session ticket key from {file}: (hint: {error})"))?;
    match bytes.len() {
        48.. => Ok(bytes[..48].to_vec()),
        _ => Err(format!("AH02286: Failed to read TLS session ticket key from {file}: it has fewer than 48 bytes")),
    }
}

/// The cipher suites of a virtual host.
fn provider(host: &VirtualHost) -> Result<CryptoProvider, String> {
    let server = host.settings.get::<SslServer>();
    let old = match host.base_settings::<SslDir>().cipher_suites.get() {
        None => suites::tls12("DEFAULT").0,
        Some(list) => suites::tls12(list).0,
    };
    let new = match server.tls13_cipher_suites.get() {
        None => suites::all_tls13(),
        Some(list) => suites::tls13(list).0,
    };
    let cipher_suites: Vec<_> = new.into_iter().chain(old).collect();
    if cipher_suites.is_empty() {
        return Err("AH01898: Unable to configure permitted SSL ciphers: none of them is offered here".into());
    }
    Ok(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

fn versions(protocols: Protocols) -> Vec<&'static SupportedProtocolVersion> {
    let known: [(Protocols, &'static SupportedProtocolVersion); 2] =
        [(Protocols::TLS12, &version::TLS12), (Protocols::TLS13, &version::TLS13)];
    known.into_iter().filter(|(protocol, _)| protocols.0 & protocol.0 != 0).map(|(_, version)| version).collect()
}

/// The name that OpenSSL has for a version.
pub(super) fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        _ => "UNKNOWN",
    }
}
