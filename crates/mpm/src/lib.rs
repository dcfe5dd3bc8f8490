//! Multi-processing modules: which processes there are, and which of them polls a connection.
//!
//! One parent, the [supervisor], is the same for all modules: single-threaded for its whole life, it never reads a byte
//! from a client; it starts children, reaps them, follows signals, and decides by the [policy] how many there should be.
//! What a child does is the module's own: [prefork] serves one connection at a time, [percore] many in one event loop,
//! [worker] one in each thread; in [event] the threads serve requests, and connections that only wait are [parked] with the
//! [listener]. A module is a file that implements [`Mpm`]: its table of directives, its plan (how many children), and the
//! life of a child.
//!
//! The binary goes through three steps: [`choose`] a module of those that are loaded, [`Listeners::open`], [`run`].

#![forbid(unsafe_code)]

mod accept;
mod child;
mod choose;
pub mod control;
mod defaults;
mod event;
mod limits;
pub mod listen;
mod listener;
mod parked;
mod percore;
pub mod pidfile;
mod policy;
mod prefork;
mod recycle;
pub mod settings;
mod stages;
mod supervisor;
pub mod tables;
mod thread_pool;
mod worker;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conf::{ModuleInfo, Notice, SettingsMap};
use seam::Service;
use seam::log::Log;
use seam::scoreboard::Rows;
use sys::cred::Identity;
use sys::process::{Pid, Reaped};
use sys::signal::Signal;

use child::Child;
pub use choose::{Chosen, choose};
use limits::explain::Kind;
pub use limits::explain::{Asked, Explained};
pub use limits::{Fixed, Plan, Spare, When};
pub use listen::{Listeners, OpenError};
use policy::Counts;
pub use supervisor::Stall;

/// A multi-processing module, as the supervisor sees it.
pub(crate) struct Mpm {
    /// Its names and its table.
    info: &'static ModuleInfo,
    /// What it says in the log.
    words: Words,
    /// What will run with these settings of the main server, and what to say about them.
    plan: fn(&SettingsMap, When) -> (Plan, Vec<Notice>),
    /// How its numbers come about.
    kind: Kind,
    /// What has a row of the scoreboard to itself.
    rows: Rows,
    /// Whether a request that waits for its turn holds a worker.
    waiting_holds: bool,
    /// The life of a child from its first connection to its last.
    serve: fn(Child) -> io::Result<()>,
}

/// The messages of a module, with their AH numbers where it is one of Apache's.
pub(crate) struct Words {
    /// Before `SERVER configured -- resuming normal operations`.
    configured: &'static str,
    /// Before `Server built: TIME`.
    built: &'static str,
    terminated: &'static str,
    graceful_stop: &'static str,
    graceful: &'static str,
    restart: &'static str,
    cannot_fork: &'static str,
    /// No more children may be started, and no worker is idle.
    limit_reached: &'static str,
    /// No more children may be started, and fewer workers are idle than should be; `None` where that is the same.
    limit_near: Option<&'static str>,
    /// Rate, children started, counts.
    busy: fn(usize, usize, Counts) -> String,
}

/// What a configuration makes of the server: the first one, and one after each restart.
pub struct Generation {
    /// The module that runs it.
    pub mpm: Chosen,
    /// The server.
    pub service: Arc<dyn Service>,
    /// The settings of the main server.
    pub settings: SettingsMap,
    /// Who the children become; as who they are forked without.
    pub identity: Option<Identity>,
    /// Where messages go once this generation is in effect.
    pub log: Arc<dyn Log>,
}

/// What the messages name.
#[derive(Clone, Debug)]
pub struct About {
    /// The name the server was called by (`apache2`).
    pub program: String,
    /// The server's name and version as in the `Server` field with `ServerTokens Full`.
    pub server: String,
    /// When it was built.
    pub built: String,
    /// The command line, for `AH00094`.
    pub command_line: String,
    /// `-X`: no children; this process serves.
    pub one_process: bool,
    /// How the program is started again for an upgrade; without, it cannot be.
    pub invocation: Option<Invocation>,
    /// The server whose place this one takes as soon as it serves: our parent process.
    pub predecessor: Option<Pid>,
}

/// How long a new program may take until it serves (`-k upgrade`); then it is ended.
pub const UPGRADE_MAX: Duration = Duration::from_secs(30);

/// How a program was started.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Its file.
    pub file: PathBuf,
    /// Its name and its arguments.
    pub arguments: Vec<OsString>,
    /// Its working directory.
    pub directory: PathBuf,
}

/// How a restart was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// `SIGHUP`: children are ended first.
    Hard,
    /// `SIGUSR1`: children finish what they serve.
    Graceful,
}

/// What the binary does beside the module: all of it optional.
pub trait ParentCallbacks {
    /// A new configuration after a signal. An error is a message for the log, lines allowed; the old one stays in effect.
    fn reload(&mut self, how: Restart) -> Result<Generation, String>;
    /// The server serves for the first time: a child accepts.
    fn serving(&mut self) {}
    /// The configuration that `reload` gave last is in effect.
    fn begun(&mut self) {}
    /// Talks with somebody who connected to the control socket, in a process of its own. Returns the signal that the parent
    /// is to get from it.
    fn converse(&mut self, conversation: control::Conversation<'_>) -> Option<Signal>;
    /// Workers make no progress: told once of each child, until it does again.
    fn stalled(&mut self, _stalls: &[Stall]) {}
    /// All workers are busy, and there may be no more.
    fn limit_reached(&mut self) {}
    /// Another process of the server has ended: one that the binary or a module started from the parent.
    fn ended(&mut self, _process: &Reaped) {}
    /// Once a second.
    fn tick(&mut self) {}
}

/// Runs the server until it is stopped. `first` was checked ([`Chosen::check`]) and its messages were printed; the process
/// has one thread, has become a daemon if it is to be one, and `first.log` is set.
pub fn run(first: Generation, listeners: Listeners, about: About, callbacks: &mut dyn ParentCallbacks) -> ExitCode {
    supervisor::run(first, listeners, about, callbacks)
}
