//! A module that runs scripts, as the gateway sees it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::command::Owner;
use crate::daemon::RunAs;
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
    /// Who starts scripts.
    pub starter: Starter,
    /// Whether the access log is to say what the script has cost: then its answer ends with its process.
    pub accounts: bool,
}

/// Who starts a script.
#[derive(Clone, Debug)]
pub enum Starter {
    /// The process that serves the request.
    Own,
    /// One of the daemons that are asked there.
    Daemon {
        /// The path of their socket.
        address: Arc<Path>,
        /// Who the script is to run as, where that is not the server's user.
        owner: Option<RunAs>,
    },
}

impl Starter {
    pub(crate) fn owner(&self) -> Option<Owner> {
        match self {
            Starter::Own => None,
            Starter::Daemon { owner, .. } => owner.map(|run_as| run_as.owner),
        }
    }

    /// What is said of a script that a daemon has refused to start.
    pub(crate) fn refusal(&self, why: u64) -> String {
        match self {
            Starter::Daemon { owner: Some(run_as), .. } => (run_as.refusal)(why),
            _ => "a daemon refuses to start the script".into(),
        }
    }
}
