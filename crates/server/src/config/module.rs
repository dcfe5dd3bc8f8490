//! What a module is: a table of directives, and hooks into the phases of a request.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;

use conf::{Context, Error, ModuleInfo};
use seam::HelperProcess;
use sys::cred::Identity;

use crate::config::shared_cache::SharedCache;
use crate::phases::authz::{AuthnProvider, AuthzProvider};
use crate::phases::filters::{Chain, OutputFilter};
use crate::request::response::{Answer, Body};
use crate::{Draft, Request, Server};

/// A module: one file, one of these, listed once.
pub struct Module {
    /// What the configuration language knows of it.
    pub info: ModuleInfo,
    /// What it does.
    pub hooks: &'static [Hook],
}

/// When a hook runs among those of its phase. Those of the same order run in the order of the list of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Order {
    ReallyFirst,
    First,
    Middle,
    Last,
    ReallyLast,
}

/// What a hook says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Not mine; the others go on.
    Declined,
    /// Done with this phase.
    Ok,
    /// The request ends with this status.
    Status(u16),
}

/// A check of the whole configuration.
pub type CheckHook = fn(&mut Draft, &mut Context) -> Result<(), Error>;
/// Opens what a module logs to.
pub type LogHook = fn(&Server) -> Result<(), String>;
/// Opens what a module has beside the children, for which the identity is who they become.
pub type HelperHook = fn(&Server, Option<&Identity>) -> Result<Option<HelperProcess>, String>;
/// Whether a configuration can be served.
pub type StartHook = fn(&Server) -> Result<(), String>;
/// What a module adds to what `-t` shows.
pub type DumpHook = fn(&Server) -> String;
/// What is still being found out: a [`Flow`], an [`Answer`], or whatever else a module has to wait for. It is dropped when
/// the client resets the connection, and must be able to bear it.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A hook of a phase.
#[derive(Clone, Copy)]
pub enum PhaseHook {
    /// Says it at once.
    Now(fn(&mut Request) -> Flow),
    /// May have to wait: for a look-up, a password, a name server.
    Later {
        /// Whether it has anything to say; where not, it has declined, and costs no more than a function call.
        claims: fn(&Request) -> bool,
        /// Says it.
        run: fn(&mut Request) -> Waiting<'_, Flow>,
    },
}

/// A content handler. It looks at `Request::handler_name` and leaves alone what is not its own.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answers at once.
    Now(fn(&mut Request) -> Answer),
    /// Waits for something: a script, a request body.
    Later {
        /// Whether the answer is its to make.
        claims: fn(&Request) -> bool,
        /// What the answer is where it is known at once; `None`: it has to be made.
        check: fn(&mut Request) -> Option<Answer>,
        /// Makes it.
        answer: fn(&mut Request) -> Waiting<'_, Answer>,
    },
}

/// Where a module joins in. The phases come in this order (Apache manual, "Request Processing in the
/// Apache HTTP Server 2.x").
pub enum Hook {
    /// The configuration was applied: check it as a whole, prepare what requests need.
    Check(CheckHook),
    /// A server is about to start with this configuration, or to reload it; does not run where the configuration is only
    /// checked or shown. `Err`: what in it cannot be served, and what to do.
    Start(StartHook),
    /// What `-t -D NAME` prints for the module.
    Dump(&'static str, DumpHook),
    /// A kind of lock that `Mutex` may name.
    Mutex(&'static str),
    /// A cache that all children share, for whoever is told its name.
    SharedCache(&'static SharedCache),
    /// Open log files; runs as root, before the server detaches. `Err`: it cannot start.
    OpenLogs(LogHook),
    /// The processes that the module has beside the children, if any; runs in the parent, before they are forked. `Err`: this
    /// configuration cannot be used.
    HelperProcess(HelperHook),
    /// A new child runs, without privileges.
    ChildInit(fn(&Server)),
    /// The head was read. All hooks run.
    PostRead(Order, PhaseHook),
    /// URL to file name. The first that does not decline wins.
    Translate(Order, PhaseHook),
    /// All sections were merged. All hooks run.
    HeaderParser(Order, PhaseHook),
    /// Access by where the request comes from. All hooks run.
    AccessChecker(Order, PhaseHook),
    /// Access without asking for a user. The first that does not decline wins.
    AccessCheckerEx(Order, PhaseHook),
    /// Who is it. The first that does not decline wins.
    CheckUser(Order, PhaseHook),
    /// May that user. The first that does not decline wins.
    AuthChecker(Order, PhaseHook),
    /// Type, language, encoding, handler. The first that does not decline wins.
    TypeChecker(Order, PhaseHook),
    /// Last changes before the handler. All hooks run.
    Fixups(Order, PhaseHook),
    /// Makes the answer. The first that does not decline wins.
    Handler(Order, Handler),
    /// Wraps the body of an answer.
    Filter(Order, fn(&mut Request, Body) -> Body),
    /// A filter that configuration may name.
    NamedFilter(&'static OutputFilter),
    /// Puts filters into the chain of a handler's answer. All hooks run.
    InsertFilters(Order, fn(&mut Request, &mut Chain)),
    /// The answer has gone out, or could not. All hooks run.
    Log(Order, fn(&mut Request)),
    /// A way to say who may (`Require NAME …`).
    Authz(&'static AuthzProvider),
    /// A way to check a password (`AuthBasicProvider NAME`).
    Authn(&'static AuthnProvider),
    /// Puts into the fields of the answer how to log in, if the given `AuthType` is the module's own.
    NoteAuthFailure(fn(&mut Request, &str)),
    /// Makes the id of a request for the logs (`%L`), once and only if it is wanted. The first module that does, does.
    LogId(fn(&Request) -> String),
}

impl Hook {
    /// When it runs: the phase, by the name that Apache's mod_info has for it, and when in that phase. `None` for what a
    /// module only offers to whom asks for it by name.
    pub fn phase(&self) -> Option<(&'static str, Order)> {
        Some(match self {
            Hook::Check(_) => ("Check Configuration", Order::Middle),
            Hook::Start(_) | Hook::HelperProcess(_) => ("Post Configuration", Order::Middle),
            Hook::OpenLogs(_) => ("Open Logs", Order::Middle),
            Hook::ChildInit(_) => ("Child Init", Order::Middle),
            Hook::PostRead(order, _) => ("Post-Read Request", *order),
            Hook::Translate(order, _) => ("Translate Name", *order),
            Hook::HeaderParser(order, _) => ("Header Parse", *order),
            Hook::AccessCheckerEx(order, _) => ("Check Access", *order),
            Hook::AccessChecker(order, _) => ("Check Access (legacy)", *order),
            Hook::CheckUser(order, _) => ("Verify User ID", *order),
            Hook::NoteAuthFailure(_) => ("Note Authentication Failure", Order::Middle),
            Hook::AuthChecker(order, _) => ("Verify User Access", *order),
            Hook::TypeChecker(order, _) => ("Check Type", *order),
            Hook::Fixups(order, _) => ("Fixups", *order),
            Hook::Filter(order, _) | Hook::InsertFilters(order, _) => ("Insert Filters", *order),
            Hook::Handler(order, _) => ("Content Handlers", *order),
            Hook::Log(order, _) => ("Transaction Logging", *order),
            Hook::LogId(_) => ("Generate Log ID", Order::Middle),
            Hook::NamedFilter(_)
            | Hook::Authz(_)
            | Hook::Authn(_)
            | Hook::Mutex(_)
            | Hook::SharedCache(_)
            | Hook::Dump(..) => return None,
        })
    }
}

/// A hook, and the name of its module in log lines.
#[derive(Clone, Copy)]
pub(crate) struct Of<T> {
    pub(crate) module: &'static str,
    pub(crate) hook: T,
}

/// The hooks of the loaded modules, phase by phase, in the order in which they run.
#[derive(Default)]
pub struct Hooks {
    pub(crate) check: Vec<CheckHook>,
    pub(crate) start: Vec<StartHook>,
    pub(crate) dump: Vec<(&'static str, DumpHook)>,
    pub(crate) open_logs: Vec<LogHook>,
    pub(crate) helper: Vec<HelperHook>,
    pub(crate) child_init: Vec<fn(&Server)>,
    pub(crate) post_read: Vec<Of<PhaseHook>>,
    pub(crate) translate: Vec<Of<PhaseHook>>,
    pub(crate) header_parser: Vec<Of<PhaseHook>>,
    pub(crate) access_checker: Vec<Of<PhaseHook>>,
    pub(crate) access_checker_ex: Vec<Of<PhaseHook>>,
    pub(crate) check_user: Vec<Of<PhaseHook>>,
    pub(crate) auth_checker: Vec<Of<PhaseHook>>,
    pub(crate) type_checker: Vec<Of<PhaseHook>>,
    pub(crate) fixups: Vec<Of<PhaseHook>>,
    pub(crate) handler: Vec<Of<Handler>>,
    pub(crate) filter: Vec<fn(&mut Request, Body) -> Body>,
    pub(crate) named_filters: Vec<&'static OutputFilter>,
    pub(crate) insert_filters: Vec<fn(&mut Request, &mut Chain)>,
    pub(crate) log: Vec<fn(&mut Request)>,
    pub(crate) note_auth_failure: Vec<fn(&mut Request, &str)>,
    pub(crate) log_id: Option<fn(&Request) -> String>,
}

impl Hooks {
    /// The hooks of these modules.
    pub fn of(modules: &[&'static Module]) -> Hooks {
        let mut hooks = Hooks::default();
        let mut ordered: Vec<(Order, &'static str, &'static Hook)> = Vec::new();
        let all = modules.iter().flat_map(|module| module.hooks.iter().map(|hook| (module.info.log_name(), hook)));
        for (module, hook) in all {
            ordered.push((hook.phase().map_or(Order::Middle, |(_, order)| order), module, hook));
        }
        ordered.sort_by_key(|(order, ..)| *order);
        for (_, module, hook) in ordered {
            let of = |hook| Of { module, hook };
            match hook {
                Hook::Check(f) => hooks.check.push(*f),
                Hook::Start(f) => hooks.start.push(*f),
                Hook::Dump(name, f) => hooks.dump.push((name, *f)),
                Hook::OpenLogs(f) => hooks.open_logs.push(*f),
                Hook::HelperProcess(f) => hooks.helper.push(*f),
                Hook::ChildInit(f) => hooks.child_init.push(*f),
                Hook::PostRead(_, f) => hooks.post_read.push(of(*f)),
                Hook::Translate(_, f) => hooks.translate.push(of(*f)),
                Hook::HeaderParser(_, f) => hooks.header_parser.push(of(*f)),
                Hook::AccessChecker(_, f) => hooks.access_checker.push(of(*f)),
                Hook::AccessCheckerEx(_, f) => hooks.access_checker_ex.push(of(*f)),
                Hook::CheckUser(_, f) => hooks.check_user.push(of(*f)),
                Hook::AuthChecker(_, f) => hooks.auth_checker.push(of(*f)),
                Hook::TypeChecker(_, f) => hooks.type_checker.push(of(*f)),
                Hook::Fixups(_, f) => hooks.fixups.push(of(*f)),
                Hook::Handler(_, handler) => hooks.handler.push(Of { module, hook: *handler }),
                Hook::Filter(_, f) => hooks.filter.push(*f),
                Hook::NamedFilter(filter) => hooks.named_filters.push(filter),
                Hook::InsertFilters(_, f) => hooks.insert_filters.push(*f),
                Hook::Log(_, f) => hooks.log.push(*f),
                Hook::NoteAuthFailure(f) => hooks.note_auth_failure.push(*f),
                Hook::LogId(f) => hooks.log_id = hooks.log_id.or(Some(*f)),
                // Asked for by name, while the configuration is read.
                Hook::Authz(_) | Hook::Authn(_) | Hook::Mutex(_) | Hook::SharedCache(_) => {}
            }
        }
        hooks
    }

    /// The filter of that name, without difference of case.
    pub fn named_filter(&self, name: &str) -> Option<&'static OutputFilter> {
        self.named_filters.iter().copied().find(|filter| filter.name.eq_ignore_ascii_case(name))
    }
}

static KNOWN: OnceLock<&'static [&'static Module]> = OnceLock::new();

/// Says which modules the program has; called once by `main`.
pub fn set_known(modules: &'static [&'static Module]) {
    // A second call can only come from a test in the same process, with the same list.
    let _ = KNOWN.set(modules);
}

/// The modules the program has.
pub fn known() -> &'static [&'static Module] {
    KNOWN.get().copied().unwrap_or_default()
}

/// The hooks of the known modules with these infos, module by module.
pub(crate) fn hooks_of<'a>(loaded: &'a [&'static ModuleInfo]) -> impl Iterator<Item = &'static Hook> + 'a {
    let is_loaded = |id: &str| loaded.iter().any(|info| info.id == id);
    known().iter().filter(move |module| is_loaded(module.info.id)).flat_map(|module| module.hooks)
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
