//! The tsubame binary: the lists of modules, and the order of start.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bundle;
mod bundles;
mod cache;
mod check;
mod cli;
mod completions;
mod config;
mod control;
mod ctl;
mod daemon;
mod demo;
mod diagnosis;
mod dump;
mod explain;
mod holder;
mod messages;
mod output;
mod running;
mod start;
mod style;
mod version;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use cli::{Action, Command, Parsed};

fn main() -> ExitCode {
    server::log::be_keeper_if_asked();
    server::module::set_known(modules::MODULES);
    server::identity::set(version::identity());
    let program = cli::program_name();
    let mut args: Vec<OsString> = cli::as_options(&program, std::env::args_os().skip(1).collect());
    if let Some(command) = cli::command(&program, &args) {
        args.remove(0);
        return match command {
            Command::Bundle => bundle::run(&program, args),
            Command::Cache => cache::run(&program, args),
            Command::Check => check::run(&program, args),
            Command::Explain => explain::run(&program, args),
            Command::Ctl => ctl::run(&program, args),
            Command::Completions => completions::run(&program, &args),
        };
    }
    let options = match cli::parse(&program, args) {
        Parsed::Run(options) => options,
        Parsed::Done(code) => return code,
    };
    match &options.action {
        Action::Version => version::print(None),
        Action::CompiledIn => dump::compiled_in(&options),
        Action::Demo(_) => demo::run(&options),
        Action::Settings => dump::settings(&options),
        Action::Check | Action::Directives => dump::run(&options),
        Action::Start => start::run(&options),
        // A server that was started with `-k restart`, for example, starts its successor with the same command line.
        Action::Signal(_) if sys::notify::predecessor().is_some() => start::run(&options),
        Action::Signal(signal) => control::run(&options, *signal),
    }
}
