//! The running server, made from its configuration.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use conf::{Language, ModuleInfo, System};
use runtime::HelperProcess;
use sys::cred::Identity;

use crate::log;
use crate::settings::core::Methods;
use crate::settings::merge::Merger;
use crate::site::directory_cache::DirectoryCaches;
use crate::site::file_cache::FileCache;
use crate::site::htaccess_cache::HtaccessCache;
use crate::site::start_error::StartError;
use crate::site::vhost::{Hosts, VirtualHost};
use crate::site::watched::WatchedDirectories;

/// Opens a module's logs.
pub type LogHook = fn(&Server) -> Result<(), StartError>;
/// Opens a module's processes beside the children; the identity is the user they change to.
pub type HelperHook = fn(&Arc<Server>, Option<&Identity>) -> Result<Option<HelperProcess>, String>;
/// Whether a configuration can be served.
pub type StartHook = fn(&Server) -> Result<(), String>;
/// Whether the module's processes could start.
pub type PreflightHook = fn(&Server) -> Result<(), StartError>;
/// A module's part of the output of `-t`.
pub type DumpHook = fn(&Server) -> String;
/// A moment in the life of the server.
pub type ServerHook = fn(&Server);

/// The loaded modules' hooks for starting, ending and showing the server.
#[derive(Default)]
pub(crate) struct Lifecycle {
    pub(crate) start: Vec<StartHook>,
    pub(crate) dump: Vec<(&'static str, DumpHook)>,
    pub(crate) open_logs: Vec<LogHook>,
    pub(crate) helper: Vec<&'static HelperHook>,
    pub(crate) child_init: Vec<ServerHook>,
    pub(crate) child_end: Vec<fn()>,
    pub(crate) before_start: Vec<fn()>,
    pub(crate) tick: Vec<ServerHook>,
    pub(crate) preflight: Vec<PreflightHook>,
}

/// The server as configured: immutable, except for caches. A restart makes a new one.
pub struct Server {
    /// The main server first, then the virtual hosts in file order.
    pub hosts: Vec<VirtualHost>,
    /// The configuration as read, in file order.
    pub tree: Vec<conf::Node>,
    /// The lines that took effect during reading, and left no trace in the tree.
    pub ran: Vec<conf::read::Ran>,
    /// The main file of the configuration, if it was read from a file.
    pub file: Option<String>,
    /// The version of this configuration: a digest of all that it was read from.
    pub version: String,
    /// The language settings with which `.htaccess` files are read.
    pub language: Language,
    /// The text of the `Server` field.
    pub software: String,
    pub(crate) life: Lifecycle,
    pub(crate) by_name: Hosts,
    pub(crate) merger: Merger,
    pub(crate) directories: DirectoryCaches,
    pub(crate) htaccess: HtaccessCache,
    pub(crate) watched: WatchedDirectories,
    pub(crate) files: FileCache,
    /// `ExtendedStatus`: the status page, `tsubame ctl` and the watchdog know the requests being served. In Apache it
    /// is off unless mod_status is loaded.
    pub(crate) extended_status: bool,
    /// The files and the environment, for `.htaccess` files and expressions.
    pub(crate) system: Arc<dyn System>,
}

impl Server {
    /// Whether a method is one of Apache's or was added by the configuration.
    pub(crate) fn knows_method(&self, method: &str) -> bool {
        self.language.kept.get::<Methods>().knows(method)
    }

    /// The main server.
    pub fn main(&self) -> &VirtualHost {
        &self.hosts[0]
    }

    /// The virtual host for a connection to this local address that asks for `name` (lower case, without port), and
    /// whether it knows the name.
    pub fn host_at(&self, local: SocketAddr, name: Option<&str>) -> (&VirtualHost, bool) {
        let (index, known) = self.by_name.choose(local, name);
        (&self.hosts[index], known)
    }

    /// Whether several virtual hosts share this local address, so that only a name can select one.
    pub fn is_shared(&self, local: SocketAddr) -> bool {
        self.by_name.candidates(local) > 1
    }

    /// Whether a server can run with this correct configuration. `Err`: the obstacle.
    pub fn can_be_served(&self) -> Result<(), String> {
        self.obstacles().next().map_or(Ok(()), Err)
    }

    /// All obstacles.
    pub fn obstacles(&self) -> impl Iterator<Item = String> {
        self.life.start.iter().filter_map(|check| check(self).err())
    }

    /// A server is about to start with this configuration.
    pub fn before_start(&self) {
        self.life.before_start.iter().for_each(|hook| hook());
    }

    /// A second has passed in the parent.
    pub fn tick(&self) {
        self.life.tick.iter().for_each(|hook| hook(self));
    }

    /// What would keep the modules' processes from starting; each message once.
    pub fn preflight(&self) -> Vec<StartError> {
        let mut found: Vec<StartError> = Vec::new();
        for error in self.life.preflight.iter().filter_map(|look| look(self).err()) {
            if !found.contains(&error) {
                found.push(error);
            }
        }
        found
    }

    /// The modules' output for `-t -D NAME`, for the names that `wanted` picks.
    pub fn dumps(&self, wanted: impl Fn(&str) -> bool) -> String {
        self.life.dump.iter().filter(|(name, _)| wanted(name)).map(|(_, dump)| dump(self)).collect()
    }

    /// Opens the modules' logs.
    pub fn open_logs(&self) -> Result<(), StartError> {
        self.error_logs().collect::<Result<(), StartError>>()?;
        self.main().error_log.take_messages_of_programs();
        self.life.open_logs.iter().try_for_each(|open| open(self))
    }

    /// Everything that would keep logs from being opened, for a check that opens none ([`log::never_open`]).
    pub fn unopenable_logs(&self) -> Vec<StartError> {
        let others = self.life.open_logs.iter().map(|open| open(self));
        let mut errors: Vec<StartError> = self.error_logs().chain(others).filter_map(Result::err).collect();
        // Modules that share something say the same of it.
        let mut said = HashSet::new();
        errors.retain(|error| said.insert(error.clone()));
        errors
    }

    fn error_logs(&self) -> impl Iterator<Item = Result<(), StartError>> {
        self.hosts.iter().map(|host| {
            host.error_log.open().map_err(|error| {
                let path = host.error_log.path();
                StartError::of_system(&error, &format!("AH00091: could not open error log file {path}."))
            })
        })
    }

    /// Opens the modules' processes beside the children; `children` is the user they change to.
    pub fn helpers(self: &Arc<Server>, children: Option<&Identity>) -> Result<Vec<HelperProcess>, String> {
        let all: Result<Vec<_>, _> = self.life.helper.iter().map(|helper| helper(self, children)).collect();
        Ok(all?.into_iter().flatten().collect())
    }

    /// Tells the modules that this process is a new child, one of `children`.
    pub fn child_started(&self, children: usize) {
        self.watched.child_started(children);
        self.life.child_init.iter().for_each(|start| start(self));
    }

    /// Tells the modules that this child is about to end.
    pub fn child_ends(&self) {
        self.life.child_end.iter().for_each(|end| end());
    }

    /// The main server's error log, for everything outside this crate.
    pub fn main_log(&self) -> Arc<dyn runtime::log::Log> {
        let main = self.main();
        Arc::new(log::MainLog { log: main.error_log.clone(), levels: main.levels.clone() })
    }

    /// Whether a module is loaded, by identifier.
    pub fn has_module(&self, id: &str) -> bool {
        self.language.has_module(id)
    }

    /// The infos of the loaded modules.
    pub fn infos(&self) -> &[&'static ModuleInfo] {
        self.language.loaded()
    }
}
