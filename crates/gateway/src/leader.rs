//! The process of a script, whoever started it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use server::ScriptUse;
use sys::process::{Pid, Reaped, end_of, own_max_rss, reap};
use sys::signal::Signal;

use crate::command::{Failure, expose};
use crate::daemon::Remote;
use crate::gate::Permit;

/// The process of a script, which leads a group of its own.
#[derive(Debug)]
pub enum Leader {
    /// A child of ours.
    Own(Pid),
    /// A child of a daemon.
    Remote(Remote),
}

impl Leader {
    /// Its number; `None` as long as its daemon has not started it.
    pub(crate) fn pid(&self) -> Option<Pid> {
        match self {
            Leader::Own(pid) => Some(*pid),
            Leader::Remote(remote) => remote.pid(),
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        match self {
            Leader::Own(pid) => match reap(Some(*pid)) {
                Ok(Some(reaped)) => Progress::Ended(Some(reaped)),
                // Should somebody else have reaped it, nobody must wait for it for ever.
                _ if pid.exists() => Progress::Runs,
                _ => Progress::Ended(None),
            },
            Leader::Remote(remote) => remote.progress(),
        }
    }

    /// Sends a signal to its group, and to itself, should it have left that, as long as it `lives`.
    pub(crate) fn signal(&self, signal: Signal, lives: bool) {
        match self {
            // Its leader was not reaped, or it has members: the number is its own.
            Leader::Own(pid) => {
                let _ = pid.kill_group(signal);
                if lives {
                    let _ = pid.kill(signal);
                }
            }
            Leader::Remote(remote) => remote.signal(signal),
        }
    }

    /// Lets the kernel end it sooner than the server, where memory runs out. A daemon's is from its beginning.
    pub(crate) fn expose(&self) {
        if let Leader::Own(pid) = self {
            expose(*pid);
        }
    }

    /// What the process had that started it, KiB, which is counted into its peak.
    pub(crate) fn floor(&self) -> u64 {
        match self {
            Leader::Own(_) => own_max_rss(),
            // A daemon has little, and does not grow.
            Leader::Remote(_) => 0,
        }
    }

    /// What can be read once it has ended.
    pub(crate) fn end(&self) -> std::io::Result<Arc<OwnedFd>> {
        match self {
            Leader::Own(pid) => Ok(Arc::new(end_of(*pid)?)),
            Leader::Remote(remote) => Ok(remote.connection()),
        }
    }

    /// Whether there is somebody of the group left who is for us to end: of a daemon's, the daemon ends them.
    pub(crate) fn has_group(&self) -> bool {
        match self {
            Leader::Own(pid) => pid.group_exists(),
            Leader::Remote(_) => false,
        }
    }
}

/// How far a script's process is.
pub(crate) enum Progress {
    /// Its daemon has started it, as this process: said once.
    Begun(Pid),
    /// Its daemon has not started it, and will not.
    NotStarted(Failure),
    /// It runs, or is about to be started.
    Runs,
    /// It runs, but nobody will tell when it ends.
    Lost,
    /// It has ended, and how, if that can be known.
    Ended(Option<Reaped>),
}

/// The process of a script, with the permit it runs by, and what it costs.
#[derive(Debug)]
pub struct Permitted {
    /// Its process.
    pub leader: Leader,
    /// Given back when the process has ended: only then is its memory free.
    pub permit: Permit,
    /// For the access log.
    pub cost: Arc<ScriptUse>,
}
