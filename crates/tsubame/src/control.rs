//! `-k`: tells the running server what to do (contract.md 15).

use std::path::Path;
use std::process::ExitCode;

use mpm::pidfile;
use mpm::settings::MpmSettings;
use sys::process::Pid;

use crate::boot::{self, Configured, Text};
use crate::cli::{self, Options};
use crate::start;

/// The parent of the server that runs with this configuration.
pub(crate) fn running(configured: &Configured) -> Option<Pid> {
    let path = pid_file(configured)?;
    pidfile::read(Path::new(&path)).ok().flatten().filter(|pid| pid.exists())
}

fn pid_file(configured: &Configured) -> Option<String> {
    configured.loaded.server.main().settings.get::<MpmSettings>().pid_file.get().cloned()
}

/// Reads the configuration first: with an error in it nothing is sent.
pub(crate) fn run(options: &Options, signal: cli::Signal) -> ExitCode {
    let configured = match boot::read(options, &Text::File) {
        Ok(configured) => configured,
        Err(broken) => {
            boot::say_broken(options, &broken);
            return ExitCode::FAILURE;
        }
    };
    boot::say(options, &configured.loaded.notices);
    let number = match signal {
        cli::Signal::Stop => sys::signal::Signal::TERM,
        cli::Signal::GracefulStop => sys::signal::Signal::WINCH,
        cli::Signal::Restart => sys::signal::Signal::HUP,
        cli::Signal::Graceful => sys::signal::Signal::USR1,
    };
    match (running(&configured), signal) {
        (Some(pid), _) => match pid.kill(number) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                boot::tell(options, &format!("{}: sending signal to server", sys::describe(&error)));
                ExitCode::FAILURE
            }
        },
        (None, cli::Signal::Stop | cli::Signal::GracefulStop) => {
            let stale = pid_file(&configured).and_then(|path| pidfile::read(Path::new(&path)).ok().flatten());
            match stale {
                Some(pid) => println!("httpd (pid {pid}?) not running"),
                None => println!("httpd (no pid file) not running"),
            }
            ExitCode::SUCCESS
        }
        (None, cli::Signal::Restart | cli::Signal::Graceful) => {
            println!("httpd not running, trying to start");
            start::serve(options, configured, &Text::File, |_| {})
        }
    }
}
