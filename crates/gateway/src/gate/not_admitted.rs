//! Why a request is not admitted, for the error log.

use std::fmt;
use std::time::Duration;

use super::admit::Gate;
use super::table::{Locked, ScriptStats};

/// The minimum time before a refused request should come again.
const RETRY: Duration = Duration::from_secs(1);

/// Why a request was not admitted.
#[derive(Debug)]
pub struct NotAdmitted {
    /// The text to log.
    pub reason: String,
    /// When to try again.
    pub retry: Duration,
}

impl NotAdmitted {
    /// The table is not available.
    pub(super) fn stuck() -> NotAdmitted {
        let reason = "a server process that holds the table of scripts has stopped responding";
        NotAdmitted { reason: reason.into(), retry: RETRY }
    }
}

impl Gate {
    /// Why a request for a script is not admitted, with the scripts that hold the memory.
    pub(super) fn not_admitted(&self, locked: &Locked<'_>, script: usize, what: String, available: u64) -> NotAdmitted {
        let known = locked.described(script, 0, 0);
        let retry = known.median.max(RETRY);
        if !locked.refuse(script) {
            return NotAdmitted { reason: what, retry };
        }
        let needs = match known.expected {
            0 => "its need is not known yet".into(),
            bytes => format!("it needs {}", mib(bytes)),
        };
        let mut holders = locked.running_scripts();
        let crowd = match holders.iter().map(|script| script.running).sum::<u64>() >= self.most {
            true => format!("; there is room for {} scripts at once, whatever they need", self.most),
            false => String::new(),
        };
        holders.sort_by_key(|script| std::cmp::Reverse(script.running * script.expected));
        let holders: Vec<String> = holders.iter().take(5).map(|script| script.to_string()).collect();
        let holders = match holders.is_empty() {
            true => "no script is running".into(),
            false => format!("running: {}", holders.join(", ")),
        };
        NotAdmitted { reason: format!("{what}: {needs}; {} are available{crowd}; {holders}", mib(available)), retry }
    }
}

impl fmt::Display for ScriptStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} with {} each", self.running, self.name, mib(self.expected))
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
