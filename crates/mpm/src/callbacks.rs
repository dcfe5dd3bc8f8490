//! What the binary adds to the parent's loop.

use std::time::Duration;

use sys::process::{Pid, Reaped};
use sys::signal::Signal;

use crate::control;
use crate::generation::Generation;

/// The kind of restart; the stronger one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Restart {
    /// `SIGUSR1`: children finish what they serve.
    Graceful,
    /// `SIGHUP`: children are ended first.
    Hard,
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

/// A child without progress, or all of them where each is one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The child; `None`: all of them.
    pub child: Option<(usize, Pid)>,
    /// How long it has made none.
    pub since: Duration,
    /// Its event loop is stuck; otherwise all its workers are busy, each with one request.
    pub is_unresponsive: bool,
}
