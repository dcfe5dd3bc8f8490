//! A module: a table of directives, and hooks into the phases of a request.

use std::io::{self, Read, Write};
use std::sync::OnceLock;

use conf::{Context, Error, ModuleInfo, SettingsMap};

use super::inventory::Inventory;
use crate::message::response::Body;
use crate::module::authz::{AuthnProvider, AuthzProvider};
use crate::module::finding::Finding;
use crate::module::objects::SharedCache;
use crate::request::Request;
use crate::request::flow::Flow;
use crate::request::hooks::{
    Encryption, FindExtension, FindFilter, FindInputFilter, FindVariable, Handler, Hooks, InputChain, InputFilter,
    IsWanted, MapUndecoded, ModuleHook, OutputFilter, PhaseHook, Preface, QuickHandler, Reception, ResponseChain,
    ResponseHook, RunSubrequest, WriteVariable,
};
use crate::request::phase::Phase;
use crate::settings::draft::Draft;
use crate::site::server::{DumpHook, HelperHook, Lifecycle, LogHook, PreflightHook, Server, ServerHook, StartHook};

/// A module: one file, one of these, listed once.
pub struct Module {
    /// Its description for the configuration language.
    pub info: ModuleInfo,
    /// Its hooks.
    pub hooks: &'static [Hook],
}

/// A hook's position among those of its phase. Hooks of equal order run in the order of the list of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Order {
    ReallyFirst,
    First,
    /// Before the modules that are `Middle`, whatever the order in which they were loaded.
    BeforeMiddle,
    Middle,
    /// After the modules that are `Middle`, whatever the order in which they were loaded; lower numbers come first.
    AfterMiddle(u8),
    Last,
    ReallyLast,
}

/// A check of the whole configuration.
pub type CheckHook = fn(&mut Draft, &mut Context) -> Result<(), Error>;
/// An examination, which passes each finding on.
pub type ExamineHook = fn(&Server, &mut dyn FnMut(Finding));
/// A command of the control socket.
pub type CommandHook = fn(&Server, bool) -> Result<String, String>;
/// The handler for the name of a file.
pub type FileHandlerHook = for<'a> fn(&'a SettingsMap, &str) -> Option<&'a str>;
/// Finds the SHA-256 fingerprints of the certificates in a file, in their order. `Err`: the file is damaged.
pub type FingerprintsHook = fn(&[u8]) -> Result<Vec<String>, String>;
/// A connection that carries bytes both ways.
pub trait Duplex: Read + Write {}

impl<T: Read + Write> Duplex for T {}

/// Encrypts a connection to a server that should have this configuration, and whose host has this name or address: the
/// certificate may be one that the system trusts, or one of the configuration's own.
pub type ConnectHook = fn(Box<dyn Duplex>, &str, &Server) -> io::Result<Box<dyn Duplex>>;
/// A check of a handler's name.
pub type HandlerCheck = fn(&str) -> Result<(), String>;

/// A point at which a module joins in. The phases come in this order (Apache manual, "Request Processing in the Apache
/// HTTP Server 2.x").
pub enum Hook {
    /// After the configuration was applied: checks it as a whole, and prepares data for requests.
    Check(CheckHook),
    /// Before a server starts with this configuration, or reloads it; does not run if the configuration is only checked
    /// or shown. `Err`: why it cannot be served, and what to do.
    Start(StartHook),
    /// The module's output for `-t -D NAME`.
    Dump(&'static str, DumpHook),
    /// What the module has stored on the disk.
    Inventory(&'static Inventory),
    /// The fingerprints of certificates, for those that compare the files of several machines.
    Fingerprints(FingerprintsHook),
    /// The way to ask a server with this configuration over an encrypted connection.
    Connect(ConnectHook),
    /// httpd has no such module: under a name of httpd, lists of modules leave it out.
    Unlisted,
    /// The module's hooks decide about a request by its head, the configuration and the requested file, and record in the
    /// request everything else that they ask ([`Request::asks_beyond_head`]): a later request that asks the same may get the
    /// same response without them. While a module with hooks for requests does not say so, nothing is repeated.
    Repeatable,
    /// A variable of the environment that each request has anew: its name, and the function that writes its value. If the
    /// configuration reads the variable ([`Request::env_value`]), the request is not repeated.
    OwnVariable(&'static str, WriteVariable),
    /// A kind of lock that `Mutex` may name.
    Mutex(&'static str),
    /// Checks a name in `SetHandler`. `Err`: why no handler will ever answer under it.
    HandlerName(HandlerCheck),
    /// A cache that all children share, for any code that knows its name.
    SharedCache(&'static SharedCache),
    /// A server is about to start, and the configuration was only read. Does not run where it is checked or shown.
    BeforeStart(fn()),
    /// Runs once a second in the parent, and must not wait.
    Tick(ServerHook),
    /// What `tsubame check` says of the module's settings, as `test_config` in Apache.
    Examine(ExamineHook),
    /// Foresees what would keep the module's processes from starting, and changes nothing. `Err`: the obstacle.
    Preflight(PreflightHook),
    /// A command of `tsubame ctl`. `Ok`: the text for the client.
    Command(&'static str, CommandHook),
    /// The handler that the module gives a file of this name, under the settings of its directory.
    FileHandler(FileHandlerHook),
    /// Opens log files; runs as root, before the server detaches. `Err`: the server cannot start.
    OpenLogs(LogHook),
    /// The module's processes beside the children, if any; runs in the parent, before they are forked. `Err`: this
    /// configuration cannot be used. Processes that several modules need exist once.
    HelperProcess(&'static HelperHook),
    /// A new child runs, without privileges.
    ChildInit(ServerHook),
    /// A child is about to end, and serves no more, though requests may be left in its threads.
    ChildEnd(fn()),
    /// Data that the clients of some connections send before their first request.
    Preface(&'static Preface),
    /// Decides about new connections by their clients.
    Reception(&'static Reception),
    /// The encryption of connections.
    Encryption(&'static Encryption),
    /// The module's variables of a request, by name, for logs, expressions and rules.
    Variable(FindVariable),
    /// Reads extensions of clients' certificates, for expressions.
    Extension(FindExtension),
    /// Finds out whether a request whose target names a host is for another server, before all phases.
    Forward(fn(&mut Request) -> Flow),
    /// Maps paths before they are decoded.
    MapUndecoded(&'static MapUndecoded),
    /// Takes part in a phase of a request.
    Phase(Phase, Order, PhaseHook),
    /// Answers instead of the handlers, before all other phases or after them. The first that does not decline wins.
    QuickHandler(Order, QuickHandler),
    /// Makes the response. The first that does not decline wins.
    Handler(Order, Handler),
    /// Wraps the body of a response.
    Filter(Order, fn(&mut Request, Body) -> Body),
    /// A filter that the configuration may name.
    NamedFilter(&'static OutputFilter),
    /// Filters that the configuration itself defines, by name.
    FindFilter(FindFilter),
    /// Puts filters into the chain of a handler's response. All hooks run.
    InsertFilters(Order, fn(&mut Request, &mut ResponseChain)),
    /// A filter for request bodies that the configuration may name.
    InputFilter(&'static InputFilter),
    /// Filters for request bodies that the configuration itself defines, by name.
    FindInputFilter(FindInputFilter),
    /// Puts filters into the chain of a request's body. All hooks run.
    InsertInputFilters(Order, fn(&mut Request, &mut InputChain)),
    /// Last changes of the response's fields, before they go out. All hooks run.
    ResponseFields(Order, ResponseHook),
    /// The response has gone out, or could not. All hooks run. They change nothing of the request, which may end again, for
    /// a repeat.
    Log(Order, fn(&mut Request)),
    /// As `Log`, after all of those, where the configuration asks for it; elsewhere it costs a request nothing.
    LogWhere(IsWanted, fn(&mut Request)),
    /// Another object that directives find by name, with its group (`dav`, `filesystem`).
    Provider(&'static str, &'static str),
    /// A way to authorize (`Require NAME …`).
    Authz(&'static AuthzProvider),
    /// A way to check a password (`AuthBasicProvider NAME`).
    Authn(&'static AuthnProvider),
    /// Adds the fields that tell the client how to log in, if the given `AuthType` is the module's own.
    NoteAuthFailure(fn(&mut Request, &str)),
    /// Makes the id of a request for the logs (`%L`), only once and only if it is wanted. The first module that returns
    /// one wins.
    LogId(fn(&Request) -> String),
}

impl Hook {
    /// When it runs: the phase, by its name in Apache's mod_info, and the order in that phase. `None` for a service
    /// that is only called by name.
    pub fn phase(&self) -> Option<(&'static str, Order)> {
        Some(match self {
            Hook::Check(_) => ("Check Configuration", Order::Middle),
            Hook::Start(_) | Hook::HelperProcess(_) => ("Post Configuration", Order::Middle),
            Hook::OpenLogs(_) => ("Open Logs", Order::Middle),
            Hook::ChildInit(_) => ("Child Init", Order::Middle),
            Hook::Forward(_) => (Phase::PostRead.apache_name(), Order::First),
            Hook::Phase(phase, order, _) => (phase.apache_name(), *order),
            Hook::NoteAuthFailure(_) => ("Note Authentication Failure", Order::Middle),
            Hook::Filter(order, _)
            | Hook::InsertFilters(order, _)
            | Hook::InsertInputFilters(order, _)
            | Hook::ResponseFields(order, _) => ("Insert Filters", *order),
            Hook::QuickHandler(order, _) => ("Quick Handler", *order),
            Hook::Handler(order, _) => ("Content Handlers", *order),
            Hook::Log(order, _) => ("Transaction Logging", *order),
            Hook::LogWhere(..) => ("Transaction Logging", Order::ReallyLast),
            Hook::LogId(_) => ("Generate Log ID", Order::Middle),
            Hook::NamedFilter(_)
            | Hook::FindFilter(_)
            | Hook::InputFilter(_)
            | Hook::FindInputFilter(_)
            | Hook::Authz(_)
            | Hook::Authn(_)
            | Hook::Mutex(_)
            | Hook::SharedCache(_)
            | Hook::Provider(..)
            | Hook::HandlerName(_)
            | Hook::Preface(_)
            | Hook::Reception(_)
            | Hook::Encryption(_)
            | Hook::Variable(_)
            | Hook::Extension(_)
            | Hook::ChildEnd(_)
            | Hook::BeforeStart(_)
            | Hook::Tick(_)
            | Hook::Examine(_)
            | Hook::Preflight(_)
            | Hook::Command(..)
            | Hook::FileHandler(_)
            | Hook::Dump(..)
            | Hook::Inventory(_)
            | Hook::Fingerprints(_)
            | Hook::Connect(_)
            | Hook::MapUndecoded(_)
            | Hook::Repeatable
            | Hook::OwnVariable(..)
            | Hook::Unlisted => return None,
        })
    }
}

/// Whether a module records what its hooks ask for requests, or has no such hooks.
fn is_repeatable(module: &Module) -> bool {
    let says_so = module.hooks.iter().any(|hook| matches!(hook, Hook::Repeatable));
    says_so || !module.hooks.iter().any(runs_for_requests)
}

/// Whether a hook runs for every request, or for those that the configuration picks.
fn runs_for_requests(hook: &Hook) -> bool {
    match hook {
        Hook::Phase(..)
        | Hook::QuickHandler(..)
        | Hook::Handler(..)
        | Hook::Filter(..)
        | Hook::NamedFilter(_)
        | Hook::FindFilter(_)
        | Hook::InsertFilters(..)
        | Hook::ResponseFields(..)
        | Hook::Log(..)
        | Hook::LogWhere(..)
        | Hook::Forward(_)
        | Hook::MapUndecoded(_)
        | Hook::Preface(_) => true,
        // Request::variable records the question; filters of bodies have no effect where there is none, and a request with a
        // body, a user or a message in a log is not repeated.
        Hook::Variable(_)
        | Hook::Extension(_)
        | Hook::InputFilter(_)
        | Hook::FindInputFilter(_)
        | Hook::InsertInputFilters(..)
        | Hook::Authz(_)
        | Hook::Authn(_)
        | Hook::NoteAuthFailure(_)
        | Hook::LogId(_) => false,
        Hook::Repeatable
        | Hook::OwnVariable(..)
        | Hook::Check(_)
        | Hook::Start(_)
        | Hook::Dump(..)
        | Hook::Inventory(_)
        | Hook::Fingerprints(_)
        | Hook::Connect(_)
        | Hook::Unlisted
        | Hook::Mutex(_)
        | Hook::HandlerName(_)
        | Hook::SharedCache(_)
        | Hook::BeforeStart(_)
        | Hook::Tick(_)
        | Hook::Examine(_)
        | Hook::Preflight(_)
        | Hook::Command(..)
        | Hook::FileHandler(_)
        | Hook::OpenLogs(_)
        | Hook::HelperProcess(_)
        | Hook::ChildInit(_)
        | Hook::ChildEnd(_)
        | Hook::Reception(_)
        | Hook::Encryption(_)
        | Hook::Provider(..) => false,
    }
}

/// The hooks of these modules, in the order in which they run, with the modules' names in log lines.
fn ordered(modules: &[&'static Module]) -> Vec<(&'static str, &'static Hook)> {
    let all = modules.iter().flat_map(|module| module.hooks.iter().map(|hook| (module.info.log_name(), hook)));
    let mut ordered: Vec<_> = all.collect();
    ordered.sort_by_key(|(_, hook)| hook.phase().map_or(Order::Middle, |(_, order)| order));
    ordered
}

/// These modules' hooks for requests; `run_subrequest` takes a subrequest through the phases.
pub(crate) fn request_hooks(modules: &[&'static Module], run_subrequest: RunSubrequest) -> Hooks {
    let mut hooks = Hooks {
        run_subrequest,
        phases: Default::default(),
        quick_handler: Vec::new(),
        handler: Vec::new(),
        filter: Vec::new(),
        named_filters: Vec::new(),
        find_filter: Vec::new(),
        insert_filters: Vec::new(),
        input_filters: Vec::new(),
        find_input_filter: Vec::new(),
        insert_input_filters: Vec::new(),
        response_fields: Vec::new(),
        log: Vec::new(),
        log_where: Vec::new(),
        note_auth_failure: Vec::new(),
        log_id: None,
        forward: None,
        undecoded: None,
        preface: None,
        reception: None,
        encryption: None,
        variables: Vec::new(),
        extensions: None,
        own_variables: Vec::new(),
        are_repeatable: modules.iter().all(|module| is_repeatable(module)),
    };
    for (module, hook) in ordered(modules) {
        match hook {
            Hook::Phase(phase, _, f) => hooks.phases[*phase as usize].push(ModuleHook { module, hook: *f }),
            Hook::QuickHandler(_, handler) => hooks.quick_handler.push(*handler),
            Hook::Handler(_, handler) => hooks.handler.push(ModuleHook { module, hook: *handler }),
            Hook::Filter(_, f) => hooks.filter.push(*f),
            Hook::NamedFilter(filter) => hooks.named_filters.push(filter),
            Hook::FindFilter(f) => hooks.find_filter.push(*f),
            Hook::InsertFilters(_, f) => hooks.insert_filters.push(*f),
            Hook::InputFilter(filter) => hooks.input_filters.push(filter),
            Hook::FindInputFilter(f) => hooks.find_input_filter.push(*f),
            Hook::InsertInputFilters(_, f) => hooks.insert_input_filters.push(*f),
            Hook::ResponseFields(_, f) => hooks.response_fields.push(*f),
            Hook::Log(_, f) => hooks.log.push(*f),
            Hook::LogWhere(is_wanted, f) => hooks.log_where.push((*is_wanted, *f)),
            Hook::NoteAuthFailure(f) => hooks.note_auth_failure.push(*f),
            Hook::Forward(f) => hooks.forward = Some(*f),
            Hook::MapUndecoded(hook) => hooks.undecoded = Some(hook),
            Hook::Preface(preface) => hooks.preface = Some(preface),
            Hook::Reception(reception) => hooks.reception = Some(reception),
            Hook::Encryption(encryption) => hooks.encryption = Some(encryption),
            Hook::Variable(find) => hooks.variables.push(*find),
            Hook::Extension(read) => hooks.extensions = Some(*read),
            Hook::OwnVariable(name, f) => hooks.own_variables.push((name, *f)),
            Hook::LogId(f) => hooks.log_id = hooks.log_id.or(Some(*f)),
            // Hooks for the server's life, and those called by name while the configuration is read.
            _ => {}
        }
    }
    hooks
}

/// These modules' hooks for starting, ending and showing the server.
pub(crate) fn lifecycle(modules: &[&'static Module]) -> Lifecycle {
    let mut life = Lifecycle::default();
    for (_, hook) in ordered(modules) {
        match hook {
            Hook::Start(f) => life.start.push(*f),
            Hook::Dump(name, f) => life.dump.push((name, *f)),
            Hook::OpenLogs(f) => life.open_logs.push(*f),
            Hook::HelperProcess(helper) if !life.helper.iter().any(|known| std::ptr::eq(*known, *helper)) => {
                life.helper.push(helper);
            }
            Hook::HelperProcess(_) => {}
            Hook::ChildInit(f) => life.child_init.push(*f),
            Hook::ChildEnd(f) => life.child_end.push(*f),
            Hook::BeforeStart(f) => life.before_start.push(*f),
            Hook::Tick(f) => life.tick.push(*f),
            Hook::Preflight(f) => life.preflight.push(*f),
            _ => {}
        }
    }
    life
}

/// These modules' checks of a whole configuration.
pub(crate) fn checks(modules: &[&'static Module]) -> Vec<CheckHook> {
    let check = |(_, hook)| if let &Hook::Check(check) = hook { Some(check) } else { None };
    ordered(modules).into_iter().filter_map(check).collect()
}

static KNOWN: OnceLock<&'static [&'static Module]> = OnceLock::new();

/// Sets the program's modules; called once by `main`.
pub fn set_known(modules: &'static [&'static Module]) {
    // A second call can only come from a test in the same process, with the same list.
    let _ = KNOWN.set(modules);
}

/// The program's modules.
pub fn known() -> &'static [&'static Module] {
    KNOWN.get().copied().unwrap_or_default()
}

/// The hooks of the known modules with these infos, module by module.
pub(crate) fn hooks_of<'a>(loaded: &'a [&'static ModuleInfo]) -> impl Iterator<Item = &'static Hook> + 'a {
    let is_loaded = |id: &str| loaded.iter().any(|info| info.id == id);
    known().iter().filter(move |module| is_loaded(module.info.id)).flat_map(|module| module.hooks)
}

/// Whether lists that look like httpd's leave a module out.
pub fn is_unlisted(info: &ModuleInfo) -> bool {
    let mut module = known().iter().filter(|module| module.info.id == info.id);
    module.any(|module| module.hooks.iter().any(|hook| matches!(hook, Hook::Unlisted)))
}

/// Whether one of these modules has output for `-t -D NAME`.
pub fn has_dump(loaded: &[&'static ModuleInfo], name: &str) -> bool {
    hooks_of(loaded).any(|hook| matches!(hook, Hook::Dump(own, _) if *own == name))
}

/// How to show what the program's modules have stored on the disk.
pub fn inventories() -> impl Iterator<Item = &'static Inventory> {
    let hooks = known().iter().flat_map(|module| module.hooks);
    hooks.filter_map(|hook| if let Hook::Inventory(inventory) = hook { Some(*inventory) } else { None })
}

/// Encrypts a connection to a server that should have this configuration ([`ConnectHook`]).
///
/// # Errors
/// The name is none, or no module of the program encrypts. Reading and writing fail if the handshake does.
pub fn connect(stream: Box<dyn Duplex>, host: &str, server: &Server) -> io::Result<Box<dyn Duplex>> {
    let mut hooks = known().iter().flat_map(|module| module.hooks);
    let connect = hooks.find_map(|hook| if let Hook::Connect(connect) = hook { Some(connect) } else { None });
    connect.ok_or(io::ErrorKind::Unsupported)?(stream, host, server)
}

/// The fingerprints of the certificates in a file; none if no module of the program knows certificates.
pub fn fingerprints(file: &[u8]) -> Result<Vec<String>, String> {
    let mut hooks = known().iter().flat_map(|module| module.hooks);
    let find = hooks.find_map(|hook| if let Hook::Fingerprints(find) = hook { Some(find) } else { None });
    find.map_or_else(|| Ok(Vec::new()), |find| find(file))
}

/// The known modules with these infos, in that order.
pub fn with_infos(infos: &[&'static ModuleInfo]) -> Vec<&'static Module> {
    let mut modules: Vec<&'static Module> = Vec::new();
    for info in infos {
        let module = known().iter().copied().find(|module| module.info.id == info.id);
        // The core has several infos.
        modules.extend(module.filter(|module| !modules.iter().any(|have| have.info.id == module.info.id)));
    }
    modules
}

/// The caches of the loaded modules.
pub fn shared_caches(loaded: &[&'static ModuleInfo]) -> impl Iterator<Item = &'static SharedCache> {
    hooks_of(loaded).filter_map(|hook| match hook {
        Hook::SharedCache(cache) => Some(*cache),
        _ => None,
    })
}

/// Passes on what the loaded modules find in their settings.
pub fn examine(server: &Server, found: &mut dyn FnMut(Finding)) {
    for hook in hooks_of(server.infos()) {
        if let Hook::Examine(examine) = hook {
            examine(server, found);
        }
    }
}

/// A loaded module's command of the control socket.
pub fn find_command(loaded: &[&'static ModuleInfo], name: &str) -> Option<CommandHook> {
    hooks_of(loaded).find_map(|hook| match hook {
        Hook::Command(known, command) if *known == name => Some(*command),
        _ => None,
    })
}

/// The handler that a module gives a file of this name, under the settings of its directory.
pub fn handler_of_file<'a>(loaded: &[&'static ModuleInfo], settings: &'a SettingsMap, name: &str) -> Option<&'a str> {
    hooks_of(loaded).find_map(|hook| if let Hook::FileHandler(find) = hook { find(settings, name) } else { None })
}

/// The loaded modules' checks of handler names.
pub fn handler_checks(loaded: &[&'static ModuleInfo]) -> impl Iterator<Item = HandlerCheck> {
    hooks_of(loaded).filter_map(|hook| if let Hook::HandlerName(check) = hook { Some(*check) } else { None })
}

/// The `Require` provider of that name among the loaded modules; names are case-sensitive, as in Apache.
pub fn find_authz(loaded: &[&'static ModuleInfo], name: &str) -> Option<&'static AuthzProvider> {
    hooks_of(loaded).find_map(|hook| match hook {
        Hook::Authz(provider) if provider.name == name => Some(*provider),
        _ => None,
    })
}

/// The password provider of that name among the loaded modules.
pub fn find_authn(loaded: &[&'static ModuleInfo], name: &str) -> Option<&'static AuthnProvider> {
    hooks_of(loaded).find_map(|hook| match hook {
        Hook::Authn(provider) if provider.name == name => Some(*provider),
        _ => None,
    })
}
