//! What a module has to say about itself.

use std::io;

use conf::{ModuleInfo, Notice, SettingsMap};
use runtime::scoreboard::Rows;

use crate::child::Child;
use crate::plan::explain::ProcessModel;
use crate::plan::{Plan, When};
use crate::policy::Counts;

/// A multi-processing module, as the supervisor sees it.
pub(crate) struct Mpm {
    /// Its names and its table.
    pub(crate) info: &'static ModuleInfo,
    /// Its messages in the log.
    pub(crate) messages: LogMessages,
    /// Turns the settings of the main server into a plan, with notices about them.
    pub(crate) plan: fn(&SettingsMap, When) -> (Plan, Vec<Notice>),
    /// How its numbers are calculated.
    pub(crate) kind: ProcessModel,
    /// The unit that has a row of the scoreboard to itself.
    pub(crate) rows: Rows,
    /// Whether a request that waits for its turn holds a worker.
    pub(crate) waiting_holds: bool,
    /// The life of a child from its first connection to its last.
    pub(crate) serve: fn(Child) -> io::Result<()>,
}

/// The messages of a module, with AH numbers where Apache has the same message.
pub(crate) struct LogMessages {
    /// Before `SERVER configured -- resuming normal operations`.
    pub(crate) configured: &'static str,
    /// Before `Server built: TIME`.
    pub(crate) built: &'static str,
    pub(crate) terminated: &'static str,
    pub(crate) graceful_stop: &'static str,
    pub(crate) graceful: &'static str,
    pub(crate) restart: &'static str,
    pub(crate) cannot_fork: &'static str,
    /// About the number of children; `None` where that number is fixed.
    pub(crate) sizing: Option<SizingMessages>,
}

/// The messages about a number of children that follows the load.
pub(crate) struct SizingMessages {
    /// No more children may be started, and no worker is idle.
    pub(crate) limit_reached: &'static str,
    /// No more children may be started, and fewer workers are idle than should be; `None` where that is the same.
    pub(crate) limit_near: Option<&'static str>,
    /// Makes the message from the rate, the number of children started, and the counts.
    pub(crate) busy: fn(usize, usize, Counts) -> String,
}

impl LogMessages {
    /// Whether the log distinguishes "none idle" from "too few idle" when no more children may be started.
    pub(crate) fn tells_near(&self) -> bool {
        self.sizing.as_ref().is_some_and(|words| words.limit_near.is_some())
    }
}
