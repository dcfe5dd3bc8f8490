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

/// Logs why a child ends, and returns its exit status. After a shortage another child may have more luck; any other
/// error ends a server in which no child has served yet.
pub(crate) fn failure_status(module: &str, error: &io::Error, what: &str) -> i32 {
    if sys::is_shortage(error) {
        runtime::log!(module, Alert, "{}: {what}; it is tried again once a second", sys::describe(error));
        SICK
    } else {
        runtime::log!(module, Emerg, "{}: {what}", sys::describe(error));
        FATAL
    }
}

/// Why a child could not be prepared.
#[derive(Debug)]
enum BirthError {
    /// A step of the preparation failed.
    Step { step: String, error: io::Error },
    /// The parent ended before the child could ask to end with it.
    ParentGone,
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
                let status = catch_unwind(AssertUnwindSafe(|| match (mpm.serve)(child) {
                    Ok(()) => 0,
                    Err(error) => failure_status(module, &error, "a child cannot serve"),
                }));
                service.before_end();
                status.unwrap_or(PANICKED)
            }
            Err(BirthError::Step { step, error }) => {
                failure_status(module, &error, &format!("{step}: a child cannot start"))
            }
            Err(BirthError::ParentGone) => {
                runtime::log!(module, Emerg, "the parent is gone: a child cannot start");
                FATAL
            }
        }
    }

    /// The order matters: the title needs `/proc/self`, which a changed user may not read; the kernel forgets the death
    /// signal when the user changes; the service starts as the user it serves as.
    fn prepare(self) -> Result<(&'static Mpm, Child), BirthError> {
        let failed = |step: &str| {
            let step = step.to_string();
            move |error: io::Error| BirthError::Step { step, error }
        };
        if let Some((_, program)) = &self.parent {
            // Without it the server runs all the same.
            let _ = expose_to_shortage(BEFORE_PARENT);
            let title = format!("{program}: {} child", self.mpm.info.log_name());
            set_title(&title).map_err(failed("process title"))?;
        }
        if let Some(identity) = &self.identity {
            let who = format!("becoming user {} and group {}", identity.uid, identity.gid);
            identity.assume().map_err(failed(&who))?;
        }
        if let Some(directory) = &self.core_dump_directory {
            std::env::set_current_dir(directory).map_err(failed(directory))?;
            allow_core_dumps().map_err(failed("core dumps"))?;
        }
        if let Some((parent, _)) = self.parent
            && !die_with(parent, Signal::TERM).map_err(failed("parent death signal"))?
        {
            return Err(BirthError::ParentGone);
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

#[cfg(test)]
mod tests {
    use sys::errno::TOO_MANY_FILES;

    use super::*;

    #[test]
    fn only_a_shortage_passes() {
        let status = |error: io::Error| failure_status("mpm_prefork", &error, "process title: a child cannot start");
        assert_eq!(status(io::Error::from_raw_os_error(TOO_MANY_FILES)), SICK);
        assert_eq!(status(io::ErrorKind::PermissionDenied.into()), FATAL);
    }
}
