//! From a configuration to the running server's immutable plan.

pub mod core;
pub mod identity;
pub(crate) mod merge;
pub mod module;
mod read_timeout;
pub(crate) mod section;
pub mod shared_cache;
pub(crate) mod vhost;

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use conf::error::Phase;
use conf::{Context, Error, Language, ModuleInfo, Notice, Origin, Place, Reader, Settings, SettingsMap, System};
use seam::HelperProcess;
use sys::cred::Identity;

pub(crate) use self::read_timeout::BodyRules;
pub use self::read_timeout::ReadTimeout;
use crate::config::core::{CoreServer, HostAddress, Tri};
use crate::config::merge::{Layer, Merged, Merger};
use crate::config::module::{Hooks, Module, known, with_infos};
use crate::config::section::Section;
use crate::config::vhost::Hosts;
use crate::files::htaccess::HtaccessCache;
use crate::log::{ErrorLog, Levels};
use crate::phases::walk::DirectoryCache;

/// A configuration as it was applied, before it is resolved: modules check and complete it here.
pub struct Draft {
    /// The main server's settings.
    pub main: SettingsMap,
    /// What holds outside sections on the main server.
    pub main_dir: SettingsMap,
    /// The virtual hosts, each already merged with the main server.
    pub hosts: Vec<DraftHost>,
}

/// A virtual host of a [`Draft`].
pub struct DraftHost {
    /// Its addresses.
    pub addresses: Vec<HostAddress>,
    /// Its server settings, merged with the main server's.
    pub server: SettingsMap,
    /// What it says itself outside sections.
    pub dir: SettingsMap,
    /// What the main server and it say outside sections.
    pub merged_dir: SettingsMap,
    /// Its `<VirtualHost>` line.
    pub origin: Origin,
    pub(crate) own: SettingsMap,
}

impl Draft {
    /// The settings of the main server and of every virtual host.
    pub fn servers(&self) -> impl Iterator<Item = &SettingsMap> {
        std::iter::once(&self.main).chain(self.hosts.iter().map(|host| &host.server))
    }
}

/// Values that every request of a virtual host needs, looked up once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) limits: http1::Limits,
    /// `HttpProtocolOptions RegisteredMethods`: others are refused with 501, whoever would handle them.
    pub(crate) only_registered_methods: bool,
    pub(crate) keep_alive: bool,
    pub(crate) keep_alive_timeout: Duration,
    /// 0: endless.
    pub(crate) keep_alive_max: u32,
    pub(crate) body: BodyRules,
    pub(crate) head_timeout: Option<ReadTimeout>,
    pub(crate) timeout: Duration,
    pub(crate) path: http1::uri::PathOptions,
    pub(crate) redirects_max: u32,
    pub(crate) lookups_max: u32,
}

conf::settings! {
    /// `RequestReadTimeout`, filled by mod_reqtimeout and obeyed by the connection.
    pub struct ReadTimeouts {
        /// For the head.
        pub header: conf::Setting<Option<ReadTimeout>>,
        /// For the body.
        pub body: conf::Setting<Option<ReadTimeout>>,
    }
}

/// A virtual host, or the main server.
pub struct VirtualHost {
    /// Its place in [`Server::hosts`]; the main server is 0.
    pub index: usize,
    /// `ServerName` without port.
    pub name: String,
    /// The port of `ServerName`.
    pub port: Option<u16>,
    /// Name and port of a connection, as the status page shows them, where all addresses have the same port.
    pub(crate) label: Option<String>,
    /// Names and wildcard names of `ServerAlias`.
    pub aliases: Vec<String>,
    /// `ServerAdmin`.
    pub admin: Option<String>,
    /// Its addresses; none for the main server.
    pub addresses: Vec<HostAddress>,
    /// Its `<VirtualHost>` line; `None` for the main server.
    pub origin: Option<Origin>,
    /// The server settings of all modules.
    pub settings: SettingsMap,
    /// What holds outside sections.
    pub base: Merged,
    /// Its error log.
    pub error_log: Arc<ErrorLog>,
    /// `LogLevel`.
    pub(crate) levels: Levels,
    /// `DocumentRoot`, without slash at the end.
    pub document_root: String,
    /// `<Directory>` with paths and wildcards, shortest first.
    pub(crate) directories: Vec<Arc<Section>>,
    /// `<DirectoryMatch>`, in file order.
    pub(crate) directory_matches: Vec<Arc<Section>>,
    /// `<Location>` and `<LocationMatch>`, in file order.
    pub(crate) locations: Vec<Arc<Section>>,
    pub(crate) access_file_names: Vec<String>,
    pub(crate) plan: Plan,
    pub(crate) directory_cache: RwLock<DirectoryCache>,
}

/// The server as configured: immutable, but for caches. Restarts make a new one.
pub struct Server {
    /// The loaded modules, in order.
    pub modules: Vec<&'static Module>,
    /// The main server first, then the virtual hosts in file order.
    pub hosts: Vec<VirtualHost>,
    /// The configuration as it was read, in file order.
    pub tree: Vec<conf::Node>,
    /// The lines that were obeyed while it was read, and left no trace in it.
    pub ran: Vec<conf::read::Ran>,
    /// The main file of the configuration, if it was read from a file.
    pub file: Option<String>,
    /// What `.htaccess` files are read with.
    pub language: Language,
    /// When this configuration was read.
    pub configured: SystemTime,
    /// The text of the `Server` field.
    pub software: String,
    pub(crate) hooks: Hooks,
    pub(crate) by_name: Hosts,
    pub(crate) merger: Merger,
    pub(crate) htaccess: HtaccessCache,
    pub(crate) files: crate::files::static_file::FileCache,
    /// `ExtendedStatus`: the status page, `tsubame ctl` and the watchdog know whose requests are served. In Apache it is off
    /// where mod_status is not loaded.
    pub(crate) extended_status: bool,
    /// The table of `Mutex` lines, `-D` names and other things that dumps show stand in the settings.
    pub(crate) system: Arc<dyn System>,
}

impl Server {
    /// The main server.
    pub fn main(&self) -> &VirtualHost {
        &self.hosts[0]
    }

    /// Whether a server can run with this configuration, which is correct. `Err`: what stands in the way.
    pub fn can_be_served(&self) -> Result<(), String> {
        self.hooks.start.iter().try_for_each(|check| check(self))
    }

    /// What the modules print for `-t -D NAME`, for those of their names that `wanted` picks.
    pub fn dumps(&self, wanted: impl Fn(&str) -> bool) -> String {
        self.hooks.dump.iter().filter(|(name, _)| wanted(name)).map(|(_, dump)| dump(self)).collect()
    }

    /// Opens what the modules log to.
    pub fn open_logs(&self) -> Result<(), String> {
        for host in &self.hosts {
            host.error_log.open().map_err(|error| {
                format!(
                    "{}AH00091: could not open error log file {}.",
                    crate::log::os_prefix(&error),
                    host.error_log.path()
                )
            })?;
        }
        self.main().error_log.take_messages_of_programs();
        self.hooks.open_logs.iter().try_for_each(|open| open(self))
    }

    /// Opens what the modules have beside the children, for which `children` is who they become.
    pub fn helpers(&self, children: Option<&Identity>) -> Result<Vec<HelperProcess>, String> {
        let all: Result<Vec<_>, _> = self.hooks.helper.iter().map(|helper| helper(self, children)).collect();
        Ok(all?.into_iter().flatten().collect())
    }

    /// Tells the modules that this process is a new child.
    pub fn child_started(&self) {
        self.hooks.child_init.iter().for_each(|start| start(self));
    }

    /// The main server's error log, for everything outside this crate.
    pub fn main_log(&self) -> Arc<dyn seam::log::Log> {
        let main = self.main();
        Arc::new(crate::log::MainLog { log: main.error_log.clone(), levels: main.levels.clone() })
    }

    /// Whether a module is loaded, by identifier.
    pub fn has_module(&self, id: &str) -> bool {
        self.modules.iter().any(|module| module.info.id == id)
    }

    /// The infos of the loaded modules.
    pub fn infos(&self) -> Vec<&'static ModuleInfo> {
        self.language.loaded()
    }
}

/// What reading a configuration yields.
pub struct Loaded {
    /// The server.
    pub server: Server,
    /// The files that were read.
    pub included: Vec<conf::read::Included>,
    /// What was worth saying.
    pub notices: Vec<Notice>,
}

/// What was read of a configuration that cannot be used.
pub struct Failed {
    /// Why.
    pub error: Error,
    /// What was worth saying before.
    pub notices: Vec<Notice>,
    /// The files that were read before.
    pub included: Vec<conf::read::Included>,
    /// What was learnt before, the loaded modules among it.
    pub language: Language,
    /// The configuration as it was read, where it could be.
    pub tree: Vec<conf::Node>,
    /// The main server and the virtual hosts, if it is wrong only as a whole.
    pub hosts: Vec<VirtualHost>,
    /// It is wrong only as a whole, and only for a module.
    pub of_module: bool,
}

/// What to read.
pub struct Sources<'a> {
    /// The name the server was called by, for messages.
    pub program: &'a str,
    /// `-C` lines.
    pub before: &'a [String],
    /// The file; `None` for `text`.
    pub file: Option<&'a str>,
    /// A configuration in memory: its name and text.
    pub text: Option<(&'a str, &'a str)>,
    /// `-c` lines.
    pub after: &'a [String],
}

/// Reads a configuration and goes no further: what it says of modules is then known.
pub fn read_only(
    system: Arc<dyn System>,
    language: Language,
    sources: &Sources<'_>,
) -> Result<(Language, Vec<Notice>), Box<Failed>> {
    let mut reader = Reader::new(system, language);
    match read(&mut reader, sources) {
        Ok(_) => Ok((reader.language, reader.notices)),
        Err(error) => Err(unread(error, reader)),
    }
}

/// Reads and resolves a configuration.
pub fn load(
    system: Arc<dyn System>,
    language: Language,
    sources: &Sources<'_>,
    software: impl Fn(crate::config::core::Tokens) -> String,
    check: impl Fn(&mut Draft, &mut Context) -> Result<(), Error>,
) -> Result<Loaded, Box<Failed>> {
    crate::log::new_configuration();
    let mut reader = Reader::new(system.clone(), language);
    let tree = match read(&mut reader, sources) {
        Ok(tree) => tree,
        Err(error) => return Err(unread(error, reader)),
    };
    let Reader { language, notices, included, ran, .. } = reader;
    let mut context = Context { system: system.clone(), language, notices };
    let mut left = Left::default();
    match resolve(&tree, &mut context, sources, software, check, &mut left) {
        Ok(server) => Ok(Loaded { server: Server { tree, ran, ..server }, included, notices: context.notices }),
        Err(error) => {
            let Left { hosts, of_module } = left;
            let Context { language, notices, .. } = context;
            Err(Box::new(Failed { error, notices, included, language, tree, hosts, of_module }))
        }
    }
}

fn unread(error: Error, reader: Reader) -> Box<Failed> {
    let Reader { language, notices, included, .. } = reader;
    Box::new(Failed { error, notices, included, language, tree: Vec::new(), hosts: Vec::new(), of_module: false })
}

/// What is left of a configuration that is wrong as a whole.
#[derive(Default)]
struct Left {
    hosts: Vec<VirtualHost>,
    of_module: bool,
}

fn read(reader: &mut Reader, sources: &Sources<'_>) -> Result<Vec<conf::Node>, Error> {
    const OPTIONS: &str = "-c/-C directives";
    let mut tree = reader.read_text(OPTIONS, sources.before.join("\n").into_bytes())?;
    if let Some((name, text)) = sources.text {
        tree.extend(reader.read_text(name, text.as_bytes().to_vec())?);
    }
    if let Some(file) = sources.file {
        tree.extend(reader.read_file(file)?);
    }
    tree.extend(reader.read_text(OPTIONS, sources.after.join("\n").into_bytes())?);
    Ok(tree)
}

fn resolve(
    tree: &[conf::Node],
    context: &mut Context,
    sources: &Sources<'_>,
    software: impl Fn(crate::config::core::Tokens) -> String,
    check: impl Fn(&mut Draft, &mut Context) -> Result<(), Error>,
    left: &mut Left,
) -> Result<Server, Error> {
    let (mut main, mut main_dir) = (SettingsMap::default(), SettingsMap::default());
    conf::apply(tree, &mut main, &mut main_dir, &Place::server_level(), context)?;
    let mut draft = draft(main, main_dir);
    let modules = with_infos(&context.language.loaded());
    let hooks = Hooks::of(&modules);
    let logs = crate::log::check_directories(&draft, context);
    let checked = logs.clone().and_then(|()| hooks.check.iter().try_for_each(|hook| hook(&mut draft, context)));
    let checked = checked.and_then(|()| check(&mut draft, context));
    let hosts = resolve_hosts(&draft, context, sources.program)?;
    if let Err(error) = checked {
        if error.phase == Phase::Check {
            *left = Left { hosts, of_module: logs.is_ok() };
        }
        return Err(error);
    }
    let tokens = draft.main.get::<CoreServer>().server_tokens.or(crate::config::core::Tokens::Full);
    Ok(Server {
        extended_status: draft.main.get::<CoreServer>().extended_status.or(true),
        by_name: Hosts::new(&hosts),
        modules,
        hooks,
        hosts,
        tree: Vec::new(),
        ran: Vec::new(),
        file: sources.file.map(str::to_string),
        language: context.language.clone(),
        configured: SystemTime::UNIX_EPOCH + sys::time::realtime(),
        software: software(tokens),
        merger: Merger::default(),
        htaccess: HtaccessCache::default(),
        files: crate::files::static_file::FileCache::default(),
        system: context.system.clone(),
    })
}

fn draft(mut main: SettingsMap, main_dir: SettingsMap) -> Draft {
    let entries = std::mem::take(main.edit::<CoreServer>().virtual_hosts.entries_mut());
    let hosts = entries.into_iter().map(|(host, origin)| DraftHost {
        server: SettingsMap::merge(&main, &host.server),
        merged_dir: SettingsMap::merge(&main_dir, &host.dir),
        addresses: host.addresses,
        own: host.server,
        dir: host.dir,
        origin,
    });
    let hosts = hosts.collect();
    Draft { main, main_dir, hosts }
}

fn resolve_hosts(draft: &Draft, context: &mut Context, program: &str) -> Result<Vec<VirtualHost>, Error> {
    let mut logs: HashMap<String, Arc<ErrorLog>> = HashMap::new();
    let base = Layer::new(draft.main_dir.clone()).into_base();
    let mut all = Vec::with_capacity(draft.hosts.len() + 1);
    let (name, port) = main_name(draft, context, program);
    all.push(host(HostParts {
        index: 0,
        name: name.clone(),
        port,
        settings: &draft.main,
        base,
        addresses: Vec::new(),
        origin: None,
        logs: &mut logs,
        context,
    })?);
    // The last one first, as in Apache: what is said of one stands in that order.
    let names: Vec<Option<String>> = draft.hosts.iter().rev().map(|host| name_by_address(host, context)).collect();
    for (i, (draft_host, by_address)) in draft.hosts.iter().zip(names.into_iter().rev()).enumerate() {
        let own = draft_host.own.get::<CoreServer>();
        let (name, port) = match own.server_name.get() {
            Some((_, name, port)) => (name.clone(), *port),
            // A port of its address is better than the main server's.
            None => (
                by_address.unwrap_or_else(|| name.clone()),
                draft_host.addresses.first().and_then(|address| address.port).or(port),
            ),
        };
        all.push(host(HostParts {
            index: i + 1,
            name,
            port,
            settings: &draft_host.server,
            base: Layer::new(draft_host.merged_dir.clone()).into_base(),
            addresses: draft_host.addresses.clone(),
            origin: Some(draft_host.origin.clone()),
            logs: &mut logs,
            context,
        })?);
    }
    Ok(all)
}

/// The name of a virtual host without `ServerName` that has addresses of its own: that of the first one, as the resolver
/// knows it. `None`: it has a name, or listens to any address and goes by the main server's.
fn name_by_address(host: &DraftHost, context: &mut Context) -> Option<String> {
    if host.own.get::<CoreServer>().server_name.is_set() {
        return None;
    }
    let own: Option<Vec<_>> = host.addresses.iter().map(|address| address.ip).collect();
    let address = *own?.first()?;
    let error = match context.system.name_of(address) {
        Ok(name) => return Some(name),
        Err(error) => error,
    };
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "(EAI 2)Name or service not known".to_string(),
        _ => error.to_string(),
    };
    let text = format!(
        "{why}: AH00549: Failed to resolve server name for {address} (check DNS) -- or specify an explicit ServerName"
    );
    context.note("core", conf::Level::Error, text);
    Some("bogus_host_without_reverse_dns".into())
}

/// The main server's name; without `ServerName` the machine is asked, and says so.
fn main_name(draft: &Draft, context: &mut Context, program: &str) -> (String, Option<u16>) {
    if let Some((_, name, port)) = draft.main.get::<CoreServer>().server_name.get() {
        return (name.clone(), *port);
    }
    let (short, full) = context.system.hostname();
    if let Some(full) = full {
        return (full, None);
    }
    let mut say = |text: String| {
        context.notices.push(Notice { module: "core", level: conf::Level::Alert, text, bare: true, origin: None });
    };
    let address = context.system.resolve(&short).ok().and_then(|found| found.first().copied());
    if address.is_none() {
        say(format!("AH00557: {program}: apr_sockaddr_info_get() failed for {short}"));
    }
    let address = address.map_or_else(|| "127.0.0.1".to_string(), |ip| ip.to_string());
    say(format!(
        "AH00558: {program}: Could not reliably determine the server's fully qualified domain name, using {address}. Set \
         the 'ServerName' directive globally to suppress this message"
    ));
    (address, None)
}

struct HostParts<'a> {
    index: usize,
    name: String,
    port: Option<u16>,
    settings: &'a SettingsMap,
    base: Merged,
    addresses: Vec<HostAddress>,
    origin: Option<Origin>,
    logs: &'a mut HashMap<String, Arc<ErrorLog>>,
    context: &'a Context,
}

fn host(parts: HostParts<'_>) -> Result<VirtualHost, Error> {
    let HostParts { index, name, port, settings, base, addresses, origin, logs, context } = parts;
    let core = settings.get::<CoreServer>();
    let error_log = core.error_log.get().map_or(crate::log::DEFAULT_NAME, String::as_str);
    let error_log = match logs.get(error_log) {
        Some(log) => log.clone(),
        None => {
            let log = ErrorLog::new(error_log, core.error_log_format.get().map(String::as_str), context);
            let log =
                Arc::new(log.map_err(|message| Error { phase: Phase::Check, message, origin: None, hint: None })?);
            logs.insert(error_log.to_string(), log.clone());
            log
        }
    };
    let mut directories = crate::config::core::listed(settings, |s: &CoreServer| &s.directories);
    directories.sort_by_key(|section| section.rank());
    let split = directories.partition_point(|section| !section.rank().0);
    let directory_matches = directories.split_off(split);
    let root = core.document_root.get().map_or(crate::config::core::DOCUMENT_ROOT, String::as_str);
    Ok(VirtualHost {
        index,
        label: match addresses.first().and_then(|address| address.port) {
            Some(port) if addresses.iter().all(|other| other.port == Some(port)) => Some(format!("{name}:{port}")),
            _ => None,
        },
        name,
        port,
        aliases: core.server_aliases.iter().cloned().collect(),
        admin: core.server_admin.get().cloned(),
        addresses,
        origin,
        base,
        error_log,
        levels: Levels::new(&core.log_level),
        document_root: root.trim_end_matches('/').to_string(),
        directories,
        directory_matches,
        locations: crate::config::core::listed(settings, |s: &CoreServer| &s.locations),
        access_file_names: core.access_file_names.get().cloned().unwrap_or_else(|| vec![".htaccess".into()]),
        plan: plan(settings),
        directory_cache: RwLock::default(),
        settings: settings.clone(),
    })
}

fn plan(settings: &SettingsMap) -> Plan {
    let core = settings.get::<CoreServer>();
    let limits = http1::Limits {
        line: core.limit_request_line.or(8190),
        fields: core.limit_request_fields.or(100),
        field_size: core.limit_request_field_size.or(8190),
        strict: core.strict.or(true),
    };
    // A clock that counts nanoseconds cannot tell what lies much further ahead.
    let timeout = core.timeout.or(Duration::from_secs(60)).min(Duration::from_secs(u32::MAX.into()));
    let read_timeouts = settings.get::<ReadTimeouts>();
    let encoded_slashes = match core.encoded_slashes.or(Tri::Off) {
        Tri::Off => http1::uri::EncodedSlashes::Off,
        Tri::On => http1::uri::EncodedSlashes::On,
        Tri::Other => http1::uri::EncodedSlashes::NoDecode,
    };
    let (redirects_max, lookups_max) = core.internal_recursion.or((10, 10));
    let keep_alive_timeout = core.keep_alive_timeout.or(Duration::from_secs(5));
    Plan {
        limits,
        only_registered_methods: core.registered_methods.or(false),
        keep_alive: core.keep_alive.or(true) && !keep_alive_timeout.is_zero(),
        keep_alive_timeout,
        keep_alive_max: core.max_keep_alive_requests.or(100),
        body: BodyRules { timeout, read_timeout: read_timeouts.body.or(None), limits },
        head_timeout: read_timeouts.header.or(None),
        timeout,
        path: http1::uri::PathOptions { merge_slashes: core.merge_slashes.or(true), encoded_slashes },
        redirects_max,
        lookups_max,
    }
}

impl VirtualHost {
    /// A module's settings outside sections.
    pub fn base_settings<S: Settings>(&self) -> &S {
        self.base.slots.get()
    }
}

/// The modules the program knows, as infos.
pub fn known_infos() -> Vec<&'static ModuleInfo> {
    known().iter().map(|module| &module.info).collect()
}
