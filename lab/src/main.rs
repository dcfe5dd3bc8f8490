//! `tsubame-lab`: measures Tsubame beside Apache, nginx and others, on the machine of whoever doubts the figures.
//!
//! The laboratory is a client: it shares no code with the server, so that a mistake in one cannot hide in the other.
//!
//! Reading order: [`workload`] says what is measured, [`subject`] and [`config`] on whom, [`bench`] takes one
//! measurement, [`run`] takes all of them in turn, [`summary`] and [`target`] judge, [`trust`] doubts, [`report`] tells.

#![forbid(unsafe_code)]

mod accounting;
mod bench;
mod cli;
mod client;
mod config;
mod doctor;
mod error;
mod floor;
mod host;
mod idle;
mod launch;
mod list;
mod procfs;
mod programs;
mod report;
mod results;
mod run;
mod server;
mod stats;
mod style;
mod subject;
mod summary;
mod table;
mod target;
mod trust;
mod workload;
mod wrk;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command, Experiment};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(Experiment::Http(options)) => run::http(&options),
        Command::Report(options) => report::rewrite(&options.dir),
        Command::Doctor(options) => doctor::examine(&options),
        Command::List => list::print(),
        Command::Floor(options) => floor::serve(&options),
        Command::Launch(options) => launch::exec(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", style::bad_stderr("tsubame-lab"));
            ExitCode::FAILURE
        }
    }
}
