//! A module that runs scripts, as the gateway sees it.

use std::time::Duration;

use conf::Level;
use server::Request;

use crate::gate::Rules;
use crate::script_log::ScriptLog;

/// A module's messages about its scripts in the error log: each of Apache's modules has its own.
#[derive(Debug)]
pub struct Words {
    /// A script that did nothing for this long.
    pub timed_out: fn(&Request, Duration) -> String,
    /// The level of that.
    pub timeout_level: Level,
}

/// The messages of mod_cgi and mod_cgid.
pub static CGI: Words = Words {
    timed_out: |request, _| format!("AH01220: Timeout waiting for output from CGI script {}", request.mapped.filename),
    timeout_level: Level::Warn,
};

/// A module that runs scripts, and its settings.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its name in log lines.
    pub module: &'static str,
    /// Its messages.
    pub words: &'static Words,
    /// How long a script may do nothing.
    pub timeout: Duration,
    /// The script speaks to the client itself: its output is the whole answer (non-parsed header).
    pub nph: bool,
    /// The script's fields go out as they are, its length included (mod_php). Those of other scripts are joined to one for
    /// each name, and the server makes the length.
    pub as_is: bool,
    /// `ScriptLog`
    pub log: Option<ScriptLog>,
    /// Whether the access log records the script's cost: then the answer ends with its process.
    pub accounts: bool,
}

/// How to start scripts that have a process to themselves.
#[derive(Clone, Copy, Debug)]
pub struct Cgi {
    /// How the gate admits them.
    pub rules: Rules,
    /// Whether daemons start them; scripts that run as their owners are always started by daemons.
    pub daemons: bool,
}
