//! What the parent knows of the program that it runs in.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use sys::process::Pid;

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
    /// The file of the program.
    pub file: PathBuf,
    /// Its name and its arguments.
    pub arguments: Vec<OsString>,
    /// The working directory that it was started in.
    pub directory: PathBuf,
}
