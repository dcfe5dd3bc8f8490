//! Starting a script: its three pipes, and the process at their other ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use server::{Request, ScriptUse};

use crate::caller::{Caller, Starter};
use crate::command::{Command, Failure};
use crate::daemon;
use crate::gate::Permit;
use crate::leader::Leader;
use crate::pipe::Reader;

/// A script that has just been started, with our ends of its pipes.
pub(crate) struct Started {
    pub(crate) leader: Leader,
    /// For the access log.
    pub(crate) cost: Arc<ScriptUse>,
    pub(crate) stdout: Reader,
    pub(crate) stderr: Reader,
}

/// Starts the script that is the request's file; its variables are in the request's environment already. It reads from
/// `stdin`, if anything. What it costs is noted in the request.
pub(crate) async fn start(
    request: &mut Request,
    stdin: Option<BorrowedFd<'_>>,
    permit: &Permit,
    caller: &Caller,
) -> Result<Started, Failure> {
    let began = Instant::now();
    let owner = caller.starter.owner();
    let command = Command::of(request, owner).ok_or_else(|| Failure::Exec(io::ErrorKind::InvalidInput.into()))?;
    let (stdout, its_stdout) = io::pipe().map_err(Failure::System)?;
    let (stderr, its_stderr) = io::pipe().map_err(Failure::System)?;
    let its_stdin = match stdin {
        Some(stdin) => stdin,
        None => nothing().map_err(Failure::System)?,
    };
    let stdio = [its_stdin, its_stdout.as_fd(), its_stderr.as_fd()];
    // Nothing may fail behind the start: nobody would end the script.
    let (mut stdout, stderr) =
        (Reader::new(stdout).map_err(Failure::System)?, Reader::new(stderr).map_err(Failure::System)?);
    // It has written nothing yet.
    stdout.watch().map_err(Failure::System)?;
    let leader = match &caller.starter {
        Starter::Own => Leader::Own(command.start(stdio, permit.process()).map_err(Failure::of_start)?),
        Starter::Daemon { address, .. } => {
            Leader::Remote(daemon::start(address, &command, stdio, caller.timeout).await?)
        }
    };
    let cost = Arc::new(ScriptUse::new(permit.queued, began.elapsed()));
    request.script = Some(cost.clone());
    Ok(Started { leader, cost, stdout, stderr })
}

/// The input of scripts that have none.
fn nothing() -> io::Result<BorrowedFd<'static>> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(null) = NULL.get() {
        return Ok(null.as_fd());
    }
    let null = File::open("/dev/null")?;
    Ok(NULL.get_or_init(|| null).as_fd())
}
