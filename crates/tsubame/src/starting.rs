//! Messages of a server until it serves. A daemon sends them to the process that started it, which waits until the
//! daemon serves or fails.

use std::fmt;
use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use conf::Level;
use runtime::log::Log;
use sys::process::{Fork, Pid, Reaped, Status};

use crate::boot;
use crate::cli::Options;

/// How long the process that starts a daemon waits for it to serve.
const START_MAX: Duration = Duration::from_secs(60);
/// The byte that the daemon sends when it serves; no message contains it.
const SERVES: u8 = 0;

/// The destination of messages until the server serves: a pipe to the process that started the daemon, or the original
/// standard error, which the error log replaces. `None`: the server serves, or has not begun to start.
static STARTER: Mutex<Option<Arc<OwnedFd>>> = Mutex::new(None);

/// Becomes a daemon; returns only in the daemon. The original process waits until the daemon serves or has failed,
/// repeats its messages, and exits with the returned code.
pub(crate) fn detach(options: &Options) -> Result<(), ExitCode> {
    let failed = |error: io::Error| {
        boot::print(options, &format!("{}: cannot detach", sys::describe(&error)));
        ExitCode::FAILURE
    };
    let (reads, writes) = io::pipe().map_err(failed)?;
    match sys::process::fork().map_err(failed)? {
        Fork::Parent(pid) => {
            drop(writes);
            return Err(wait(options, &reads, pid).unwrap_or_else(failed));
        }
        Fork::Child => drop(reads),
    }
    begin(Some(writes.into()));
    // Others may read our output until end of file, so nothing of it stays open.
    sys::process::new_session().and_then(|()| sys::process::close_standard([true; 3])).map_err(failed)
}

/// Keeps messages on standard error for a server in the foreground, even after the error log has replaced it.
pub(crate) fn stay() {
    begin(io::stderr().as_fd().try_clone_to_owned().ok());
}

fn begin(starter: Option<OwnedFd>) {
    *lock() = starter.map(Arc::new);
    runtime::log::set(Arc::new(StartLog(None)));
}

/// Reports that the server serves, and stops sending messages.
pub(crate) fn serving(detached: bool) {
    if let Some(starter) = lock().take().filter(|_| detached) {
        // The process that started it may have exited.
        let _ = sys::file::write(&*starter, &[SERVES]);
    }
}

/// Writes a line to the destination of messages.
pub(crate) fn print(line: &str) {
    let line = format!("{line}\n");
    // There is no other place to report an error.
    let _ = match lock().clone() {
        Some(starter) => sys::file::write(&*starter, line.as_bytes()).map(drop),
        None => io::stderr().write_all(line.as_bytes()),
    };
}

fn lock() -> std::sync::MutexGuard<'static, Option<Arc<OwnedFd>>> {
    STARTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the daemon, in the original process.
fn wait(options: &Options, reads: &PipeReader, daemon: Pid) -> io::Result<ExitCode> {
    sys::file::set_nonblocking(reads)?;
    let ended = sys::process::end_of(daemon)?;
    let end = Instant::now() + START_MAX;
    loop {
        sys::poll::any_readable([reads.as_fd(), ended.as_fd()], end.saturating_duration_since(Instant::now()))?;
        // Waits for the end first, so that all messages are there.
        let ended = sys::process::reap(Some(daemon))?;
        if repeat(reads)? {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(ended) = ended {
            return Ok(failed(options, &ended));
        }
        if Instant::now() >= end {
            let seconds = START_MAX.as_secs();
            let text = "it goes on trying, and its error log says more";
            boot::print(options, &format!("The server (pid {daemon}) does not serve after {seconds} s: {text}"));
            return Ok(ExitCode::FAILURE);
        }
    }
}

/// Repeats the messages of the daemon; `true` if it serves.
fn repeat(mut reads: &PipeReader) -> io::Result<bool> {
    let mut said = [0; 4096];
    loop {
        match io::Read::read(&mut reads, &mut said) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                let (text, serves) = match said[..count].iter().position(|byte| *byte == SERVES) {
                    Some(at) => (&said[..at], true),
                    None => (&said[..count], false),
                };
                // There is no other place to report an error.
                let _ = io::stderr().write_all(text);
                if serves {
                    return Ok(true);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Reports how a daemon ended before it served. Usually the daemon has reported the reason.
fn failed(options: &Options, ended: &Reaped) -> ExitCode {
    match ended.status {
        Status::Exited(0) => ExitCode::SUCCESS,
        Status::Exited(1) => ExitCode::FAILURE,
        Status::Exited(code) => {
            boot::print(options, &format!("The server ended with status {code} before it served: see its error log"));
            ExitCode::FAILURE
        }
        Status::Signaled { signal, .. } => {
            let signal = signal.description();
            boot::print(options, &format!("The server was ended by a signal before it served: {signal}"));
            ExitCode::FAILURE
        }
    }
}

/// The log of a starting server: errors before it serves also go to where it was started.
pub(crate) struct StartLog(pub(crate) Option<Arc<dyn Log>>);

impl Log for StartLog {
    fn enabled(&self, module: &str, level: Level) -> bool {
        self.0.as_ref().map_or(level <= Level::Warn, |log| log.enabled(module, level))
    }

    fn write(&self, module: &str, level: Level, text: fmt::Arguments<'_>) {
        let Some(log) = &self.0 else { return print(&text.to_string()) };
        log.write(module, level, text);
        if level <= Level::Error && lock().is_some() {
            print(&text.to_string());
        }
    }

    fn begun(&self) {
        *lock() = None;
    }
}
