//! The TLS settings of a virtual host in their final form: certificates, versions, cipher suites.
//!
//! The parent makes them when a server starts or reloads: it may still read keys that its children must not.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use conf::{Level, Merge, Origin, Setting, SettingsMap, settings};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use server::VirtualHost;

use super::choice::Choice;
use super::clients::Clients;
use super::openssl::{self, Commands};
use super::published::Published;
use super::settings::{SslDir, SslServer};
use super::suites;
use super::tickets::Tickets;
use super::values::Protocols;

/// The default lifetime of a session, in seconds (`SSLSessionCacheTimeout`).
const SESSION_TIMEOUT: u32 = 300;

settings! {
    /// The context of a virtual host, in its settings.
    pub struct HostContext {
        place: ContextSlot,
    }
}

/// A slot for the context of a virtual host, filled when a server starts.
#[derive(Clone, Default)]
struct ContextSlot(Option<Arc<OnceLock<Context>>>);

/// The TLS context of a virtual host.
pub(super) struct Context {
    pub(super) config: Arc<ServerConfig>,
    /// The requirements on client certificates.
    pub(super) clients: Option<Arc<Clients>>,
    /// Lines for the log, kept until it is open.
    pub(super) notes: Vec<(Level, String)>,
    /// The files of the initial certificates, and the ends of their validity, in seconds since 1970.
    pub(super) files: Vec<String>,
    pub(super) ends: Vec<i64>,
    /// Certificates that replace the initial ones while the server runs.
    pub(super) published: Arc<Published>,
    /// Selects the certificate for a client.
    pub(super) choice: Arc<Choice>,
    /// OCSP responses, if the host staples them.
    pub(super) staples: Option<Arc<Published>>,
}

impl fmt::Debug for ContextSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.0.as_ref().is_some_and(|place| place.get().is_some())).finish()
    }
}

impl Merge for ContextSlot {
    fn merge(_: &Self, add: &Self) -> Self {
        add.clone()
    }

    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}

/// Gives a server an empty place for its context.
pub(super) fn make_place(server: &mut SettingsMap) {
    server.edit::<HostContext>().place = ContextSlot(Some(Arc::default()));
}

/// The context of a virtual host; `None`: it is not encrypted, or its certificates were not read.
pub(super) fn of(host: &VirtualHost) -> Option<&Context> {
    host.settings.get::<HostContext>().place.0.as_ref()?.get()
}

/// Fills the place for a virtual host's context.
pub(super) fn fill(host: &VirtualHost, context: Context) {
    if let Some(place) = &host.settings.get::<HostContext>().place.0 {
        // A configuration is prepared only once, so the place is empty.
        let _ = place.set(context);
    }
}

/// Makes the context of a virtual host with these initial certificates. `Err` is a message for the log.
pub(super) fn prepare(
    host: &VirtualHost,
    (certificates, published): (Vec<Arc<CertifiedKey>>, Arc<Published>),
    staples: Option<Arc<Published>>,
    clients: Option<&Arc<Clients>>,
    notes: &mut Vec<(Level, String)>,
) -> Result<(Arc<ServerConfig>, Arc<Choice>), String> {
    let server = host.settings.get::<SslServer>();
    let asked = server.protocols.value_or(Protocols::DEFAULT);
    let commands = openssl::read(server, &host.log_name(), asked)?;
    let mut versions = versions(commands.versions.unwrap_or(asked), &server.protocols, notes)?;
    let provider = Arc::new(provider(host, &commands, notes));
    versions.retain(|version| provider.cipher_suites.iter().any(|suite| suite.version() == *version));
    if versions.is_empty() {
        let origin = host.base_settings::<SslDir>().cipher_suites.origin().or(server.tls13_cipher_suites.origin());
        let at = at(origin);
        return Err(format!("AH01898: Unable to configure permitted SSL ciphers{at}: none of them is offered here"));
    }
    for missing in &commands.missing {
        notes.push((Level::Warn, format!("SSLOpenSSLConfCmd {missing} is not offered")));
    }
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| format!("AH01898: Unable to configure permitted SSL ciphers: {error}"))?;
    let Commands { tickets, own_order, ticket_count, .. } = commands;
    let choice = Arc::new(Choice::new(host.index, published, staples, certificates, commands.schemes));
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(clients) => config.with_client_cert_verifier(clients.clone()),
    };
    let mut config = config.with_cert_resolver(choice.clone());
    config.ignore_client_order = own_order.unwrap_or(server.honor_cipher_order.value_or(false));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = host.alpn();
    config.max_early_data_size = PASSED_OVER;
    // The server opens and seals records itself.
    config.enable_secret_extraction = true;
    if let Some(count) = ticket_count {
        config.send_tls13_tickets = count;
    }
    if tickets.unwrap_or(server.session_tickets.value_or(true)) {
        let lifetime = server.cache_timeout.value_or(SESSION_TIMEOUT);
        let secret = match server.ticket_key_file.get() {
            None => None,
            Some(file) => Some(ticket_secret(file, server.ticket_key_file.origin())?),
        };
        let tickets = Tickets::new(host.log_name(), clients.cloned(), secret, lifetime);
        config.ticketer = Arc::new(tickets.ok_or("the system has no random numbers")?);
    } else {
        config.send_tls13_tickets = 0;
    }
    Ok((Arc::new(config), choice))
}

/// How much early data is passed over, in bytes. It is never accepted, as no session is stored and no ticket offers it, but
/// a client may send it all the same (RFC 8446 section 4.2.10). rustls counts a record again with each that follows: this
/// is enough for 16 KiB in records of a KiB.
const PASSED_OVER: u32 = 512 * 1024;

/// The secret from `SSLSessionTicketKeyFile`: its first 48 bytes.
fn ticket_secret(file: &str, origin: Option<&Origin>) -> Result<Vec<u8>, String> {
    let (at, mut secret) = (at(origin), vec![0; 48]);
    let opened = File::open(OsStr::from_bytes(&http::text::to_bytes(file)));
    let mut opened = opened.map_err(|error| {
        let why = sys::describe(&error);
        format!("AH02286: Failed to open ticket key file {file}: {why} (SSLSessionTicketKeyFile{at})")
    })?;
    opened.read_exact(&mut secret).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it has fewer".to_string(),
            _ => sys::describe(&error),
        };
        format!("AH02287: Failed to read 48 bytes from {file}: {why} (SSLSessionTicketKeyFile{at})")
    })?;
    Ok(secret)
}

/// The cipher suites and key exchange groups of a virtual host.
fn provider(host: &VirtualHost, commands: &Commands, notes: &mut Vec<(Level, String)>) -> CryptoProvider {
    let server = host.settings.get::<SslServer>();
    let dir = host.base_settings::<SslDir>();
    let old = commands.tls12.as_ref().or(dir.cipher_suites.get()).map_or("DEFAULT", String::as_str);
    let (old, missing) = suites::tls12(old);
    let origin = dir.cipher_suites.origin();
    note_missing("suite", &missing, origin, notes);
    if old.is_empty() {
        let text = format!("SSLCipherSuite{}: no suite of TLS 1.2 is left, so TLS 1.2 is not offered", at(origin));
        notes.push((Level::Warn, text));
    }
    let new = match commands.tls13.as_ref().or(server.tls13_cipher_suites.get()) {
        None => suites::all_tls13(),
        Some(list) => {
            let (new, missing) = suites::tls13(list);
            note_missing("suite", &missing, server.tls13_cipher_suites.origin(), notes);
            new
        }
    };
    let cipher_suites: Vec<_> = new.into_iter().chain(old).collect();
    let default = aws_lc_rs::default_provider();
    let kx_groups = commands.groups.clone().unwrap_or_else(|| default.kx_groups.clone());
    CryptoProvider { cipher_suites, kx_groups, ..default }
}

/// Notes which values of a line are not supported.
pub(super) fn note_missing(what: &str, missing: &[&str], origin: Option<&Origin>, notes: &mut Vec<(Level, String)>) {
    if !missing.is_empty() {
        let (plural, verb) = if missing.len() == 1 { ("", "is") } else { ("s", "are") };
        let at = at(origin);
        notes.push((Level::Notice, format!("{what}{plural} {}{at} {verb} not offered", missing.join(", "))));
    }
}

pub(super) fn at(origin: Option<&Origin>) -> String {
    origin.map_or_else(String::new, |origin| format!(" at {origin}"))
}

/// The supported versions among the configured ones. Notes the old ones that `SSLProtocol` names, unless they come from
/// `all`.
pub(super) fn versions(
    asked: Protocols,
    named: &Setting<Protocols>,
    notes: &mut Vec<(Level, String)>,
) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let known: [(Protocols, &'static SupportedProtocolVersion); 2] =
        [(Protocols::TLS12, &version::TLS12), (Protocols::TLS13, &version::TLS13)];
    let is_asked = |one: Protocols| asked.0 & one.0 != 0;
    let offered: Vec<_> = known.into_iter().filter(|(one, _)| is_asked(*one)).map(|(_, version)| version).collect();
    let old: Vec<&str> =
        Protocols::NAMES[1..3].iter().filter(|(_, one)| is_asked(*one)).map(|(name, _)| *name).collect();
    if offered.is_empty() {
        let at = at(named.origin());
        let why = if old.is_empty() { "" } else { ": TLSv1 and TLSv1.1 are not offered, TLSv1.2 and TLSv1.3 are" };
        return Err(format!("AH02231: No SSL protocols available [hint: SSLProtocol]{at}{why}"));
    }
    if named.get().is_some_and(|named| *named != Protocols::DEFAULT) {
        note_missing("protocol", &old, named.origin(), notes);
    }
    Ok(offered)
}
