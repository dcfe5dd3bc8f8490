//! How far the process of a script has come.

use std::time::Duration;

use sys::process::{Pid, Reaped};

use crate::command::StartFailure;

/// The progress of a script's process.
pub(crate) enum Progress {
    /// Its daemon has started it, as this process, so long after the request for it: reported once.
    Begun(Pid, Duration),
    /// Its daemon has not started it, and will not.
    NotStarted(StartFailure),
    /// The script runs, or is about to be started.
    Runs,
    /// The script runs, but nobody will report its end.
    Lost,
    /// Has ended, with its result if that can be known.
    Ended(Option<Reaped>),
}
