//! The class of a backend: which program it is, how it is talked to, and how many of it there may be.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::text::to_bytes;
use server::core::CoreDir;

use super::{perl_bundle, python_bundle, ruby_bundle};
use crate::command::Command;
use crate::daemon::OwnedProgram;
use crate::environment::Environment;
use crate::protocol::Protocol;

/// The identity of a backend: backends of one class are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name in logs and on pages: the handler and the program or script, such as `fcgid /srv/app.fcgi`.
    pub name: String,
    /// The module named in log lines.
    pub module: String,
    /// The virtual host that it serves.
    pub host: String,
    /// The protocol it speaks.
    pub protocol: Protocol,
    /// How many requests a backend serves at once.
    pub concurrency: Concurrency,
    /// The program to start.
    pub program: Program,
    /// How many backends there are, and how long they live.
    pub settings: PoolSettings,
}

/// A class as requests need it. Whoever has many requests for a class encodes it once.
#[derive(Clone, Debug)]
pub struct EncodedClass {
    pub(super) class: Arc<Class>,
    /// The class as the process manager knows it.
    pub(super) bytes: Arc<[u8]>,
    /// The version of the program's file at the last look.
    pub(super) version: Version,
}

impl EncodedClass {
    /// Binds it to the current version of this file, as [`Program::of_file`] does.
    #[must_use]
    pub fn of_file(&self, meta: &sys::file::Meta) -> EncodedClass {
        EncodedClass { version: version_of(meta), ..self.clone() }
    }
}

impl Class {
    /// The class for requests.
    pub fn encoded(self) -> EncodedClass {
        EncodedClass { bytes: self.encode().into(), version: self.program.version, class: Arc::new(self) }
    }
}

/// How many requests a backend serves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// One, on a connection that stays open.
    One,
    /// At most this many, each on a connection of its own: it makes a process for each of them.
    Many(u64),
}

/// A program that is started with a listening socket as its standard input, as FastCGI requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub(crate) command: Command,
    /// A text it gets in addition.
    pub(crate) runtime: Option<Runtime>,
    /// The version of its file at the last look.
    pub(crate) version: Version,
}

/// The version of a file: device, number, and time of the last change; or nothing. A change ends the life of the
/// backends started before.
pub(crate) type Version = [u64; 3];

fn version_of(meta: &sys::file::Meta) -> Version {
    // Times before 1970 need no distinction.
    [meta.dev, meta.ino, u64::try_from(meta.mtime).unwrap_or_default()]
}

/// A text that a program gets from the server, such as the runtime it runs: descriptor 3 of each of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// The runtime of Perl.
    Perl,
    /// The runtime of Python.
    Python,
    /// The runtime of Ruby.
    Ruby,
    /// This text, which only its own processes and their user can read.
    Text(String),
}

impl Runtime {
    /// The argument that names the text.
    pub const PATH: &str = "/proc/self/fd/3";

    /// Its text, as an immutable file.
    pub(super) fn text(&self) -> std::io::Result<Arc<OwnedFd>> {
        static PERL: OnceLock<Arc<OwnedFd>> = OnceLock::new();
        static PYTHON: OnceLock<Arc<OwnedFd>> = OnceLock::new();
        static RUBY: OnceLock<Arc<OwnedFd>> = OnceLock::new();
        let file = |text: &str| sys::memory::file(c"runtime", &to_bytes(text)).map(Arc::new);
        let (made, bundle): (_, fn() -> String) = match self {
            Runtime::Text(text) => return file(text),
            Runtime::Perl => (&PERL, perl_bundle::bundle),
            Runtime::Python => (&PYTHON, python_bundle::bundle),
            Runtime::Ruby => (&RUBY, ruby_bundle::bundle),
        };
        if let Some(known) = made.get() {
            return Ok(known.clone());
        }
        let text = file(&bundle())?;
        Ok(made.get_or_init(|| text).clone())
    }
}

impl Program {
    /// A program with its arguments and environment, which works in `directory` and runs as `owner`, if
    /// that is not the server's user. `None`: no file can have such a name.
    pub fn new(
        path: &str,
        arguments: &[String],
        environment: Environment,
        directory: &str,
        owner: Option<crate::owners::Owner>,
    ) -> Option<Program> {
        let text = |text: &String| CString::new(http::text::to_bytes(text).into_owned()).ok();
        let command = Command {
            program: server::paths::c_path(path)?,
            directory: server::paths::c_path(directory).filter(|directory| !directory.is_empty()),
            arguments: arguments.iter().map(text).collect::<Option<_>>()?,
            environment,
            limits: Vec::new(),
            nicer: 0,
            owner,
        };
        Some(Program { command, runtime: None, version: Version::default() })
    }

    /// Adds the text of a runtime.
    #[must_use]
    pub fn with_runtime(self, runtime: Runtime) -> Program {
        Program { runtime: Some(runtime), ..self }
    }

    /// Binds it to the current version of this file: once that has changed, new backends replace the old ones.
    #[must_use]
    pub fn of_file(mut self, meta: &sys::file::Meta) -> Program {
        self.version = version_of(meta);
        self
    }

    /// Applies the limits that the configuration of a request sets for scripts (`RLimitCPU` and others).
    #[must_use]
    pub fn limited_for(mut self, request: &server::Request) -> Program {
        self.command.limits = crate::command::limits(request.dir::<CoreDir>());
        self
    }

    /// Applies the limits of the main server outside of all sections.
    #[must_use]
    pub fn limited_by(mut self, server: &server::Server) -> Program {
        self.command.limits = crate::command::limits(server.main().base.slots.get::<CoreDir>());
        self
    }

    /// The program as one that the configuration names, whose owner has this identity.
    pub fn owned_by(self, identity: sys::cred::Identity) -> OwnedProgram {
        OwnedProgram::new(self.command, identity)
    }

    /// Makes it nicer (nice(2)), so that others go first.
    #[must_use]
    pub fn nicer(mut self, by: u8) -> Program {
        self.command.nicer = by;
        self
    }
}

/// How many backends a pool has, and how long it keeps each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// How many backends the class may have.
    pub max: u64,
    /// How many are started without any request.
    pub min: u64,
    /// How many idle ones are kept, if that is more than `min`.
    pub keep: u64,
    /// The most backends of all classes with this setting together.
    pub max_of_all: u64,
    /// How long an idle one is kept.
    pub idle: Option<Duration>,
    /// How long one lives.
    pub lifetime: Option<Duration>,
    /// How many requests one serves.
    pub requests: Option<u64>,
    /// How long a request may take, from the moment it gets a backend to the end of its response.
    pub busy: Option<Duration>,
    /// How long the requests of a backend that serves several may go on once it is to end. `None`: until their end.
    pub graceful: Option<Duration>,
    /// The memory limit of a backend, in bytes, give or take a tenth, so that not all end at once.
    pub memory: Option<u64>,
    /// The limit on how fast they are started.
    pub score: Option<Score>,
    /// How long a request waits for a backend.
    pub wait: Duration,
    /// How many requests may wait.
    pub queue: u64,
}

/// A score that grows when backends start and end and falls with time: at its limit, no backend starts (Apache manual:
/// mod_fcgid, `FcgidSpawnScore`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// What a start adds.
    pub start: u64,
    /// What an end adds.
    pub end: u64,
    /// What a second takes away.
    pub second: u64,
    /// The score at which no backend starts.
    pub limit: u64,
}

impl Default for PoolSettings {
    fn default() -> PoolSettings {
        PoolSettings {
            max: 4,
            min: 0,
            keep: 0,
            max_of_all: u64::MAX,
            idle: Some(Duration::from_secs(300)),
            lifetime: None,
            requests: None,
            busy: None,
            graceful: None,
            memory: None,
            score: None,
            wait: Duration::from_secs(60),
            queue: 1024,
        }
    }
}
