//! From a configuration to the running server's immutable plan.

mod logs;

use std::collections::HashMap;
use std::sync::Arc;

use conf::error::Phase;
use conf::{
    Cause, Context, DirectiveContext, Error, Errors, Language, ModuleInfo, Notice, Origin, Reader, SettingsMap, System,
};

use crate::log::ErrorLog;
use crate::log::Levels;
use crate::module::hook::{known, with_infos};
use crate::settings::core::{CoreServer, DOCUMENT_ROOT, HostAddress, ServerName, Tokens, defaults, listed};
use crate::settings::draft::{Draft, DraftHost};
use crate::settings::merge::{Layer, Merger};
use crate::settings::plan::Plan;
use crate::site::directory_cache::DirectoryCaches;
use crate::site::server::Server;
use crate::site::vhost::Hosts;
use crate::site::vhost::VirtualHost;

/// The result of reading a configuration.
pub struct Loaded {
    /// The server that the configuration describes.
    pub server: Server,
    /// All files read.
    pub included: Vec<conf::read::Included>,
    /// Notices for the administrator.
    pub notices: Vec<Notice>,
    /// All errors, if they are kept: such a server must not run.
    pub errors: Vec<Error>,
}

/// The result of reading an unusable configuration.
pub struct Failed {
    /// The error that ended the reading.
    pub error: Error,
    /// All other errors, if they are kept.
    pub errors: Vec<Error>,
    /// Notices up to that point.
    pub notices: Vec<Notice>,
    /// The files read up to that point.
    pub included: Vec<conf::read::Included>,
    /// The lines obeyed while reading, up to that point.
    pub ran: Vec<conf::read::Ran>,
    /// The state of the language up to that point, including the loaded modules.
    pub language: Language,
    /// The configuration as read, if it could be read.
    pub tree: Vec<conf::Node>,
    /// The main server and the virtual hosts, if only the configuration as a whole is wrong.
    pub hosts: Vec<VirtualHost>,
    /// Only the configuration as a whole is wrong, and only for a module.
    pub of_module: bool,
}

/// The sources of a configuration.
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
    /// Whether to continue after errors, and keep all of them.
    pub keep_errors: bool,
}

impl Sources<'_> {
    fn errors(&self) -> Errors {
        if self.keep_errors { Errors::all() } else { Errors::first() }
    }
}

/// Reads a configuration without resolving it: afterwards its modules are known.
pub fn read_only(
    system: Arc<dyn System>,
    language: Language,
    sources: &Sources<'_>,
) -> Result<(Language, Vec<Notice>), Box<Failed>> {
    let (reader, read) = Reader::read_all(&system, &language, &sources.errors(), |reader| read(reader, sources));
    match read {
        Ok(_) => Ok((reader.language, reader.notices)),
        Err(error) => Err(unread(error, reader)),
    }
}

/// Reads and resolves a configuration.
pub fn load(
    system: Arc<dyn System>,
    language: Language,
    sources: &Sources<'_>,
    software: impl Fn(Tokens) -> String,
    check: impl Fn(&mut Draft, &mut Context) -> Result<(), Error>,
) -> Result<Loaded, Box<Failed>> {
    crate::log::new_configuration();
    let (reader, read) = Reader::read_all(&system, &language, &sources.errors(), |reader| read(reader, sources));
    let tree = match read {
        Ok(tree) => tree,
        Err(error) => return Err(unread(error, reader)),
    };
    let mut reader = reader;
    let (included, ran) = (std::mem::take(&mut reader.included), std::mem::take(&mut reader.ran));
    let mut context = reader.into_context();
    let mut left = Left::default();
    match resolve(&tree, &mut context, sources, software, check, &mut left) {
        Ok(server) => {
            let mut notices = context.notices;
            notices.extend(crate::files::absent::notices(&tree, &server.language));
            let errors = context.errors.kept().to_vec();
            Ok(Loaded { server: Server { tree, ran, ..server }, included, notices, errors })
        }
        Err(error) => {
            let Left { hosts, of_module } = left;
            let Context { language, notices, errors, .. } = context;
            let errors = errors.kept().to_vec();
            Err(Box::new(Failed { error, errors, notices, included, ran, language, tree, hosts, of_module }))
        }
    }
}

fn unread(error: Error, reader: Reader) -> Box<Failed> {
    let Reader { language, notices, included, ran, errors, .. } = reader;
    let errors = errors.kept().to_vec();
    Box::new(Failed {
        error,
        errors,
        notices,
        included,
        ran,
        language,
        tree: Vec::new(),
        hosts: Vec::new(),
        of_module: false,
    })
}

/// The remains of a configuration that is wrong as a whole.
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
    software: impl Fn(Tokens) -> String,
    check: impl Fn(&mut Draft, &mut Context) -> Result<(), Error>,
    left: &mut Left,
) -> Result<Server, Error> {
    let (mut main, mut main_dir) = (SettingsMap::default(), SettingsMap::default());
    conf::apply(tree, &mut main, &mut main_dir, &DirectiveContext::server_level(), context)?;
    let mut draft = draft(main, main_dir);
    let modules = with_infos(context.language.loaded());
    let logs = crate::load::logs::check_directories(&draft, context);
    crate::load::logs::choose_runtime_directory(&draft, context);
    let mut checked = logs.clone().or_else(|error| context.errors.meet(error));
    let checks = crate::module::hook::checks(&modules);
    let of_modules = checks.iter().map(|check| check as &dyn Fn(&mut Draft, &mut Context) -> Result<(), Error>);
    for check in of_modules.chain([&check as _]) {
        checked = checked.and_then(|()| check(&mut draft, context).or_else(|error| context.errors.meet(error)));
    }
    let hosts = resolve_hosts(&draft, context, sources.program)?;
    if let Err(error) = checked {
        if error.phase == Phase::Check {
            *left = Left { hosts, of_module: logs.is_ok() };
        }
        return Err(error);
    }
    let tokens = draft.main.get::<CoreServer>().server_tokens.value_or(Tokens::Full);
    Ok(Server {
        extended_status: draft.main.get::<CoreServer>().extended_status(),
        by_name: Hosts::new(&hosts),
        life: crate::module::hook::lifecycle(&modules),
        directories: DirectoryCaches::new(hosts.len()),
        hosts,
        tree: Vec::new(),
        ran: Vec::new(),
        file: sources.file.map(str::to_string),
        version: String::new(),
        language: context.language.clone(),
        software: software(tokens),
        merger: Merger::default(),
        htaccess: Default::default(),
        watched: Default::default(),
        files: Default::default(),
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
        main_port: host.main_port,
        origin,
    });
    let hosts = hosts.collect();
    Draft { main, main_dir, hosts }
}

fn resolve_hosts(draft: &Draft, context: &mut Context, program: &str) -> Result<Vec<VirtualHost>, Error> {
    let mut logs: HashMap<String, Arc<ErrorLog>> = HashMap::new();
    let base = Layer::new(draft.main_dir.clone());
    let mut all = Vec::with_capacity(draft.hosts.len() + 1);
    let main = main_name(draft, context, program);
    all.push(host(HostParts {
        index: 0,
        name: main.clone(),
        settings: &draft.main,
        base: base.clone(),
        addresses: Vec::new(),
        origin: None,
        logs: &mut logs,
        context,
    })?);
    // The last one first, as in Apache: their messages appear in that order.
    let names: Vec<Option<String>> = draft.hosts.iter().rev().map(|host| name_by_address(host, context)).collect();
    for (i, (draft_host, by_address)) in draft.hosts.iter().zip(names.into_iter().rev()).enumerate() {
        let own = draft_host.own.get::<CoreServer>();
        let name = own.server_name.get().cloned().unwrap_or_else(|| ServerName {
            https: false,
            name: by_address.unwrap_or_else(|| main.name.clone()),
            // The port of its own address takes precedence over the main server's.
            port: draft_host.addresses.first().and_then(|address| address.port).or(draft_host.main_port),
        });
        all.push(host(HostParts {
            index: i + 1,
            name,
            settings: &draft_host.server,
            // Hosts that add nothing to the main server's settings share what is merged into them.
            base: match draft_host.dir.is_empty() {
                true => base.clone(),
                false => Layer::new(draft_host.merged_dir.clone()),
            },
            addresses: draft_host.addresses.clone(),
            origin: Some(draft_host.origin.clone()),
            logs: &mut logs,
            context,
        })?);
    }
    Ok(all)
}

/// The name for a virtual host that has addresses of its own but no `ServerName`: the resolver's name of the first
/// address. `None`: it has a name, or listens on any address and uses the main server's.
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

/// The main server's name; without `ServerName` this asks the machine, and reports that.
fn main_name(draft: &Draft, context: &mut Context, program: &str) -> ServerName {
    if let Some(name) = draft.main.get::<CoreServer>().server_name.get() {
        return name.clone();
    }
    let found = |name| ServerName { name, ..ServerName::default() };
    let (short, full) = context.system.hostname();
    if let Some(full) = full {
        return found(full);
    }
    let mut alert = |text: String| {
        let notice = Notice::new("core", conf::Level::Alert, text).bare();
        context.notices.push(notice.because(Cause::NoServerName));
    };
    let address = context.system.resolve(&short).ok().and_then(|found| found.first().copied());
    if address.is_none() {
        alert(format!("AH00557: {program}: apr_sockaddr_info_get() failed for {short}"));
    }
    let address = address.map_or_else(|| "127.0.0.1".to_string(), |ip| ip.to_string());
    alert(format!(
        "AH00558: {program}: Could not reliably determine the server's fully qualified domain name, using {address}. Set \
         the 'ServerName' directive globally to suppress this message"
    ));
    found(address)
}

struct HostParts<'a> {
    index: usize,
    name: ServerName,
    settings: &'a SettingsMap,
    base: Layer,
    addresses: Vec<HostAddress>,
    origin: Option<Origin>,
    logs: &'a mut HashMap<String, Arc<ErrorLog>>,
    context: &'a Context,
}

fn host(parts: HostParts<'_>) -> Result<VirtualHost, Error> {
    let HostParts { index, name: ServerName { https, name, port }, settings, base, addresses, origin, logs, context } =
        parts;
    let core = settings.get::<CoreServer>();
    let error_log = core.error_log.get().map_or(crate::log::DEFAULT_NAME, String::as_str);
    let error_log = match logs.get(error_log) {
        Some(log) => log.clone(),
        None => {
            let log = ErrorLog::new(error_log, core.error_log_format.get().map(String::as_str), context);
            let log = Arc::new(log.map_err(Error::check)?);
            logs.insert(error_log.to_string(), log.clone());
            log
        }
    };
    let mut directories = listed(settings, |s: &CoreServer| &s.directories);
    directories.sort_by_key(|section| section.rank());
    let split = directories.partition_point(|section| !section.rank().0);
    let directory_matches = directories.split_off(split);
    let root = core.document_root.get().map_or(DOCUMENT_ROOT, String::as_str);
    Ok(VirtualHost {
        index,
        label: match addresses.first().and_then(|address| address.port) {
            Some(port) if addresses.iter().all(|other| other.port == Some(port)) => Some(format!("{name}:{port}")),
            _ => None,
        },
        name,
        port,
        scheme: if https || core.encrypted.value_or(false) { "https" } else { "http" },
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
        locations: listed(settings, |s: &CoreServer| &s.locations),
        access_file_names: core
            .access_file_names
            .get()
            .cloned()
            .unwrap_or_else(|| vec![defaults::ACCESS_FILE_NAME.into()]),
        plan: Plan::of(settings),
        settings: settings.clone(),
    })
}

/// The infos of the program's modules.
pub fn known_infos() -> Vec<&'static ModuleInfo> {
    known().iter().map(|module| &module.info).collect()
}
