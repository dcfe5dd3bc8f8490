//! `WSGIDaemonProcess`: a group of processes, and their options.

use std::time::Duration;

use conf::error::Phase;
use conf::{Cmd, Context, Error, Outcome, Refusal};
use gateway::daemon::OwnedProgram;
use server::settings::user::identity;
use server::{Draft, Server, VirtualHost};
use sys::cred::Identity;

use super::pool::Application;
use super::settings::{Account, DaemonProcess, Interface, ServerAccount, WsgiServer};
use crate::derived::Derived;

/// What an option does with its value. `Err`: the value is none; mod_wsgi's word for what it should have been.
type SetOption = fn(&mut DaemonProcess, &Cmd<'_>, &str) -> Result<(), String>;

/// Each option and its meaning. Those that only tune how mod_wsgi's processes talk to each other mean nothing here.
const OPTIONS: &[(&str, SetOption)] = &[
    ("processes", |daemon, _, value| set(&mut daemon.processes, positive(value), "process count")),
    ("threads", |daemon, _, value| positive(value).map(|number| daemon.threads = number).ok_or("thread count".into())),
    ("maximum-requests", |daemon, _, value| set_optional(&mut daemon.requests, number(value), "request count")),
    ("inactivity-timeout", |daemon, _, value| set_optional(&mut daemon.inactivity, time(value), "inactivity timeout")),
    ("request-timeout", |daemon, _, value| set_optional(&mut daemon.request, time(value), "request timeout")),
    ("graceful-timeout", |daemon, _, value| {
        time(value).map(|time| daemon.graceful = time).ok_or("graceful timeout".into())
    }),
    ("restart-interval", |daemon, _, value| set_optional(&mut daemon.restart, time(value), "restart interval")),
    ("queue-timeout", |daemon, _, value| set_optional(&mut daemon.queue, time(value), "queue timeout")),
    ("socket-timeout", |daemon, _, value| set_optional(&mut daemon.socket, time(value), "socket timeout")),
    ("response-socket-timeout", |daemon, _, value| {
        set_optional(&mut daemon.socket, time(value), "response socket timeout")
    }),
    ("memory-limit", |daemon, _, value| set_optional(&mut daemon.memory, number(value), "memory limit")),
    ("virtual-memory-limit", |daemon, _, value| {
        set_optional(&mut daemon.memory, number(value), "virtual memory limit")
    }),
    ("home", |daemon, _, value| absolute(value).map(|path| daemon.home = Some(path)).ok_or("home directory".into())),
    ("python-home", |daemon, cmd, value| {
        let python = format!("{value}/bin/python3");
        cmd.context
            .system
            .file_kind(&python)
            .map_err(|error| format!("Python home, {python}: {}", sys::describe(&error)))?;
        daemon.python_home = Some(value.to_string());
        Ok(())
    }),
    ("python-path", |daemon, _, value| argument(daemon, "python-path", value)),
    ("umask", |daemon, _, value| {
        u32::from_str_radix(value, 8).map_err(|_| "umask")?;
        argument(daemon, "umask", value)
    }),
    ("display-name", |daemon, _, value| argument(daemon, "display-name", value)),
    ("stack-size", |daemon, _, value| {
        number(value).ok_or("stack size")?;
        argument(daemon, "stack-size", value)
    }),
    ("lang", |daemon, _, value| variable(daemon, "LANG", value)),
    ("locale", |daemon, _, value| variable(daemon, "LC_ALL", value)),
    ("python-eggs", |daemon, _, value| variable(daemon, "PYTHON_EGG_CACHE", value)),
    ("user", |daemon, cmd, value| {
        let uid = by_number(value).or_else(|| cmd.context.system.user(value).map(|(uid, _)| uid));
        set(&mut daemon.user, uid.map(Account::of), "user")
    }),
    ("group", |daemon, cmd, value| {
        set(&mut daemon.group, by_number(value).or_else(|| cmd.context.system.group(value)), "group")
    }),
];

/// Options that have no effect here, for these reasons.
const WITHOUT_EFFECT: &[&str] = &[
    // The process manager notices a dead process at once, and gives all backends the same time to end.
    "deadlock-timeout",
    "eviction-timeout",
    "shutdown-timeout",
    "startup-timeout",
    // Requests wait in the server, as long as queue-timeout lets them; one more than mod_wsgi's socket takes would wait, too.
    "listen-backlog",
    // Sockets and buffers between the server and its processes are of fixed size.
    "connect-timeout",
    "send-buffer-size",
    "receive-buffer-size",
    "header-buffer-size",
    "response-buffer-size",
    "proxy-buffer-size",
    // Nothing shows these.
    "server-metrics",
    "blocked-requests",
];

fn positive(value: &str) -> Option<u64> {
    number(value).filter(|number| *number > 0)
}

fn number(value: &str) -> Option<u64> {
    value.parse().ok()
}

fn time(value: &str) -> Option<Duration> {
    number(value).map(Duration::from_secs)
}

fn absolute(value: &str) -> Option<String> {
    value.starts_with('/').then(|| value.to_string())
}

fn set<T>(field: &mut Option<T>, value: Option<T>, what: &str) -> Result<(), String> {
    *field = Some(value.ok_or(what)?);
    Ok(())
}

/// Sets a number of which 0 means none.
fn set_optional<T: Default + PartialEq>(field: &mut Option<T>, value: Option<T>, what: &str) -> Result<(), String> {
    *field = Some(value.ok_or(what)?).filter(|value| *value != T::default());
    Ok(())
}

fn argument(daemon: &mut DaemonProcess, name: &str, value: &str) -> Result<(), String> {
    daemon.arguments.push(format!("{name}={value}"));
    Ok(())
}

fn variable(daemon: &mut DaemonProcess, name: &'static str, value: &str) -> Result<(), String> {
    daemon.environment.push((name, value.to_string()));
    Ok(())
}

/// The number in `#number`.
fn by_number(value: &str) -> Option<u32> {
    value.strip_prefix('#')?.parse().ok()
}

/// Finds out which processes run as others than the server. Root's rights are for none of them.
pub(super) fn check(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    for server in draft.servers() {
        let groups = &server.get::<WsgiServer>().groups;
        for (name, daemon) in groups.iter() {
            let (Some(user), Some(origin)) = (&daemon.user, groups.origin(name)) else { continue };
            let refusal = match user {
                Account { uid: 0, .. } => "WSGI process blocked from running as root.",
                Account { home: None, .. } => "Couldn't determine user name from uid.",
                Account { home: Some(_), .. } => continue,
            };
            return Err(Error::at(Phase::Apply, origin, refusal));
        }
    }
    // The server itself says what is wrong with its user.
    if let (true, Ok((user, group))) = (sys::cred::is_root(), identity(&draft.main, &*context.system)) {
        let account = Some(ServerAccount { account: Account::of(user.id), gid: group.id });
        draft.hosts.iter_mut().for_each(|host| host.server.edit::<WsgiServer>().account = Derived(account.clone()));
        draft.main.edit::<WsgiServer>().account = Derived(account);
    }
    Ok(())
}

/// The programs of processes that run as others than the server, and whom they run as: what the process manager starts
/// as nobody else asks it to.
pub(in crate::generators) fn owned(server: &Server) -> Vec<OwnedProgram> {
    let of_host = |host: &VirtualHost| -> Vec<OwnedProgram> {
        let conf = host.settings.get::<WsgiServer>();
        let program = |(group, daemon): (&String, &DaemonProcess), interface| {
            let (uid, gid) = daemon.owner(conf.account.0.as_ref()?)?;
            let class = Application::of_group(group, interface).class_of(host, "", Some(daemon))?;
            let user = sys::cred::user_by_id(uid).ok().flatten()?;
            Some(class.program.owned_by(Identity::new(&user, gid)))
        };
        let of_interface = |interface| conf.groups.iter().filter_map(move |group| program(group, interface));
        [Interface::Wsgi, Interface::Asgi].into_iter().flat_map(of_interface).collect()
    };
    server.hosts.iter().flat_map(of_host).collect()
}

/// Adds a group of processes.
pub(super) fn add(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let Some((name, options)) = words.split_first().filter(|(name, _)| !name.is_empty()) else {
        return Err("Name of WSGI daemon process not supplied.".into());
    };
    let mut daemon = DaemonProcess::default();
    for (at, option) in options.iter().enumerate() {
        let refused = |text: String| Refusal::argument(at + 2, text);
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| refused(format!("Invalid option to WSGI daemon process definition: {option}")))?;
        match OPTIONS.iter().find(|(known, _)| *known == key) {
            Some((_, set)) => set(&mut daemon, cmd, value)
                .map_err(|what| refused(format!("Invalid {what} for WSGI daemon process.")))?,
            None if WITHOUT_EFFECT.contains(&key) => {}
            None => return Err(refused(format!("Invalid option to WSGI daemon process definition: {key}"))),
        }
    }
    if let Some(shown) = daemon.arguments.iter_mut().find(|argument| *argument == "display-name=%{GROUP}") {
        *shown = format!("display-name=(wsgi:{name})");
    }
    if cmd.server.get::<WsgiServer>().groups.get(name).is_some() {
        return Err("Name duplicates previous WSGI daemon definition.".into());
    }
    cmd.server_put(|s: &mut WsgiServer| &mut s.groups, name.clone(), daemon)
}
