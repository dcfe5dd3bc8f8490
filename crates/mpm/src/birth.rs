//! What a child does before it serves, and its end.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use runtime::Service;
use runtime::scoreboard::{Board, Workers};
use sys::cred::Identity;
use sys::process::{Pid, allow_core_dumps, die_with, expose_to_shortage, set_title};
use sys::signal::Signal;
use sys::signal_fd::SignalFd;

use crate::child::{BEFORE_PARENT, Child, FATAL, SICK};
use crate::listen::Listeners;
use crate::mpm::Mpm;
use crate::plan::Plan;

/// The exit status after a panic (that of a Rust program).
const PANICKED: i32 = 101;

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
