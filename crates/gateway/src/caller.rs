//! A module that runs scripts, as the gateway sees it.

use std::time::Duration;

use crate::gate::Rules;
use crate::script_log::ScriptLog;

/// A module that runs scripts, and how.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its name in log lines.
    pub module: &'static str,
    /// How long a script may do nothing.
    pub timeout: Duration,
    /// The script speaks to the client itself: its output is the whole answer.
    pub nph: bool,
    /// `ScriptLog`
    pub log: Option<ScriptLog>,
    /// How scripts are let in.
    pub rules: Rules,
    /// Whether daemons start its scripts; those that run as their owners they start in any case.
    pub daemons: bool,
    /// Whether the access log is to say what the script has cost: then its answer ends with its process.
    pub accounts: bool,
}
