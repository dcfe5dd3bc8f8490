//! Starts a script: its three pipes, and the process at their other ends.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use runtime::executor::timeout;
use server::{Request, ScriptUse};
use sys::time::Instant;

use super::daemon_script;
use super::ending::{self, ProcessGuard};
use super::pipe::Reader;
use super::script_process::{Permitted, ScriptProcess};
use super::socket;
use crate::caller::Caller;
use crate::command::{Command, StartFailure, StartOptions};
use crate::gate::Permit;

/// A script that has just been started, with our ends of its pipes.
pub(crate) struct Started {
    pub(crate) process: ProcessGuard,
    pub(crate) stdout: Reader,
    pub(crate) stderr: Reader,
}

/// The process that starts a script.
enum Starter {
    /// The process that serves the request.
    Own,
    /// One of the daemons at this address.
    Daemon(Arc<Path>),
}

impl Starter {
    /// The starter of this command, which should be started by `daemons` or not. `None`: it has an owner, and no
    /// process can change to that.
    fn of(command: &Command, daemons: bool) -> Option<Starter> {
        match (command.owner, socket::address()) {
            (Some(_), None) => None,
            (None, _) if !daemons => Some(Starter::Own),
            (_, Some(address)) => Some(Starter::Daemon(address)),
            // Without daemons this process does it.
            (None, None) => Some(Starter::Own),
        }
    }
}

/// Starts a script for a request (`None`: its file has a name that no program can have). It reads from `stdin`, if
/// given. Its cost is recorded in the request.
pub(crate) async fn start(
    request: &mut Request,
    command: Option<Command>,
    stdin: Option<BorrowedFd<'_>>,
    permit: Permit,
    caller: &Caller,
    daemons: bool,
) -> Result<Started, StartFailure> {
    if ending::is_ending() {
        return std::future::pending().await;
    }
    let began = Instant::now();
    let (command, starter, pipes) = match prepare(command, daemons) {
        Ok(prepared) => prepared,
        Err(failure) => {
            permit.not_started();
            return Err(failure);
        }
    };
    let Pipes { dev_null, stdout, stderr, its_stdout, its_stderr } = pipes;
    let stdio = [stdin.unwrap_or(dev_null), its_stdout.as_fd(), its_stderr.as_fd()];
    let cost = Arc::new(ScriptUse::new(permit.queued));
    let process = match starter {
        Starter::Own => match start_here(&command, stdio, permit, &cost)? {
            Some(process) => {
                cost.set_started(began.elapsed());
                process
            }
            None => return std::future::pending().await,
        },
        Starter::Daemon(address) => {
            let deadline = began + caller.timeout;
            let script = match daemon_script::start(&address, &command, stdio, deadline).await {
                Ok(script) => script,
                Err(error) => {
                    permit.not_started();
                    return Err(StartFailure::Daemon(error));
                }
            };
            // From here on the daemon may start it at any moment, whether or not anybody waits for that.
            let mut process =
                ProcessGuard::new(Permitted { process: ScriptProcess::ByDaemon(script), permit, cost: cost.clone() });
            // Without these, the output ends if the script is not started.
            drop((its_stdout, its_stderr));
            // A script that waits for its input is waited for, so that it gets all of it.
            if stdin.is_some() || !writes_soon(&stdout).await {
                process.wait_until_started(deadline).await?;
            }
            process
        }
    };
    request.account.script = Some(cost);
    Ok(Started { process, stdout, stderr })
}

/// Most scripts end sooner.
pub(crate) const BRIEF: Duration = Duration::from_millis(10);

/// Whether a script writes something soon: then it runs, and nobody has to wait for its daemon to say so.
async fn writes_soon(stdout: &Reader) -> bool {
    matches!(timeout(BRIEF, poll_fn(|cx| stdout.poll_has_output(cx))).await, Ok(Ok(true)))
}

/// Starts a script as a child of this process; `None`: the process is about to end.
fn start_here(
    command: &Command,
    stdio: [BorrowedFd<'_>; 3],
    permit: Permit,
    cost: &Arc<ScriptUse>,
) -> Result<Option<ProcessGuard>, StartFailure> {
    let may_start = ending::may_start();
    let started = may_start.as_ref().map(|_| command.start(StartOptions::script(stdio), permit.process()));
    match started {
        Some(Ok(pid)) => {
            Ok(Some(ProcessGuard::new(Permitted { process: ScriptProcess::Own(pid), permit, cost: cost.clone() })))
        }
        Some(Err(error)) => {
            permit.not_started();
            Err(StartFailure::of_start(error))
        }
        None => {
            permit.not_started();
            Ok(None)
        }
    }
}

/// The pipes of a script, and its input if it has no body.
struct Pipes {
    dev_null: BorrowedFd<'static>,
    stdout: Reader,
    stderr: Reader,
    its_stdout: PipeWriter,
    its_stderr: PipeWriter,
}

/// Does everything that can fail before a start: nothing may fail after it, as nobody would end the script.
fn prepare(command: Option<Command>, daemons: bool) -> Result<(Command, Starter, Pipes), StartFailure> {
    let command = command.ok_or_else(|| StartFailure::Exec(io::ErrorKind::InvalidInput.into()))?;
    let starter = Starter::of(&command, daemons).ok_or(StartFailure::NoDaemon)?;
    let pipes = || {
        let (stdout, its_stdout) = io::pipe()?;
        let (stderr, its_stderr) = io::pipe()?;
        let (mut stdout, stderr) = (Reader::new(stdout)?, Reader::new(stderr)?);
        // The script has written nothing yet.
        stdout.watch()?;
        Ok(Pipes { dev_null: dev_null()?, stdout, stderr, its_stdout, its_stderr })
    };
    Ok((command, starter, pipes().map_err(StartFailure::System)?))
}

/// The input of scripts without one.
fn dev_null() -> io::Result<BorrowedFd<'static>> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(null) = NULL.get() {
        return Ok(null.as_fd());
    }
    let null = File::open("/dev/null")?;
    Ok(NULL.get_or_init(|| null).as_fd())
}
