//! The settings of mod_wsgi, and what its parts know of each other.

use std::time::Duration;

use conf::{Level, Listed, Setting, settings};
use gateway::owners::Owner;
use gateway::{StderrMessages, TimeoutMessage};
use server::Request;
use sys::cred::user_by_id;

use crate::derived::Derived;
use crate::mappers::mod_alias::list::List;

/// The handler of scripts in mod_wsgi.
pub(super) const HANDLER: &str = "wsgi-script";
/// The handlers of scripts, and how they run them. mod_wsgi has only the first.
pub(super) const HANDLERS: [(&str, Interface); 3] =
    [(HANDLER, Interface::Wsgi), ("python-fork", Interface::Fork), ("asgi-script", Interface::Asgi)];

/// How a script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interface {
    /// By PEP 3333, in a process that has loaded it.
    Wsgi,
    /// By PEP 3333, in a copy of a process that has loaded it.
    Fork,
    /// By ASGI 3, in the event loop of a process.
    Asgi,
}

impl Interface {
    /// The one of a request's handler.
    pub(super) fn of(request: &Request) -> Option<Interface> {
        let handler = request.handler_name()?;
        HANDLERS.iter().find(|(name, _)| *name == handler).map(|(_, interface)| *interface)
    }

    /// The mode of the runtime.
    pub(super) fn mode(self) -> &'static str {
        match self {
            Interface::Wsgi => "wsgi",
            Interface::Fork => "fork",
            Interface::Asgi => "asgi",
        }
    }
}

/// The names of notes, as in mod_wsgi: what an alias says of the group of its script.
pub(super) const PROCESS_GROUP: &str = "mod_wsgi.process_group";
pub(super) const APPLICATION_GROUP: &str = "mod_wsgi.application_group";
pub(super) const CALLABLE_OBJECT: &str = "mod_wsgi.callable_object";
/// The note with the path of the alias, as the configuration writes it.
pub(super) const MOUNT: &str = "mod_wsgi.mount";
/// As in mod_wsgi.
pub(super) const GRACEFUL: Duration = Duration::from_secs(15);
pub(super) const CALLABLE: &str = "application";
pub(super) const NO_BYTECODE: bool = false;
pub(super) const RESTRICTED: bool = false;
pub(super) const PASS_AUTHORIZATION: bool = false;
pub(super) const RELOADING: bool = true;
pub(super) const CHUNKED: bool = false;
pub(super) const ERROR_OVERRIDE: bool = false;
pub(super) const SENDFILE: bool = false;

pub(super) static TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |request, _| {
        format!("Timeout when reading response headers from daemon process: {}", request.mapped.filename)
    },
    level: Level::Error,
};

pub(super) const STDERR: StderrMessages =
    StderrMessages { text: |_, line| line.to_string(), level: |_| Some(Level::Error) };

/// Whether applications see HEAD as GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapHead {
    On,
    Off,
}

pub(super) const MAP_HEAD: MapHead = MapHead::Off;

settings! {
    /// The module's settings of a server.
    pub struct WsgiServer {
        pub(super) aliases: List<ScriptAlias>,
        pub(super) groups: conf::Keyed<String, DaemonProcess>,
        pub(super) python_home: Setting<String>,
        pub(super) python_path: Setting<String>,
        pub(super) eggs: Setting<String>,
        pub(super) optimize: Setting<u8>,
        pub(super) seed: Setting<String>,
        pub(super) warnings: Listed<String>,
        pub(super) imports: Listed<Import>,
        pub(super) no_bytecode: Setting<bool> = NO_BYTECODE,
        pub(super) restricted: Setting<bool> = RESTRICTED,
        /// Only root can start processes as others.
        pub(super) account: Derived<Option<ServerAccount>>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct WsgiDir {
        pub(super) process_group: Setting<String>,
        pub(super) application_group: Setting<String>,
        pub(super) callable: Setting<String>,
        /// The groups that may be chosen; unset: any.
        pub(super) allowed: Setting<Vec<String>>,
        pub(super) pass_authorization: Setting<bool> = PASS_AUTHORIZATION,
        pub(super) reloading: Setting<bool> = RELOADING,
        pub(super) chunked: Setting<bool> = CHUNKED,
        pub(super) sendfile: Setting<bool> = SENDFILE,
        pub(super) error_override: Setting<bool> = ERROR_OVERRIDE,
        pub(super) map_head: Setting<MapHead> = MAP_HEAD,
    }
}

impl WsgiServer {
    /// The switches of python's command line.
    pub(super) fn switches(&self) -> Vec<String> {
        let mut switches = Vec::new();
        if self.no_bytecode() {
            switches.push("-B".into());
        }
        match self.optimize.get() {
            Some(1) => switches.push("-O".into()),
            Some(2) => switches.push("-OO".into()),
            _ => {}
        }
        self.warnings.iter().for_each(|warning| switches.push(format!("-W{warning}")));
        switches
    }

    /// Variables that python reads.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let variables = [("PYTHONHASHSEED", &self.seed), ("PYTHON_EGG_CACHE", &self.eggs)];
        variables.into_iter().filter_map(|(name, value)| Some((name, value.get()?.clone()))).collect()
    }
}

/// A script, and what the alias says of it.
#[derive(Clone, Debug)]
pub(super) struct ScriptAlias {
    /// The file, or the text that makes one of a pattern's groups.
    pub(super) file: String,
    /// Notes for the request.
    pub(super) notes: Vec<(&'static str, String)>,
}

/// A script, and the processes that load it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) file: String,
    pub(super) process_group: String,
    pub(super) application_group: String,
}

impl Import {
    /// Whether the processes of these groups load it.
    pub(super) fn concerns(&self, process_group: &str, application_group: &str) -> bool {
        self.process_group == process_group && self.application_group == application_group
    }
}

/// The processes of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DaemonProcess {
    /// How many processes; `None`: one, and applications are told that they are alone.
    pub(super) processes: Option<u64>,
    /// How many requests a process serves at once.
    pub(super) threads: u64,
    /// The number of requests after which a process is replaced.
    pub(super) requests: Option<u64>,
    /// How long a process may be without a request.
    pub(super) inactivity: Option<Duration>,
    /// How long a request may take.
    pub(super) request: Option<Duration>,
    /// How long a process lives.
    pub(super) restart: Option<Duration>,
    /// How long the requests of a process with threads may go on once it is to end.
    pub(super) graceful: Duration,
    /// How long a request waits for a process.
    pub(super) queue: Option<Duration>,
    /// How long a process may be silent.
    pub(super) socket: Option<Duration>,
    /// The limit of a process's memory, in bytes.
    pub(super) memory: Option<u64>,
    /// The working directory.
    pub(super) home: Option<String>,
    /// The prefix of Python's installation, such as a virtual environment.
    pub(super) python_home: Option<String>,
    /// Further arguments of the runtime, `NAME=VALUE`.
    pub(super) arguments: Vec<String>,
    /// Variables of the processes' environment.
    pub(super) environment: Vec<(&'static str, String)>,
    /// Its user, and the number of its group, if it names any.
    pub(super) user: Option<Account>,
    pub(super) group: Option<u32>,
}

/// The user of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    /// The home directory; `None`: the system does not know the user.
    pub(super) home: Option<String>,
}

impl Account {
    /// The user with this number.
    pub(super) fn of(uid: u32) -> Account {
        Account { uid, home: user_by_id(uid).ok().flatten().map(|user| user.home) }
    }
}

/// Whom processes run as that name no user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAccount {
    pub(super) account: Account,
    pub(super) gid: u32,
}

impl DaemonProcess {
    /// The user and group of the processes, if they are not the server's.
    pub(super) fn owner(&self, server: &ServerAccount) -> Option<Owner> {
        let uid = self.user.as_ref().map_or(server.account.uid, |user| user.uid);
        let owner = (uid, self.group.unwrap_or(server.gid));
        (owner != (server.account.uid, server.gid)).then_some(owner)
    }

    /// The home directory of their user, if that is known.
    pub(super) fn home_of_user<'a>(&'a self, server: &'a ServerAccount) -> Option<&'a str> {
        self.user.as_ref().unwrap_or(&server.account).home.as_deref()
    }
}

impl Default for DaemonProcess {
    fn default() -> DaemonProcess {
        DaemonProcess {
            processes: None,
            threads: 15,
            requests: None,
            inactivity: None,
            request: None,
            restart: None,
            graceful: GRACEFUL,
            queue: None,
            socket: None,
            memory: None,
            home: None,
            python_home: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            user: None,
            group: None,
        }
    }
}
