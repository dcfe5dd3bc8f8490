//! A module that runs scripts, as the gateway sees it.

use std::time::Duration;

use conf::Level;
use server::Request;

use crate::gate::Rules;
use crate::script_log::ScriptLog;

/// What a module says of its scripts in the error log: each of Apache's has words of its own.
#[derive(Debug)]
pub struct Words {
    /// Of a script that did nothing for so long.
    pub timed_out: fn(&Request, Duration) -> String,
    /// How bad that is.
    pub timeout_level: Level,
}

/// Those of mod_cgi and mod_cgid.
pub static CGI: Words = Words {
    timed_out: |request, _| format!("AH01220: Timeout waiting for output from CGI script {}", request.mapped.filename),
    timeout_level: Level::Warn,
};

/// A module that runs scripts, and how.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its name in log lines.
    pub module: &'static str,
    /// Its words.
    pub words: &'static Words,
    /// How long a script may do nothing.
    pub timeout: Duration,
    /// The script speaks to the client itself: its output is the whole answer.
    pub nph: bool,
    /// `ScriptLog`
    pub log: Option<ScriptLog>,
    /// Whether the access log is to say what the script has cost: then its answer ends with its process.
    pub accounts: bool,
}

/// How scripts are started that have a process to themselves.
#[derive(Clone, Copy, Debug)]
pub struct Cgi {
    /// How they are let in.
    pub rules: Rules,
    /// Whether daemons start them; those that run as their owners they start in any case.
    pub daemons: bool,
}
