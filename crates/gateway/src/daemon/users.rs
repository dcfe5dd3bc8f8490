//! The users for programs that are started on behalf of the children.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use runtime::executor::timeout;
use server::ScriptUse;
use sys::cred::Identity;
use sys::process::Pid;
use sys::rlimit::{Bounds, Limit};
use sys::signal::Signal;
use sys::spawn::Starting;
use sys::watch::{Interest, watch};

use crate::command::{Command, StartOptions};
use crate::gate::Permit;
use crate::owners::Owners;
use crate::process::{Permitted, ProcessGuard, ScriptProcess};

/// How long a program may take to change to its owner.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a program was not started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// May not run as its owner: the reason, as a number.
    Owner(u64),
    /// The system did not start it.
    System(io::Error),
}

/// The users that may ask a daemon, and the users it starts scripts as.
#[derive(Clone, Debug, Default)]
pub struct Users {
    /// The user of the children, if the daemon is root and they are not: scripts run as this one too.
    pub server: Option<Identity>,
    /// The users that may own scripts and then run them.
    pub owners: Option<Arc<dyn Owners>>,
    /// Programs that the configuration itself names, with the user of each.
    pub programs: Arc<[OwnedProgram]>,
}

/// A program that the configuration names, and the user it runs as. A child that asks for the program chooses arguments and
/// limits; it cannot choose another program, another environment or another user.
#[derive(Clone, Debug)]
pub struct OwnedProgram {
    command: Command,
    identity: Identity,
}

impl OwnedProgram {
    /// The program of a command, whose owner has this identity.
    pub(crate) fn new(command: Command, identity: Identity) -> OwnedProgram {
        OwnedProgram { command, identity }
    }

    /// Whether a command is to start this program.
    fn is(&self, command: &Command) -> bool {
        let Command { program, directory, environment, owner, .. } = &self.command;
        *owner == Some((self.identity.uid, self.identity.gid))
            && (program, directory, environment, owner)
                == (&command.program, &command.directory, &command.environment, &command.owner)
    }
}

impl Users {
    /// Whether a process of this user may ask.
    pub(crate) fn is_known(&self, user: u32) -> bool {
        user == self.server.as_ref().map_or_else(sys::cred::uid, |server| server.uid)
    }

    /// Starts a command as its user. A daemon that is not root starts everything as its own user, but never a program
    /// with an owner. `Err`: the message for the child.
    pub(crate) async fn start(&self, mut command: Command, options: StartOptions<'_>) -> Result<Pid, NotStarted> {
        cap(&mut command.limits);
        let named = self.programs.iter().find(|program| program.is(&command));
        let starting = match (command.owner, &self.server) {
            (Some(_), _) if let Some(named) = named => command.start_as(options, &named.identity, None),
            (Some(owner), _) => {
                let owners = self.owners.as_ref().ok_or(NotStarted::Owner(0))?;
                let admitted = owners.admit(&command.program, owner).map_err(NotStarted::Owner)?;
                command.environment = owners.environment(&command.environment);
                let place = (admitted.directory.as_fd(), admitted.name.as_c_str());
                command.start_as(options, admitted.identity, Some(place))
            }
            (None, Some(server)) if sys::cred::is_root() => command.start_as(options, server, None),
            (None, _) => return command.start(options, None).map_err(NotStarted::System),
        };
        outcome(starting.map_err(NotStarted::System)?).await.map_err(NotStarted::System)
    }
}

/// Waits until a program runs as its user. That user may delay it, but not for ever.
async fn outcome(starting: Starting) -> io::Result<Pid> {
    let pid = starting.pid;
    let watched = watch(Arc::new(starting.outcome.try_clone()?), Interest::READABLE)?;
    let reported = timeout(PATIENCE, watched.readable()).await.map(|ready| ready.map(drop));
    let result = match reported {
        Ok(Ok(())) => starting.result(),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::from_raw_os_error(sys::errno::TIMED_OUT)),
    };
    if result.is_err() {
        // The process ends by itself, or was stopped before it could.
        process(pid).signal(Signal::KILL);
    }
    result.map(|()| pid)
}

/// No program gets more than this process may have itself.
fn cap(limits: &mut [(Limit, Bounds)]) {
    for (limit, bounds) in limits {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        let own = sys::rlimit::get(*limit).hard;
        bounds.hard = least(bounds.hard, own);
        bounds.soft = least(bounds.soft, bounds.hard);
    }
}

/// A program started by this process, without a permit for memory.
pub(super) fn process(pid: Pid) -> ProcessGuard {
    let cost = Arc::new(ScriptUse::new(Duration::ZERO));
    ProcessGuard::new(Permitted { process: ScriptProcess::Own(pid), permit: Permit::free(), cost })
}
