//! A module that runs scripts, as the gateway sees it.

use std::time::Duration;

use conf::Level;
use server::Request;

use crate::gate::Rules;
use crate::script_log::ScriptLog;

/// A module's message about a script that was idle for too long: each of Apache's modules has its own.
#[derive(Debug)]
pub struct TimeoutMessage {
    /// Its text, for a script that did nothing for this long.
    pub text: fn(&Request, Duration) -> String,
    /// The level at which it is logged.
    pub level: Level,
}

/// The one of mod_cgi and mod_cgid.
pub static CGI_TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |request, _| format!("AH01220: Timeout waiting for output from CGI script {}", request.mapped.filename),
    level: Level::Warn,
};

/// A module that runs scripts, and its settings.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its name in log lines.
    pub module: &'static str,
    /// Its message about a script that times out.
    pub timeout_message: &'static TimeoutMessage,
    /// How long a script may do nothing.
    pub timeout: Duration,
    /// The script speaks to the client itself: its output is the whole response (non-parsed header).
    pub nph: bool,
    /// The script's fields go out as they are (mod_php). Those of other scripts are joined to one for each name.
    pub as_is: bool,
    /// The length that the script names goes out, and its body has to be of that length. Otherwise the server makes the length.
    pub trusts_length: bool,
    /// Where failed runs are recorded (`ScriptLog`).
    pub log: Option<ScriptLog>,
    /// Whether the access log records the script's cost: then the response ends with its process.
    pub accounts: bool,
    /// The protocol that the script may switch to by the status 101: one that the client has asked for.
    pub tunnel: Option<&'static str>,
}

impl Caller {
    /// A module whose scripts get no special treatment, are not accounted for, and have no log of their own.
    pub fn new(module: &'static str, timeout_message: &'static TimeoutMessage, timeout: Duration) -> Caller {
        Caller {
            module,
            timeout_message,
            timeout,
            nph: false,
            as_is: false,
            trusts_length: false,
            log: None,
            accounts: false,
            tunnel: None,
        }
    }
}

/// How to start scripts that have a process to themselves.
#[derive(Clone, Copy, Debug)]
pub struct Cgi {
    /// How the gate admits them.
    pub rules: Rules,
    /// Whether daemons start them; scripts that run as their owners are always started by daemons.
    pub daemons: bool,
}
