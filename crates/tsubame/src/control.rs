//! `-k`: sends a signal to the running server (Apache manual, "Stopping and Restarting Apache HTTP Server").

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use mpm::{UPGRADE_MAX, pidfile};
use sys::process::Pid;
use sys::time::Instant;

use crate::cli::{self, Options};
use crate::config::{ConfigSource, Configured};
use crate::ctl;
use crate::diagnosis::preflight;
use crate::diagnosis::print;
use crate::messages;
use crate::output;
use crate::running::{parent, pid_file};
use crate::start;

/// How often to check the pid file during an upgrade.
const UPGRADE_LOOK: Duration = Duration::from_millis(20);

/// Warns if the new server runs another program than this one: an upgrade starts the file that the server was started
/// from originally.
fn compare(options: &Options, successor: Pid) {
    let Ok(own) = std::env::current_exe() else { return };
    if let Some(runs) = sys::process::program_file(successor).filter(|file| *file != own) {
        let (runs, own) = (runs.display(), own.display());
        messages::print(options, &format!("it runs {runs}, and not this program ({own}): put a new one there"));
    }
}

/// Waits until another process has taken over from the server.
fn succeeded(options: &Options, configured: &Configured, pid: Pid) -> ExitCode {
    let end = Instant::now() + UPGRADE_MAX;
    while Instant::now() < end {
        if let Some(successor) = parent(configured).filter(|running| *running != pid) {
            output::line(&format!("httpd (pid {successor}) took over from pid {pid}"));
            compare(options, successor);
            return ExitCode::SUCCESS;
        }
        #[expect(clippy::disallowed_methods, reason = "a program of its own, beside the server")]
        std::thread::sleep(UPGRADE_LOOK);
    }
    let seconds = UPGRADE_MAX.as_secs();
    messages::print(
        options,
        &format!("no new server took over from pid {pid} within {seconds} s: its error log says why"),
    );
    ExitCode::FAILURE
}

/// Restarts the server and waits for it, where it can be asked; `None`: send it the signal.
fn restart(configured: &Configured, signal: cli::Signal) -> Option<Result<io::Result<()>, String>> {
    let word = match signal {
        cli::Signal::Restart => "restart",
        cli::Signal::Graceful => "graceful",
        cli::Signal::Stop | cli::Signal::GracefulStop | cli::Signal::Upgrade => return None,
    };
    ctl::restart(configured, word).map(|done| done.map(Ok))
}

/// Reads the configuration, then sends the signal. It sends nothing if the configuration has an error or cannot be
/// served; a stop needs only a configuration without errors.
pub(crate) fn run(options: &Options, signal: cli::Signal) -> ExitCode {
    let configured = match print::read(options, &ConfigSource::File) {
        Ok(configured) => configured,
        Err(failed) => return failed,
    };
    let ends = matches!(signal, cli::Signal::Stop | cli::Signal::GracefulStop);
    if !ends && let Err(message) = preflight::can_start(options, &configured) {
        messages::print(options, &message);
        return ExitCode::FAILURE;
    }
    let number = match signal {
        cli::Signal::Stop => sys::signal::Signal::TERM,
        cli::Signal::GracefulStop => sys::signal::Signal::WINCH,
        cli::Signal::Restart => sys::signal::Signal::HUP,
        cli::Signal::Graceful => sys::signal::Signal::USR1,
        cli::Signal::Upgrade => sys::signal::Signal::USR2,
    };
    match (parent(&configured), signal) {
        (Some(pid), _) => match restart(&configured, signal).unwrap_or_else(|| Ok(pid.kill(number))) {
            Err(why) => {
                why.lines().for_each(|line| messages::print(options, line));
                messages::print(options, "the restart has failed");
                ExitCode::FAILURE
            }
            Ok(told) => match told {
                Ok(()) if signal == cli::Signal::Upgrade => succeeded(options, &configured, pid),
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    messages::print(options, &format!("{}: sending signal to server", sys::describe(&error)));
                    ExitCode::FAILURE
                }
            },
        },
        (None, cli::Signal::Stop | cli::Signal::GracefulStop) => {
            let stale = pid_file(&configured).and_then(|path| pidfile::read(Path::new(&path)).ok().flatten());
            match stale {
                Some(pid) => output::line(&format!("httpd (pid {pid}?) not running")),
                None => output::line("httpd (no pid file) not running"),
            }
            ExitCode::SUCCESS
        }
        (None, cli::Signal::Restart | cli::Signal::Graceful | cli::Signal::Upgrade) => {
            output::line("httpd not running, trying to start");
            start::serve(options, configured, &ConfigSource::File, |_| {})
        }
    }
}
