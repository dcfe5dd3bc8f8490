//! The managed domains of a complete configuration: their names, settings, and virtual hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use conf::error::Phase;
use conf::{Context, Error, Level, Listed, Notice, Origin, SettingsMap, settings};
use server::core::CoreServer;
use server::{Draft, Server};
use sys::shm::Shared;

use super::acme::ALPN;
use super::keys::KeyKind;
use super::settings::{MdServer, STORE_DIR};
use super::store::{NAME_MAX, Stamp, Store};
use super::values::{Names, RenewMode, RequireHttps};
use crate::derived::DerivedPerHost;
use crate::ssl::mod_ssl::SslServer;

settings! {
    /// The domains that the configuration defines, in any place.
    pub struct DefinedDomains {
        pub(super) all: Listed<Arc<Definition>>,
    }
}

/// A domain defined by `MDomain` or `<MDomainSet>`.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) names: Vec<String>,
    /// The settings inside the section.
    pub(super) own: SettingsMap,
}

/// What all processes know of a domain, in memory that they share.
#[derive(Debug)]
struct SharedState {
    /// The words of all domains.
    words: Arc<Shared<[AtomicU64; 4]>>,
    /// The index of this domain.
    index: usize,
}

impl SharedState {
    /// 1 if the domain has a certificate from an authority, otherwise 0.
    fn ready(&self) -> &AtomicU64 {
        &self.words[self.index][0]
    }

    /// The number of failures since the last certificate.
    fn errors(&self) -> &AtomicU64 {
        &self.words[self.index][1]
    }

    /// The time of the next try.
    fn next(&self) -> &AtomicU64 {
        &self.words[self.index][2]
    }

    /// The time of the last try.
    fn last(&self) -> &AtomicU64 {
        &self.words[self.index][3]
    }
}

/// How the orders of a domain go. Times are in seconds since 1970; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) errors: u32,
    pub(super) next: i64,
    pub(super) last: i64,
}

/// Names that share a certificate, which the module fetches and renews.
#[derive(Debug)]
pub(super) struct Domain {
    /// The first name, which is also its name in the store.
    pub(super) name: String,
    /// The names that its certificate covers.
    pub(super) names: Vec<String>,
    /// The settings in effect for it.
    pub(super) settings: SettingsMap,
    /// The number of its virtual hosts with `SSLEngine on`.
    pub(super) encrypted_hosts: usize,
    /// Whether one of its hosts accepts `acme-tls/1` (`Protocols`).
    pub(super) takes_tls_alpn: bool,
    /// The directive that defines it.
    pub(super) origin: Origin,
    /// The store of its certificates.
    pub(super) store: Store,
    /// Its certificates in the store when the configuration was read.
    pub(super) seen: Vec<Option<Stamp>>,
    state: SharedState,
    /// `ServerAdmin`, used if there is no `MDContactEmail`.
    admin: Option<String>,
}

settings! {
    /// The managed domains, in the settings of a server.
    pub struct ManagedDomains {
        /// All domains, in the main server only.
        all: DerivedPerHost<Arc<[Arc<Domain>]>>,
        /// The server's own domains; a server with TLS has at most one.
        own: DerivedPerHost<Arc<[Arc<Domain>]>>,
    }
}

impl Domain {
    /// What its certificates in the store are like now.
    pub(super) fn stamps(&self) -> Vec<Option<Stamp>> {
        let path = |kind: &KeyKind| self.store.path(&["domains", &self.name, &kind.file("pubcert")]);
        self.key_kinds().iter().map(|kind| Stamp::of(&path(kind))).collect()
    }

    /// The domain's settings.
    pub(super) fn conf(&self) -> &MdServer {
        self.settings.get()
    }

    /// The kinds of its keys; each kind has a certificate of its own.
    pub(super) fn key_kinds(&self) -> &[KeyKind] {
        self.conf().private_keys.get().map_or(&[KeyKind::DEFAULT], Vec::as_slice)
    }

    /// Whether its certificates are fetched automatically.
    pub(super) fn is_driven(&self) -> bool {
        match self.conf().renew_mode() {
            RenewMode::Auto => self.encrypted_hosts > 0 && !self.is_static(),
            RenewMode::Always => !self.is_static(),
            RenewMode::Manual => false,
        }
    }

    /// Whether the administrator provides its files (`MDCertificateFile`).
    pub(super) fn is_static(&self) -> bool {
        !self.conf().certificate_files.is_empty()
    }

    /// The contact address for the authority.
    pub(super) fn contact(&self) -> Option<String> {
        let address = self.conf().contact.get().cloned().or_else(|| self.admin.clone())?;
        Some(if address.starts_with("mailto:") { address } else { format!("mailto:{address}") })
    }

    /// Whether a name belongs to the domain.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|known| covers(known, name))
    }

    /// Whether it has a certificate from an authority.
    pub(super) fn is_ready(&self) -> bool {
        self.state.ready().load(Ordering::Relaxed) != 0
    }

    /// Tells all processes whether it has one.
    pub(super) fn set_ready(&self, is_ready: bool) {
        self.state.ready().store(is_ready.into(), Ordering::Relaxed);
    }

    /// How its orders go.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            errors: u32::try_from(self.state.errors().load(Ordering::Relaxed)).unwrap_or(u32::MAX),
            next: self.state.next().load(Ordering::Relaxed).cast_signed(),
            last: self.state.last().load(Ordering::Relaxed).cast_signed(),
        }
    }

    /// Tells all processes how its orders go.
    pub(super) fn set_progress(&self, progress: Progress) {
        let Progress { errors, next, last } = progress;
        self.state.errors().store(errors.into(), Ordering::Relaxed);
        self.state.next().store(next.cast_unsigned(), Ordering::Relaxed);
        self.state.last().store(last.cast_unsigned(), Ordering::Relaxed);
    }

    /// Whether a certificate with these names covers all names of the domain.
    pub(super) fn is_covered_by(&self, names: &[String]) -> bool {
        self.names.iter().all(|name| names.iter().any(|known| covers(known, name)))
    }
}

/// Whether a name in a certificate matches a host: `*` stands for one label.
fn covers(known: &str, host: &str) -> bool {
    known == host
        || known.strip_prefix("*.").is_some_and(|domain| host.split_once('.').is_some_and(|(_, rest)| rest == domain))
}

/// The domains of a server.
pub(super) fn all(server: &Server) -> &Arc<[Arc<Domain>]> {
    &server.main().settings.get::<ManagedDomains>().all.0
}

/// The domain of a virtual host with these settings: the first one defined, if there are several.
pub(super) fn of(host: &SettingsMap) -> Option<&Arc<Domain>> {
    host.get::<ManagedDomains>().own.0.first()
}

/// The domain of a virtual host with these settings to which a name belongs.
pub(super) fn of_name<'h>(host: &'h SettingsMap, name: &str) -> Option<&'h Arc<Domain>> {
    host.get::<ManagedDomains>().own.0.iter().find(|domain| domain.is_named(name))
}

/// Assigns virtual hosts to domains, and gives them the domains' certificates.
pub(super) fn resolve(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    let defined = context.language.kept.get::<DefinedDomains>().all.entries().to_vec();
    if defined.is_empty() {
        staple(&mut draft.main, None);
        draft.hosts.iter_mut().for_each(|host| staple(&mut host.server, None));
        return Ok(());
    }
    let root = draft.main.get::<MdServer>().store_dir.get().map_or(STORE_DIR, String::as_str);
    let root = context.server_relative(root);
    let store = Store::new(&root);
    let words = Shared::new(defined.len())
        .map_err(|error| Error::check(format!("{}: no shared memory for managed domains", sys::describe(&error))))?;
    let words = Arc::new(words);
    no_overlap(&defined)?;
    let belongs = assign(draft, &defined)?;
    let mut all = Vec::new();
    for (at, (definition, origin)) in defined.iter().enumerate() {
        let hosts: Vec<&SettingsMap> = draft
            .servers()
            .zip(&belongs)
            .filter(|(_, own)| own.first() == Some(&at))
            .map(|(settings, _)| settings)
            .collect();
        let state = SharedState { words: words.clone(), index: at };
        all.push(Arc::new(domain(definition, origin, &hosts, &draft.main, store.clone(), state, context)?));
    }
    let all: Arc<[Arc<Domain>]> = all.into();
    draft.main.edit::<ManagedDomains>().all = DerivedPerHost(all.clone());
    let settings = std::iter::once(&mut draft.main).chain(draft.hosts.iter_mut().map(|host| &mut host.server));
    for (settings, own) in settings.zip(&belongs) {
        let own: Arc<[Arc<Domain>]> = own.iter().map(|at| all[*at].clone()).collect();
        staple(settings, own.first().map(Arc::as_ref));
        settings.edit::<ManagedDomains>().own = DerivedPerHost(own);
    }
    Ok(())
}

/// The indices of the domains that each server belongs to: the main server first, then the virtual hosts.
fn assign(draft: &Draft, defined: &[(Arc<Definition>, Origin)]) -> Result<Vec<Vec<usize>>, Error> {
    let with_main = draft.main.get::<MdServer>().base_server();
    let mut belongs = Vec::new();
    for (index, settings) in draft.servers().enumerate() {
        let is_own = |at: &usize| (index > 0 || with_main) && is_for(&defined[*at].0, settings, &draft.main);
        let own: Vec<usize> = (0..defined.len()).filter(is_own).collect();
        if is_encrypted(settings) && own.len() > 1 {
            let (count, name) = (own.len(), name_of(settings));
            let text = format!(
                "AH10238: conflict: {count} MDs match Virtualhost {name} which uses SSL, however there can be at most 1."
            );
            return Err(Error::check(text));
        }
        belongs.push(own);
    }
    Ok(belongs)
}

/// Applies `MDStapling` and `MDStapleOthers` to a host with or without a domain; mod_ssl does the stapling.
fn staple(settings: &mut SettingsMap, domain: Option<&Domain>) {
    let conf = domain.map_or(settings.get::<MdServer>(), Domain::conf);
    if conf.stapling()
        && (domain.is_some() || conf.staple_others())
        && let Some(origin) = conf.stapling.origin().cloned()
    {
        settings.edit::<SslServer>().use_stapling.set(true, &origin);
    }
}

/// Makes a domain from its definition and the hosts that belong to it.
fn domain(
    definition: &Definition,
    origin: &Origin,
    hosts: &[&SettingsMap],
    main: &SettingsMap,
    store: Store,
    state: SharedState,
    context: &mut Context,
) -> Result<Domain, Error> {
    let name = definition.names[0].clone();
    let around = hosts.first().copied().unwrap_or(main);
    let settings = SettingsMap::merge(around, &definition.own);
    let conf = settings.get::<MdServer>();
    if let Some(wrong) = definition.names.iter().find(|name| !is_name(name)) {
        let text = format!("md {name} with invalid domain name: {wrong}");
        return Err(Error::at(Phase::Apply, origin, text));
    }
    check_files(&name, conf)?;
    let mut warn = |text: String| {
        context.notices.push(Notice { origin: Some(origin.clone()), ..Notice::new("md", Level::Warn, text) });
    };
    if hosts.is_empty() && conf.renew_mode() != RenewMode::Always {
        warn(format!("AH10045: No VirtualHost matches Managed Domain {name}"));
    }
    let names = all_names(definition, hosts, conf, &mut warn);
    let encrypted_hosts = hosts.iter().filter(|host| is_encrypted(host)).count();
    if encrypted_hosts == 0 && !hosts.is_empty() && conf.require_https() != RequireHttps::Off {
        warn(format!(
            "AH10105: MD {name} does not match any VirtualHost with 'SSLEngine on', but is configured to require https. This \
             cannot work."
        ));
    }
    let protocols = |host: &&&SettingsMap| {
        let protocols = host.get::<CoreServer>().protocols.get();
        is_encrypted(host) && protocols.into_iter().flatten().any(|protocol| protocol == ALPN)
    };
    let takes_tls_alpn = hosts.iter().find(protocols).is_some();
    let admin = around.get::<CoreServer>().server_admin.get().filter(|admin| admin.contains('@')).cloned();
    let mut domain = Domain {
        name,
        names,
        settings,
        encrypted_hosts,
        takes_tls_alpn,
        origin: origin.clone(),
        store,
        seen: Vec::new(),
        state,
        admin,
    };
    domain.seen = domain.stamps();
    Ok(domain)
}

/// Checks that the administrator provides a key for each certificate.
fn check_files(name: &str, conf: &MdServer) -> Result<(), Error> {
    let text = match (conf.certificate_files.len(), conf.key_files.len()) {
        (0, 1..) => {
            format!("AH10171: The Managed Domain '{name}' has MDCertificateKeyFile(s) but no MDCertificateFile.")
        }
        (files, keys) if files != keys => {
            format!("AH10170: The Managed Domain '{name}' needs one MDCertificateKeyFile for each MDCertificateFile.")
        }
        _ => return Ok(()),
    };
    Err(Error::check(text))
}

/// The names of a domain, and those that its hosts add to it.
fn all_names(
    definition: &Definition,
    hosts: &[&SettingsMap],
    conf: &MdServer,
    warn: &mut dyn FnMut(String),
) -> Vec<String> {
    let mut names = definition.names.clone();
    for host in hosts {
        for host_name in names_of(host).into_iter().filter(|host_name| is_name(host_name)) {
            if names.iter().any(|known| covers(known, &host_name)) {
                continue;
            }
            if conf.members_auto() {
                names.push(host_name);
            } else {
                warn(format!(
                    "AH10040: Virtual Host {}:{} matches Managed Domain '{}', but the name/alias {host_name} itself is not \
                     managed. A requested MD certificate will not match ServerName.",
                    name_of(host),
                    host.get::<CoreServer>().server_name.get().and_then(|name| name.port).unwrap_or_default(),
                    definition.names[0]
                ));
            }
        }
    }
    names
}

/// Whether a server belongs to a domain.
fn is_for(definition: &Definition, settings: &SettingsMap, main: &SettingsMap) -> bool {
    let names = names_of(settings);
    let names = match main.get::<MdServer>().match_names() {
        Names::All => &names[..],
        Names::ServerNames => &names[..names.len().min(1)],
    };
    names.iter().any(|name| definition.names.iter().any(|known| covers(known, name)))
}

/// The `ServerName` and `ServerAlias` of a server, in lower case.
fn names_of(settings: &SettingsMap) -> Vec<String> {
    let core = settings.get::<CoreServer>();
    let name = core.server_name.get().map(|name| &name.name);
    name.into_iter().chain(core.server_aliases.iter()).map(|name| name.to_ascii_lowercase()).collect()
}

/// The name of a server in messages.
fn name_of(settings: &SettingsMap) -> String {
    settings.get::<CoreServer>().server_name.get().map_or_else(String::new, |name| name.name.clone())
}

fn is_encrypted(settings: &SettingsMap) -> bool {
    settings.get::<SslServer>().engine.value_or(false)
}

/// Whether a text is a valid host name, optionally with a leading `*`. It also becomes a file name.
pub(super) fn is_name(name: &str) -> bool {
    let labels = name.strip_prefix("*.").unwrap_or(name).split('.');
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    name.len() <= NAME_MAX && labels.into_iter().all(is_label)
}

fn no_overlap(defined: &[(Arc<Definition>, Origin)]) -> Result<(), Error> {
    for (at, (definition, origin)) in defined.iter().enumerate() {
        for (other, before) in &defined[..at] {
            if let Some(name) = definition.names.iter().find(|name| other.names.contains(name)) {
                let text = format!(
                    "AH10038: two Managed Domains have an overlap in domain '{name}', first definition in {}(line {}), second \
                     in {}(line {})",
                    before.file(),
                    before.line,
                    origin.file(),
                    origin.line
                );
                return Err(Error::check(text));
            }
        }
    }
    Ok(())
}
