//! What the lines about a virtual host's connections amount to: certificates, versions, cipher suites.
//!
//! It is made when a server starts or reloads, by the parent, which may still read keys that its children must not.

use std::fmt;
use std::sync::{Arc, OnceLock};

use conf::{Level, Merge, Origin};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::{ProtocolVersion, ServerConfig, SupportedProtocolVersion, version};
use server::VirtualHost;

use super::choice::Choice;
use super::clients::Clients;
use super::openssl::{self, Commands};
use super::published::Published;
use super::tickets::Tickets;
use super::values::Protocols;
use super::{SslDir, SslServer, suites};

/// How long a session may go on where nothing is said, in seconds (`SSLSessionCacheTimeout`).
const SESSION_TIMEOUT: u32 = 300;

/// A place for the context of a virtual host, which is filled when a server starts with it.
#[derive(Clone, Default)]
pub struct Place(Option<Arc<OnceLock<Context>>>);

/// What connections of a virtual host are encrypted with.
pub(super) struct Context {
    pub(super) config: Arc<ServerConfig>,
    /// What is asked of clients' certificates.
    pub(super) clients: Option<Arc<Clients>>,
    /// What the log is told of it, once it is open.
    pub(super) notes: Vec<(Level, String)>,
    /// When the certificates end that it began with, in seconds since 1970.
    pub(super) ends: Vec<i64>,
    /// Those that take their place while the server runs.
    pub(super) published: Arc<Published>,
    /// Which of them a client is shown.
    pub(super) choice: Arc<Choice>,
    /// What authorities say of them, where that is stapled.
    pub(super) staples: Option<Arc<Published>>,
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

/// Makes the context of a virtual host that begins with these certificates. `Err` is what the log says.
pub(super) fn prepare(
    host: &VirtualHost,
    (certificates, published): (Vec<Arc<CertifiedKey>>, Arc<Published>),
    staples: Option<Arc<Published>>,
    clients: Option<&Arc<Clients>>,
    notes: &mut Vec<(Level, String)>,
) -> Result<(Arc<ServerConfig>, Arc<Choice>), String> {
    let server = host.settings.get::<SslServer>();
    let asked = server.protocols.or(Protocols::DEFAULT);
    let commands = openssl::read(server, &host.log_name(), asked)?;
    let versions = versions(commands.versions.unwrap_or(asked), server.protocols.origin(), notes)?;
    let provider = Arc::new(provider(host, &commands, notes)?);
    for missing in &commands.missing {
        notes.push((Level::Warn, format!("SSLOpenSSLConfCmd {missing} is not offered")));
    }
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| format!("AH01898: Unable to configure permitted SSL ciphers: {error}"))?;
    let choice = Arc::new(Choice::new(host.index, published, staples, certificates, commands.schemes));
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(clients) => config.with_client_cert_verifier(clients.clone()),
    };
    let mut config = config.with_cert_resolver(choice.clone());
    config.ignore_client_order = server.honor_cipher_order.or(false);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = host.alpn();
    if server.session_tickets.or(true) {
        let lifetime = server.cache_timeout.or(SESSION_TIMEOUT);
        let secret = match server.ticket_key_file.get() {
            None => None,
            Some(file) => Some(ticket_secret(file)?),
        };
        let mark = clients.map_or("", |clients| clients.mark());
        let tickets = Tickets::new(format!("{} {mark}", host.log_name()), secret, lifetime);
        config.ticketer = Arc::new(tickets.ok_or("the system has no random numbers")?);
    } else {
        config.send_tls13_tickets = 0;
    }
    Ok((Arc::new(config), choice))
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

/// The cipher suites and key exchanges of a virtual host.
fn provider(
    host: &VirtualHost,
    commands: &Commands,
    notes: &mut Vec<(Level, String)>,
) -> Result<CryptoProvider, String> {
    let server = host.settings.get::<SslServer>();
    let dir = host.base_settings::<SslDir>();
    let old = commands.tls12.as_ref().or(dir.cipher_suites.get()).map_or("DEFAULT", String::as_str);
    let (old, missing) = suites::tls12(old);
    let origin = dir.cipher_suites.origin();
    tell_missing("suite", &missing, origin, notes);
    if old.is_empty() {
        let at = origin.map_or_else(String::new, |origin| format!(" at {origin}"));
        let text = format!("SSLCipherSuite{at}: no suite of TLS 1.2 is left, so TLS 1.2 is not offered");
        notes.push((Level::Warn, text));
    }
    let new = match commands.tls13.as_ref().or(server.tls13_cipher_suites.get()) {
        None => suites::all_tls13(),
        Some(list) => {
            let (new, missing) = suites::tls13(list);
            tell_missing("suite", &missing, server.tls13_cipher_suites.origin(), notes);
            new
        }
    };
    let cipher_suites: Vec<_> = new.into_iter().chain(old).collect();
    if cipher_suites.is_empty() {
        return Err("AH01898: Unable to configure permitted SSL ciphers: none of them is offered here".into());
    }
    let default = aws_lc_rs::default_provider();
    let kx_groups = commands.groups.clone().unwrap_or_else(|| default.kx_groups.clone());
    Ok(CryptoProvider { cipher_suites, kx_groups, ..default })
}

/// Says what a line asks for and does not get.
fn tell_missing(what: &str, missing: &[&str], origin: Option<&Origin>, notes: &mut Vec<(Level, String)>) {
    if let Some(first) = missing.first() {
        let (more, verb) = match missing.len() {
            1 => (String::new(), "is"),
            count => (format!(" and {} more", count - 1), "are"),
        };
        let at = origin.map_or_else(String::new, |origin| format!(" at {origin}"));
        notes.push((Level::Notice, format!("{what} {first}{more}{at} {verb} not offered")));
    }
}

/// The versions that are offered of those that are asked for. A list that names old ones is told of them; `all` is not.
fn versions(
    asked: Protocols,
    origin: Option<&Origin>,
    notes: &mut Vec<(Level, String)>,
) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let known: [(Protocols, &'static SupportedProtocolVersion); 2] =
        [(Protocols::TLS12, &version::TLS12), (Protocols::TLS13, &version::TLS13)];
    let offered: Vec<_> =
        known.into_iter().filter(|(protocol, _)| asked.0 & protocol.0 != 0).map(|(_, version)| version).collect();
    let old: Vec<&str> =
        Protocols::NAMES[1..3].iter().filter(|(_, one)| asked.0 & one.0 != 0).map(|one| one.0).collect();
    if offered.is_empty() {
        let at = origin.map_or_else(String::new, |origin| format!(" ({origin})"));
        let why = if old.is_empty() { "" } else { ": TLSv1 and TLSv1.1 are not offered, TLSv1.2 and TLSv1.3 are" };
        return Err(format!("AH02231: No SSL protocols available [hint: SSLProtocol]{at}{why}"));
    }
    if asked != Protocols::DEFAULT {
        tell_missing("protocol", &old, origin, notes);
    }
    Ok(offered)
}

/// The name that OpenSSL has for a version.
pub(super) fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        _ => "UNKNOWN",
    }
}
