//! The process of a script, whichever process started it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use server::ScriptUse;
use sys::process::{Pid, end_of, own_max_rss, reap};
use sys::signal::Signal;

use super::daemon_script::DaemonScript;
use super::progress::Progress;
use crate::command::expose;
use crate::gate::Permit;

/// The process of a script, which leads a group of its own.
#[derive(Debug)]
pub enum ScriptProcess {
    /// A child of ours.
    Own(Pid),
    /// A child of a daemon.
    ByDaemon(DaemonScript),
}

impl ScriptProcess {
    /// Its number; `None` until its daemon has started it.
    pub(crate) fn pid(&self) -> Option<Pid> {
        match self {
            ScriptProcess::Own(pid) => Some(*pid),
            ScriptProcess::ByDaemon(script) => script.pid(),
        }
    }

    /// Looks whether the script has begun or ended since the last look.
    pub(crate) fn progress(&self) -> Progress {
        match self {
            ScriptProcess::Own(pid) => match reap(Some(*pid)) {
                Ok(Some(reaped)) => Progress::Ended(Some(reaped)),
                // If somebody else has reaped it, nobody may wait for it for ever.
                _ if pid.exists() => Progress::Runs,
                _ => Progress::Ended(None),
            },
            ScriptProcess::ByDaemon(script) => script.progress(),
        }
    }

    /// Sends a signal to its group, and also to itself in case it has left the group, as long as it `lives`.
    pub(crate) fn signal(&self, signal: Signal, lives: bool) {
        match self {
            // Its leader was not reaped, or it has members: the number is still its own.
            ScriptProcess::Own(pid) => {
                let _ = pid.kill_group(signal);
                if lives {
                    let _ = pid.kill(signal);
                }
            }
            ScriptProcess::ByDaemon(script) => script.signal(signal),
        }
    }

    /// Makes the kernel's OOM killer prefer it to the server; `false`: not yet. A daemon's script has this from its start.
    pub(crate) fn expose(&self) -> bool {
        match self {
            ScriptProcess::Own(pid) => expose(*pid),
            ScriptProcess::ByDaemon(_) => true,
        }
    }

    /// The memory of the process that started it, in KiB, which counts into its peak.
    pub(crate) fn floor(&self) -> u64 {
        match self {
            ScriptProcess::Own(_) => own_max_rss(),
            // A daemon has little, and does not grow.
            ScriptProcess::ByDaemon(_) => 0,
        }
    }

    /// The descriptor that becomes readable once it has ended.
    pub(crate) fn end(&self) -> std::io::Result<Arc<OwnedFd>> {
        match self {
            ScriptProcess::Own(pid) => Ok(Arc::new(end_of(*pid)?)),
            ScriptProcess::ByDaemon(script) => Ok(script.connection()),
        }
    }

    /// Whether its group still has members that we have to end: a daemon ends its own.
    pub(crate) fn has_group(&self) -> bool {
        match self {
            ScriptProcess::Own(pid) => pid.group_exists(),
            ScriptProcess::ByDaemon(_) => false,
        }
    }
}

/// The process of a script, with its permit and its cost.
#[derive(Debug)]
pub struct Permitted {
    /// Its process.
    pub process: ScriptProcess,
    /// Given back when the process has ended: only then is its memory free.
    pub permit: Permit,
    /// For the access log.
    pub cost: Arc<ScriptUse>,
}

impl Permitted {
    /// Looks whether its daemon has said something since, and learns its number if that was its start.
    pub(super) fn look(&self) -> Progress {
        let progress = self.process.progress();
        if let Progress::Begun(pid, took) = progress {
            self.begun(pid, took);
        }
        progress
    }

    /// Records that its daemon has started it.
    pub(super) fn begun(&self, pid: Pid, took: Duration) {
        self.permit.started(pid);
        self.cost.set_started(took);
    }
}
