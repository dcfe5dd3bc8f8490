//! A child process: what it has, and the orders that it follows.

use std::fmt;
use std::time::Duration;

use runtime::Service;
use runtime::scoreboard::{self, Workers};
use sys::signal::Signal;
use sys::signal_fd::SignalFd;

use crate::listen::Listeners;
use crate::plan::Plan;

/// The exit status of a child that could not start, where starting another would not help (Apache's
/// `APEXIT_CHILDFATAL`).
pub(crate) const FATAL: i32 = 15;
/// The exit status of a child for which the system has no room now; another one may have more luck (Apache's
/// `APEXIT_CHILDSICK`).
pub(crate) const SICK: i32 = 7;

/// How much earlier than the parent everything that the parent forks is ended when memory runs out, in thousandths of all
/// memory. A fresh child needs less than the parent, which has read the configuration: without this the kernel would take
/// the parent, and the server with it. Scripts come first of all (`expose` in the gateway).
pub(crate) const BEFORE_PARENT: i32 = 200;
/// The same for scripts, and for what starts them, compared with a child.
pub(crate) const BEFORE_CHILDREN: i32 = 500;

/// How long the last child to leave goes on accepting connections that are already waiting.
pub(crate) const LAST_ROUND: Duration = Duration::from_secs(1);

/// How long a child that has accepted its last connection leaves new ones to its successor, before it accepts again:
/// other children may be replaced before it.
pub(crate) const SUCCESSION: Duration = Duration::from_millis(100);

/// A parent's order to a child, sent as a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Stop accepting, and end with the last connection (`SIGUSR1`).
    Leave,
    /// Accept what is already waiting, then stop accepting, and end with the last connection: no child comes after us
    /// (`SIGWINCH`).
    LeaveLast,
    /// End now (`SIGTERM`).
    End,
}

impl Order {
    /// The signals that are orders. Those that only a terminal or a careless administrator sends also mean the end.
    /// `SIGURG` is not an order but a question: are you there?
    pub(crate) const SIGNALS: [Signal; 7] =
        [Signal::USR1, Signal::WINCH, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::URG];

    pub(crate) fn of(signal: Signal) -> Order {
        match signal {
            Signal::USR1 => Order::Leave,
            Signal::WINCH => Order::LeaveLast,
            _ => Order::End,
        }
    }

    /// The next pending order.
    pub(crate) fn next(signals: &SignalFd) -> Option<Order> {
        loop {
            match signals.read().ok().flatten()? {
                (Signal::URG, _) => scoreboard::answer(),
                (signal, _) => return Some(Order::of(signal)),
            }
        }
    }
}

/// Everything a child needs to serve.
pub(crate) struct Child {
    pub(crate) service: &'static dyn Service,
    pub(crate) plan: Plan,
    pub(crate) listeners: Listeners,
    pub(crate) workers: &'static Workers,
    /// The signals that carry its orders.
    pub(crate) signals: SignalFd,
    /// The module's name in log lines.
    pub(crate) log_name: &'static str,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("plan", &self.plan).field("listeners", &self.listeners).finish_non_exhaustive()
    }
}
