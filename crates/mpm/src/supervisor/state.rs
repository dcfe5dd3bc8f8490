//! What the parent knows, and the requests that it follows.

use std::path::PathBuf;
use std::time::Duration;

use runtime::scoreboard::Board;
use sys::notify::Notifier;
use sys::process::Pid;
use sys::signal::Signal;
use sys::signal_fd::SignalFd;

use super::backoff::Backoff;
use super::control_socket::ControlSocket;
use super::family::Family;
use super::helper_processes::HelperProcesses;
use super::new_program::NewProgram;
use super::watchdog::Watchdog;
use crate::about::About;
use crate::callbacks::{ParentCallbacks, Restart};
use crate::generation::Generation;
use crate::listen::Listeners;
use crate::plan::Plan;
use crate::policy::Policy;

/// How often the number of children is checked.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// The signals that carry requests.
pub(super) const SIGNALS: [Signal; 8] =
    [Signal::CHLD, Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::WINCH, Signal::QUIT];

/// A request that is not carried out yet; the strongest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pending {
    Nothing,
    Upgrade,
    Restart(Restart),
    /// Never requested from outside: the new program asks for it once it serves.
    HandOver,
    GracefulStop,
    Stop,
}

/// How the number of children is decided.
pub(super) struct Sizing {
    pub(super) policy: Policy,
    /// The pauses between starts of children that die young.
    pub(super) backoff: Backoff,
    /// Children to start apart from the policy's decisions: those of a new generation, and replacements.
    pub(super) owed: usize,
}

/// The whole state of the parent.
pub(super) struct Supervisor<'a> {
    /// This process, also as seen from a child.
    pub(super) pid: Pid,
    pub(super) about: About,
    pub(super) callbacks: &'a mut dyn ParentCallbacks,
    pub(super) board: &'static Board,
    pub(super) notifier: Notifier,
    pub(super) signals: SignalFd,
    /// The request to carry out next.
    pub(super) pending: Pending,
    pub(super) generation: Generation,
    /// The number of the generation, from 0.
    pub(super) number: u32,
    pub(super) plan: Plan,
    pub(super) listeners: Listeners,
    pub(super) pid_file: Option<PathBuf>,
    pub(super) family: Family,
    pub(super) helpers: HelperProcesses,
    pub(super) control_socket: ControlSocket,
    pub(super) watchdog: Watchdog,
    pub(super) sizing: Sizing,
    /// A restart is under way: children of this generation are to take the place of earlier ones, which serve until then.
    pub(super) arriving: bool,
    pub(super) next_tick: Duration,
    /// The new program that will take over, until it does.
    pub(super) new_program: Option<NewProgram>,
    /// Whether any child has ever accepted. Before that, a child that cannot start means that the server cannot.
    pub(super) proven: bool,
}
