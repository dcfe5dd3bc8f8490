//! A child process, and what it does before it serves.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use runtime::Service;
use runtime::scoreboard::{self, Board, Workers};
use sys::cred::Identity;
use sys::process::{Pid, allow_core_dumps, die_with, expose_to_shortage, set_title};
use sys::signal::Signal;
use sys::signal_fd::SignalFd;

use crate::Mpm;
use crate::limits::Plan;
use crate::listen::Listeners;

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

/// The exit status after a panic (that of a Rust program).
const PANICKED: i32 = 101;
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
    /// The same, but first accept what is already waiting: no child comes after us (`SIGWINCH`).
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
    pub(crate) workers: Arc<Workers>,
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

/// The exit status of a child that has served.
fn exit_status(module: &'static str, ended: io::Result<()>) -> i32 {
    match ended {
        Ok(()) => 0,
        Err(error) if sys::is_shortage(&error) => {
            let text = "a child cannot serve; it is tried again once a second";
            runtime::log!(module, Alert, "{}: {text}", sys::describe(&error));
            SICK
        }
        Err(error) => {
            runtime::log!(module, Emerg, "{}: a child cannot serve", sys::describe(&error));
            FATAL
        }
    }
}

/// Everything the parent prepared for a child.
pub(crate) struct Birth {
    pub(crate) mpm: &'static Mpm,
    pub(crate) service: Arc<dyn Service>,
    pub(crate) plan: Plan,
    pub(crate) listeners: Listeners,
    pub(crate) board: &'static Board,
    pub(crate) slot: usize,
    /// The signals that carry its orders.
    pub(crate) orders: SignalFd,
    /// The user to become; without it the child keeps its identity.
    pub(crate) identity: Option<Identity>,
    /// `CoreDumpDirectory`.
    pub(crate) core_dump_directory: Option<String>,
    /// `MaxMemFree`, KiB.
    pub(crate) max_mem_free: Option<i64>,
    /// The parent, and the name of the program; `None` in one-process mode, which forks nothing.
    pub(crate) parent: Option<(Pid, String)>,
}

impl Birth {
    /// Runs the child to its end. Returns the exit status.
    pub(crate) fn live(self) -> i32 {
        let module = self.mpm.info.log_name();
        match self.prepare() {
            Ok((mpm, child)) => {
                let service = child.service;
                // The panic is already on standard error; the service's buffered log lines must not be lost with the
                // child.
                let status =
                    catch_unwind(AssertUnwindSafe(|| exit_status(module, (mpm.serve)(child)))).unwrap_or(PANICKED);
                service.before_end();
                status
            }
            Err(error) => {
                runtime::log!(module, Emerg, "{error}: a child cannot start");
                FATAL
            }
        }
    }

    /// The order matters: the title needs `/proc/self`, which a changed user may not read; the kernel forgets the death
    /// signal when the user changes; the service starts as the user it serves as.
    fn prepare(self) -> Result<(&'static Mpm, Child), String> {
        let explain = |what: &str| {
            let what = what.to_string();
            move |error: io::Error| format!("{}: {what}", sys::describe(&error))
        };
        if let Some((_, program)) = &self.parent {
            // Without it the server runs all the same.
            let _ = expose_to_shortage(BEFORE_PARENT);
            let title = format!("{program}: {} child", self.mpm.info.log_name());
            set_title(&title).map_err(explain("process title"))?;
        }
        if let Some(identity) = &self.identity {
            let who = format!("becoming user {} and group {}", identity.uid, identity.gid);
            identity.assume().map_err(explain(&who))?;
        }
        if let Some(directory) = &self.core_dump_directory {
            std::env::set_current_dir(directory).map_err(explain(directory))?;
            allow_core_dumps().map_err(explain("core dumps"))?;
        }
        if let Some((parent, _)) = self.parent
            && !die_with(parent, Signal::TERM).map_err(explain("parent death signal"))?
        {
            return Err("the parent is gone".to_string());
        }
        if let Some(most) = self.max_mem_free {
            sys::memory::keep_free(
                usize::try_from(most).ok().filter(|most| *most > 0).map(|kib| kib.saturating_mul(1024)),
            );
        }
        self.service.child_started(self.plan.children);
        runtime::log::begun();
        // The service lives as long as the child, so it is never freed. Counting references would write to memory that
        // is otherwise shared with all other children.
        let service: &'static Arc<dyn Service> = Box::leak(Box::new(self.service));
        let child = Child {
            service: &**service,
            plan: self.plan,
            listeners: self.listeners,
            workers: Workers::start(self.board, self.slot, self.mpm.rows),
            signals: self.orders,
            log_name: self.mpm.info.log_name(),
        };
        Ok((self.mpm, child))
    }
}
