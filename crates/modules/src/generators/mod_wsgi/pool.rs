//! The processes that answer a request, and what they get to know about its application.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use gateway::Environment;
use gateway::backend::{Class, Concurrency, Head, PoolSettings, Program, Runtime, RuntimeCall};
use http::text::to_bytes;
use server::Request;

use super::alias::{APPLICATION_GROUP, CALLABLE, PROCESS_GROUP};
use super::daemon::DaemonProcess;
use super::{MapHead, WsgiDir, WsgiServer};

/// The system's python.
const PYTHON: &str = "/usr/bin/python3";
/// The part of the server's own environment that processes inherit.
const INHERITED: [&str; 4] = ["LANG", "LC_ALL", "TZ", "PYTHONPATH"];
/// How long a process without a group is kept while no request needs it.
const IDLE: Duration = Duration::from_secs(600);
/// There are at least this many processes for each application without a group, if requests need them.
const EMBEDDED: u64 = 5;
/// How many requests for one script `python-fork` serves at once, for each processor.
const COPIES: u64 = 4;
/// How long a request waits for a process of a group without `queue-timeout`.
const WAIT: Duration = Duration::from_secs(60);

/// A request's application: its script, and the processes that hold it.
pub(super) struct Application {
    /// Empty: no group of `WSGIDaemonProcess`.
    pub(super) process_group: String,
    pub(super) application_group: String,
    callable: String,
    /// Each request runs in a copy of one process that has loaded the script.
    forks: bool,
}

impl Application {
    pub(super) fn of(request: &Request) -> Application {
        let dir = request.dir::<WsgiDir>();
        let noted = |note: &str| request.notes.get(note).map(str::to_string);
        let process_group = noted(PROCESS_GROUP).or_else(|| dir.process_group.get().cloned()).unwrap_or_default();
        let application_group = noted(APPLICATION_GROUP).or_else(|| dir.application_group.get().cloned());
        let forks = request.handler_name() == Some(super::FORK);
        Application {
            process_group: if forks { String::new() } else { named(request, &process_group) },
            application_group: named(request, application_group.as_deref().unwrap_or("%{RESOURCE}")),
            forks,
            callable: noted(CALLABLE).or_else(|| dir.callable.get().cloned()).unwrap_or_else(|| super::CALLABLE.into()),
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
    pub(super) fn call(&self, request: &Request, daemon: Option<&DaemonProcess>) -> RuntimeCall {
        let dir = request.dir::<WsgiDir>();
        let flag = |on: bool| if on { "1" } else { "0" };
        let mut call = RuntimeCall::default();
        call.add("handler", "wsgi");
        call.add("file", &request.mapped.filename);
        call.add("callable", &self.callable);
        call.add("process_group", &self.process_group);
        call.add("application_group", &self.application_group);
        call.add("processes", if daemon.is_some_and(|daemon| daemon.processes.is_none()) { "1" } else { "" });
        call.add("reloading", flag(dir.reloading()));
        call.add("sendfile", flag(dir.sendfile()));
        call.add("head", if dir.map_head() == MapHead::On { "get" } else { "" });
        call
    }

    /// The class of its processes. `None`: no file can have such a name.
    pub(super) fn class(&self, request: &Request, daemon: Option<&DaemonProcess>) -> Option<Class> {
        let server = request.host::<WsgiServer>();
        let default = DaemonProcess { threads: 1, ..DaemonProcess::default() };
        let options = daemon.unwrap_or(&default);
        let home = options.python_home.as_ref().or(server.python_home.get());
        let python = home.map_or_else(|| PYTHON.to_string(), |home| format!("{home}/bin/python3"));
        let mut arguments = server.switches();
        let mode = if self.forks { "fork" } else { "wsgi" };
        arguments.extend([Runtime::PATH.to_string(), mode.to_string(), format!("threads={}", options.threads)]);
        if self.forks {
            arguments.extend([format!("preload={}", request.mapped.filename), format!("callable={}", self.callable)]);
        }
        arguments.extend(options.arguments.iter().cloned());
        if let Some(path) = server.python_path.get() {
            arguments.push(format!("python-path={path}"));
        }
        let directory = options.home.as_deref().unwrap_or("/");
        let program = Program::new(&python, &arguments, environment(server, options)?, directory, None)?;
        let program = program.with_runtime(Runtime::Python).limited_for(request);
        // A changed script ends the processes that have run the old one.
        let reloads = request.dir::<WsgiDir>().reloading();
        let program = match request.mapped.stat.filter(|_| reloads) {
            Some(meta) => program.of_file(&meta),
            None => program,
        };
        Some(Class {
            name: match self.forks {
                true => format!("{} {}", super::FORK, request.mapped.filename),
                false => format!("wsgi {}|{}", self.process_group, self.application_group),
            },
            module: "wsgi".into(),
            host: request.vhost.name.clone(),
            protocol: Head::Runtime(RuntimeCall::default()).protocol(),
            concurrency: match options.threads {
                _ if self.forks => Concurrency::Many(COPIES * sys::affinity::processors() as u64),
                1 => Concurrency::One,
                threads => Concurrency::Many(threads),
            },
            program,
            settings: self.settings(daemon),
        })
    }

    /// How many processes there are, and how long they live.
    fn settings(&self, daemon: Option<&DaemonProcess>) -> PoolSettings {
        let idle = PoolSettings { idle: Some(IDLE), wait: WAIT, ..PoolSettings::default() };
        match daemon {
            None if self.forks => PoolSettings { max: 1, ..idle },
            None => PoolSettings { max: (2 * sys::affinity::processors() as u64).max(EMBEDDED), ..idle },
            Some(daemon) => PoolSettings {
                max: daemon.processes.unwrap_or(1),
                min: daemon.processes.unwrap_or(1),
                idle: daemon.inactivity,
                lifetime: daemon.restart,
                requests: daemon.requests,
                busy: daemon.request,
                memory: daemon.memory,
                wait: daemon.queue.unwrap_or(WAIT),
                queue: daemon.backlog,
                ..idle
            },
        }
    }
}

/// The environment of processes.
fn environment(server: &WsgiServer, options: &DaemonProcess) -> Option<Environment> {
    let mut environment = Environment::default();
    environment.add(b"PATH", &to_bytes(&gateway::env::path())).then_some(())?;
    let own = server.environment().into_iter().chain(options.environment.iter().cloned()).collect::<Vec<_>>();
    for name in INHERITED.iter().filter(|name| own.iter().all(|(own, _)| own != *name)) {
        if let Some(value) = std::env::var_os(name) {
            environment.add(name.as_bytes(), value.as_bytes()).then_some(())?;
        }
    }
    for (name, value) in own {
        environment.add(name.as_bytes(), &to_bytes(&value)).then_some(())?;
    }
    Some(environment)
}

/// The name of a group, with the variables that mod_wsgi knows.
fn named(request: &Request, name: &str) -> String {
    let Some(variable) = name.strip_prefix("%{").and_then(|rest| rest.strip_suffix('}')) else {
        return name.to_string();
    };
    let host = || request.server_name().into_owned();
    let server = || match request.server_port() {
        80 | 443 => host(),
        port => format!("{}:{port}", host()),
    };
    match variable {
        "GLOBAL" => String::new(),
        "RESOURCE" => format!("{}|{}", server(), mount_point(request)),
        "SERVER" => server(),
        "HOST" => host(),
        _ => match variable.strip_prefix("ENV:") {
            Some(name) => request.env.get(name).unwrap_or_default().to_string(),
            None => name.to_string(),
        },
    }
}

/// The path of the script, without what follows it.
fn mount_point(request: &Request) -> &str {
    request.data.uri.strip_suffix(request.mapped.path_info.as_str()).unwrap_or(&request.data.uri)
}
