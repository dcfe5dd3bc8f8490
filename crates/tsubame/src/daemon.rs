//! Becomes a daemon. The process that started the daemon waits until it serves or fails, and repeats its messages.

use std::io::{self, PipeReader, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use sys::process::{Fork, Pid, Reaped, Status};
use sys::time::Instant;

use crate::cli::Options;
use crate::messages::{SERVES, print, redirect};

/// How long the process that starts a daemon waits for it to serve.
const START_MAX: Duration = Duration::from_secs(60);

/// Becomes a daemon; returns only in the daemon. The original process waits until the daemon serves or has failed,
/// repeats its messages, and exits with the returned code.
pub(crate) fn detach(options: &Options) -> Result<(), ExitCode> {
    let failed = |error: io::Error| {
        print(options, &format!("{}: cannot detach", sys::describe(&error)));
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
    redirect(Some(writes.into()));
    // Others may read our output until end of file, so nothing of it stays open.
    sys::process::new_session().and_then(|()| sys::process::close_standard([true; 3])).map_err(failed)
}

/// Keeps messages on standard error for a server in the foreground, even after the error log has replaced it.
pub(crate) fn stay() {
    redirect(io::stderr().as_fd().try_clone_to_owned().ok());
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
            print(options, &format!("The server (pid {daemon}) does not serve after {seconds} s: {text}"));
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
            print(options, &format!("The server ended with status {code} before it served: see its error log"));
            ExitCode::FAILURE
        }
        Status::Signaled { signal, .. } => {
            let signal = signal.description();
            print(options, &format!("The server was ended by a signal before it served: {signal}"));
            ExitCode::FAILURE
        }
    }
}
