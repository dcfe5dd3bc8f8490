//! The processes that answer a request, and what they get to know about its application.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use gateway::Environment;
use gateway::backend::{Class, Concurrency, Head, PoolSettings, Program, Runtime, RuntimeCall};
use http::text::to_bytes;
use server::{Request, VirtualHost};

use super::settings::{
    APPLICATION_GROUP, CALLABLE, CALLABLE_OBJECT, DaemonProcess, GRACEFUL, Interface, MOUNT, MapHead, PROCESS_GROUP,
    WsgiDir, WsgiServer,
};

/// The system's python.
const PYTHON: &str = "/usr/bin/python3";
/// The part of the server's own environment that processes inherit.
const INHERITED: [&str; 4] = ["LANG", "LC_ALL", "TZ", "PYTHONPATH"];
/// Variables of the server's own process, which applications of mod_wsgi do not see.
const WITHHELD: &[&str] = &["PATH", "LD_LIBRARY_PATH", "TZ"];
/// The application group of a script that no line names one for: each place that it is mounted at.
const RESOURCE: &str = "%{RESOURCE}";
/// How long a process without a group is kept while no request needs it.
const IDLE: Duration = Duration::from_secs(600);
/// There are at least this many processes for each application without a group, if requests need them.
const EMBEDDED: u64 = 5;
/// How many requests for one script `python-fork` serves at once, for each processor.
const COPIES: u64 = 4;
/// How many requests a process with an event loop serves at once, WebSockets included.
const LOOP_MAX: u64 = 1000;
/// How long a request waits for a process of a group without `queue-timeout`.
const WAIT: Duration = Duration::from_secs(60);

/// A request's application: its script, and the processes that hold it.
pub(super) struct Application {
    /// Empty: no group of `WSGIDaemonProcess`.
    pub(super) process_group: String,
    pub(super) application_group: String,
    /// The application group as far as the configuration names it. Each has processes of its own, so no client can invent one.
    pub(super) pool: String,
    pub(super) callable: String,
    pub(super) interface: Interface,
}

impl Application {
    pub(super) fn of(request: &Request) -> Application {
        let dir = request.dir::<WsgiDir>();
        let noted = |note: &str| request.notes.get(note).map(str::to_string);
        let process_group = noted(PROCESS_GROUP).or_else(|| dir.process_group.get().cloned()).unwrap_or_default();
        let application_group = noted(APPLICATION_GROUP).or_else(|| dir.application_group.get().cloned());
        let interface = Interface::of(request).unwrap_or(Interface::Wsgi);
        Application {
            process_group: match interface {
                Interface::Fork => String::new(),
                Interface::Wsgi | Interface::Asgi => named(request, &process_group),
            },
            application_group: named(request, application_group.as_deref().unwrap_or(RESOURCE)),
            pool: configured(request, application_group.as_deref().unwrap_or(RESOURCE)),
            interface,
            callable: noted(CALLABLE_OBJECT).or_else(|| dir.callable.get().cloned()).unwrap_or_else(|| CALLABLE.into()),
        }
    }

    /// Any of a process group.
    pub(super) fn of_group(process_group: &str, interface: Interface) -> Application {
        Application {
            process_group: process_group.into(),
            application_group: String::new(),
            pool: String::new(),
            callable: String::new(),
            interface,
        }
    }

    /// The one of a script outside of all process groups.
    pub(super) fn of_script(request: &Request, application_group: &str) -> Application {
        Application {
            process_group: String::new(),
            application_group: named(request, application_group),
            pool: configured(request, application_group),
            callable: String::new(),
            interface: Interface::Wsgi,
        }
    }

    /// The options of its group. `None`: there is no such group.
    pub(super) fn daemon<'a>(&self, request: &'a Request) -> Option<Option<&'a DaemonProcess>> {
        if self.process_group.is_empty() {
            return Some(None);
        }
        request.host::<WsgiServer>().groups.get(&self.process_group).map(Some)
    }

    /// What its processes get to know: the same for all of its requests.
    /// `handler`: `wsgi`, `asgi`, `websocket`, or the function of a script that decides about access.
    pub(super) fn call(
        &self,
        request: &Request,
        daemon: Option<&DaemonProcess>,
        handler: &str,
        file: &str,
    ) -> RuntimeCall {
        let dir = request.dir::<WsgiDir>();
        let flag = |on: bool| if on { "1" } else { "0" };
        let mut call = RuntimeCall::default();
        call.withhold(WITHHELD);
        call.keep_names();
        call.add("handler", handler);
        call.add("file", file);
        call.add("callable", &self.callable);
        call.add("process_group", &self.process_group);
        call.add("application_group", &self.application_group);
        call.add("processes", if daemon.is_some_and(|daemon| daemon.processes.is_none()) { "1" } else { "" });
        call.add("reloading", flag(dir.reloading()));
        call.add("sendfile", flag(dir.sendfile()));
        let local = request.local();
        call.add("listener_host", &local.ip().to_string());
        call.add("listener_port", &local.port().to_string());
        call.add("head", if dir.map_head() == MapHead::On { "get" } else { "" });
        call
    }

    /// The class of its processes. `None`: no file can have such a name.
    pub(super) fn class(&self, request: &Request, daemon: Option<&DaemonProcess>) -> Option<Class> {
        let class = self.class_of(request.vhost, &request.mapped.filename, daemon)?;
        let program = class.program.limited_for(request);
        // A changed script ends the processes that have run the old one.
        let reloads = request.dir::<WsgiDir>().reloading();
        let program = match request.mapped.stat.filter(|_| reloads) {
            Some(meta) => program.of_file(&meta),
            None => program,
        };
        Some(Class { program, ..class })
    }

    /// The class of the processes that run a file, as long as no section says more of it.
    pub(super) fn class_of(&self, host: &VirtualHost, file: &str, daemon: Option<&DaemonProcess>) -> Option<Class> {
        let server = host.settings.get::<WsgiServer>();
        let default = DaemonProcess { threads: 1, ..DaemonProcess::default() };
        let options = daemon.unwrap_or(&default);
        let home = options.python_home.as_ref().or(server.python_home.get());
        let python = home.map_or_else(|| PYTHON.to_string(), |home| format!("{home}/bin/python3"));
        let mut arguments = server.switches();
        let mode = self.interface.mode();
        let threads = match self.interface {
            Interface::Wsgi | Interface::Asgi => options.threads,
            Interface::Fork => COPIES * sys::affinity::processors() as u64,
        };
        arguments.extend([Runtime::PATH.to_string(), mode.to_string(), format!("threads={threads}")]);
        if self.interface == Interface::Fork {
            arguments.push(format!("import={file}"));
        }
        arguments.extend(options.arguments.iter().cloned());
        if let Some(path) = server.python_path.get() {
            arguments.push(format!("python-path={path}"));
        }
        let imports =
            server.imports.iter().filter(|import| import.concerns(&self.process_group, &self.application_group));
        arguments.extend(imports.map(|import| format!("import={}", import.file)));
        let account = server.account.0.as_ref().filter(|_| daemon.is_some());
        let home = account.and_then(|account| options.home_of_user(account));
        let owner = account.and_then(|account| options.owner(account));
        // As in mod_wsgi.
        let at_home = home.filter(|_| options.user.is_some() && owner.is_some());
        let directory = options.home.as_deref().or(at_home).unwrap_or("/");
        let environment = environment(server, options, home)?;
        let program = Program::new(&python, &arguments, environment, directory, owner)?;
        let program = program.with_runtime(Runtime::Python);
        Some(Class {
            name: match self.interface {
                Interface::Fork => format!("python-fork {file}"),
                // Two scripts in one process would end each other's processes when one of them changes.
                Interface::Wsgi | Interface::Asgi => format!("{mode} {}|{} {file}", self.process_group, self.pool),
            },
            module: "wsgi".into(),
            host: host.name.clone(),
            protocol: Head::Runtime(RuntimeCall::default()).protocol(),
            concurrency: match (self.interface, threads) {
                (Interface::Wsgi, 1) => Concurrency::One,
                (Interface::Wsgi | Interface::Fork, threads) => Concurrency::Many(threads),
                (Interface::Asgi, _) => Concurrency::Many(LOOP_MAX),
            },
            program,
            settings: self.settings(daemon),
        })
    }

    /// How many processes there are, and how long they live.
    fn settings(&self, daemon: Option<&DaemonProcess>) -> PoolSettings {
        let idle = PoolSettings { idle: Some(IDLE), wait: WAIT, ..PoolSettings::default() };
        match daemon {
            // What an event loop keeps in memory, such as who is in a room, all requests are to see.
            None if self.interface == Interface::Asgi => PoolSettings { max: 1, graceful: Some(GRACEFUL), ..idle },
            None if self.interface == Interface::Fork => PoolSettings { max: 1, ..idle },
            None => PoolSettings { max: (2 * sys::affinity::processors() as u64).max(EMBEDDED), ..idle },
            Some(daemon) => PoolSettings {
                max: daemon.processes.unwrap_or(1),
                // Those that end for want of requests would start again at once.
                min: if daemon.inactivity.is_some() { 0 } else { daemon.processes.unwrap_or(1) },
                idle: daemon.inactivity,
                lifetime: daemon.restart,
                requests: daemon.requests,
                graceful: Some(daemon.graceful),
                // A WebSocket may last for days, and the process serves others meanwhile.
                busy: daemon.request.filter(|_| self.interface != Interface::Asgi),
                memory: daemon.memory,
                wait: daemon.queue.unwrap_or(WAIT),
                queue: u64::MAX,
                ..idle
            },
        }
    }
}

/// The environment of processes, whose user has this home directory.
fn environment(server: &WsgiServer, options: &DaemonProcess, home: Option<&str>) -> Option<Environment> {
    let mut environment = Environment::default();
    environment.add(b"PATH", &to_bytes(&gateway::env::path())).then_some(())?;
    let own = server.environment().into_iter().chain(options.environment.iter().cloned()).collect::<Vec<_>>();
    for name in INHERITED.iter().filter(|name| own.iter().all(|(own, _)| own != *name)) {
        if let Some(value) = std::env::var_os(name) {
            environment.add(name.as_bytes(), value.as_bytes()).then_some(())?;
        }
    }
    let home = home.map(|home| ("HOME", home.to_string()));
    for (name, value) in home.into_iter().chain(own) {
        environment.add(name.as_bytes(), &to_bytes(&value)).then_some(())?;
    }
    Some(environment)
}

/// The name of a group, with the variables that mod_wsgi knows.
fn named(request: &Request, name: &str) -> String {
    let Some(variable) = name.strip_prefix("%{").and_then(|rest| rest.strip_suffix('}')) else {
        return name.to_string();
    };
    let with_port = |host: &str| match request.server_port() {
        80 | 443 => host.to_string(),
        port => format!("{host}:{port}"),
    };
    let server = || with_port(&request.vhost.name);
    match variable {
        "GLOBAL" => String::new(),
        "RESOURCE" => format!("{}|{}", server(), mount_point(request)),
        "SERVER" => server(),
        "HOST" => with_port(request.data.hostname.as_deref().unwrap_or_default()),
        _ => match variable.strip_prefix("ENV:").and_then(|name| request.notes.get(name).or(request.env.get(name))) {
            // As in mod_wsgi, once: a variable that names a variable would have no end.
            Some(value) if !value.starts_with("%{ENV:") => named(request, value),
            Some(value) => value.to_string(),
            None => name.to_string(),
        },
    }
}

/// The name of an application group without what a client chooses: its host, its port, or a path that a pattern matches.
fn configured(request: &Request, name: &str) -> String {
    match name {
        RESOURCE => request.notes.get(MOUNT).unwrap_or_default().to_string(),
        "%{HOST}" | "%{SERVER}" => format!("{}:{}", request.vhost.name, request.local().port()),
        _ => named(request, name),
    }
}

/// The path of the script, without what follows it.
fn mount_point(request: &Request) -> &str {
    request.data.uri.strip_suffix(request.mapped.path_info.as_str()).unwrap_or(&request.data.uri)
}
