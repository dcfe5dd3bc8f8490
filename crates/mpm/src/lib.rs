//! Multi-processing modules: they decide which processes there are, and which of them polls a connection.
//!
//! One parent, the [supervisor], is the same for all modules: single-threaded for its whole life, it never reads a byte
//! from a client; it starts children, reaps them, follows signals, and lets the [policy] decide how many there should
//! be. Each module decides what a child does: [prefork] serves one connection at a time, [percore] many in one event
//! loop, [worker] one in each thread; in [event] the threads serve requests, and connections that only wait are
//! [parked] with the [listener]. A module is a file that implements [`Mpm`]: its table of directives, its plan (how
//! many children), and the life of a child.
//!
//! The binary takes three steps: [`choose`] one of the loaded modules, [`Listeners::open`], [`run`].

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
use runtime::Service;
use runtime::log::Log;
use runtime::scoreboard::Rows;
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
    /// Its messages in the log.
    words: Words,
    /// Turns the settings of the main server into a plan, with notices about them.
    plan: fn(&SettingsMap, When) -> (Plan, Vec<Notice>),
    /// How its numbers are calculated.
    kind: Kind,
    /// The unit that has a row of the scoreboard to itself.
    rows: Rows,
    /// Whether a request that waits for its turn holds a worker.
    waiting_holds: bool,
    /// The life of a child from its first connection to its last.
    serve: fn(Child) -> io::Result<()>,
}

/// The messages of a module, with AH numbers where Apache has the same message.
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
    /// Makes the message from the rate, the number of children started, and the counts.
    busy: fn(usize, usize, Counts) -> String,
}

/// A server made from one configuration: the first, and one after each restart.
#[derive(Clone)]
pub struct Generation {
    /// The module that runs it.
    pub mpm: Chosen,
    /// The server.
    pub service: Arc<dyn Service>,
    /// The settings of the main server.
    pub settings: SettingsMap,
    /// The user that the children become; without it they keep the parent's.
    pub identity: Option<Identity>,
    /// The log once this generation is in effect.
    pub log: Arc<dyn Log>,
}

/// The names and facts that messages mention.
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
    /// `SIGHUP` is the end of the terminal that the server belongs to, and ends the server.
    pub ends_with_terminal: bool,
    /// How to start the program again for an upgrade; without it there is no upgrade.
    pub invocation: Option<Invocation>,
    /// The server that this one replaces as soon as it serves: our parent process.
    pub predecessor: Option<Pid>,
}

/// How long a new program may take until it serves (`-k upgrade`); after that it is ended.
pub const UPGRADE_MAX: Duration = Duration::from_secs(30);

/// The way a program was started.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Its file.
    pub file: PathBuf,
    /// Its name and its arguments.
    pub arguments: Vec<OsString>,
    /// Its working directory.
    pub directory: PathBuf,
}

/// The kind of restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// `SIGHUP`: children are ended first.
    Hard,
    /// `SIGUSR1`: children finish what they serve.
    Graceful,
}

/// Optional hooks of the binary into the parent's loop.
pub trait ParentCallbacks {
    /// Loads a new configuration after a signal. An error is a message for the log and may have several lines; the old
    /// configuration then stays in effect.
    fn reload(&mut self, how: Restart) -> Result<Generation, String>;
    /// Called when the server serves for the first time: a child accepts.
    fn serving(&mut self) {}
    /// The last configuration from `reload` is now in effect.
    fn begun(&mut self) {}
    /// Talks with a client of the control socket, in a process of its own. Returns the signal to send to the parent.
    fn converse(&mut self, conversation: control::Conversation<'_>) -> Option<Signal>;
    /// Workers make no progress. Called once for each child, until it makes progress and stalls again.
    fn stalled(&mut self, _stalls: &[Stall]) {}
    /// All workers are busy, and there may be no more.
    fn limit_reached(&mut self) {}
    /// Another process of the server has ended: one that the binary or a module had started from the parent.
    fn ended(&mut self, _process: &Reaped) {}
    /// Called once a second.
    fn tick(&mut self) {}
    /// Once a second: whether log files were renamed, and are open again by their names, for new children.
    fn logs_reopened(&mut self) -> bool {
        false
    }
}

/// Runs the server until it is stopped. Before the call, `first` was checked ([`Chosen::check`]) and its messages
/// printed; the process has one thread, is a daemon if it should be one, and `first.log` is set.
pub fn run(first: Generation, listeners: Listeners, about: About, callbacks: &mut dyn ParentCallbacks) -> ExitCode {
    supervisor::run(first, listeners, about, callbacks)
}
