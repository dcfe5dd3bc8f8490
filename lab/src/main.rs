//! `tsubame-lab`: measures Tsubame beside Apache, nginx and others, on your own machine.
//!
//! The laboratory is a client: it shares no code with the server, so that a mistake in one cannot hide in the other.
//!
//! Reading order: [`experiment`] and [`workload`] define the measurements, [`subject`] and [`config`] the servers,
//! [`bench`] takes one measurement, [`run`] takes all of them in turn, [`summary`] and [`target`] evaluate, [`trust`]
//! lists reasons to doubt the results, [`report`] presents them.

#![forbid(unsafe_code)]

#[macro_use]
mod say;

mod accounting;
mod advise;
mod article;
mod bench;
mod blocks;
mod cage;
mod callers;
mod cli;
mod client;
mod compare;
mod config;
mod copy;
mod course;
mod crowd;
mod doctor;
mod error;
mod experiment;
mod floor;
mod generator;
mod host;
mod hush;
mod identity;
mod interrupt;
mod launch;
mod list;
mod listener;
mod load;
mod man;
mod procfs;
mod programs;
mod progress;
mod reading;
mod report;
mod results;
mod run;
mod scratch;
mod script;
mod server;
mod stat;
mod stats;
mod status;
mod style;
mod subject;
mod summary;
mod table;
mod target;
mod tls;
mod top;
mod trust;
mod tune;
mod workload;

use std::process::ExitCode;

use cli::Command;

fn main() -> ExitCode {
    let command = match cli::read(std::env::args_os()) {
        Ok(cli) => cli.command,
        Err((error, status)) => {
            // If nobody listens, there is nobody to print for.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    let outcome = match command {
        Command::Run(choice) => {
            let (experiments, options) = choice.parts();
            run::run(&experiments, options)
        }
        Command::Stat(options) => stat::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Report(options) => report::rewrite(&options.dir),
        Command::Doctor(options) => doctor::examine(&options),
        Command::List => list::print(),
        Command::Man => man::print(),
        Command::Completions(options) => {
            say_line!("{}", options.text().trim_end());
            Ok(())
        }
        Command::Floor(options) => floor::serve(&options),
        Command::Load(options) => load::face::load::run(&options),
        Command::Advise(options) => advise::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Tune(options) => tune::run(&options),
        Command::Ab(options) => load::face::ab::run(&options),
        Command::Weighttp(options) => load::face::weighttp::run(&options),
        Command::Httperf(options) => load::face::httperf::run(&options),
        Command::LoadCopy => load::copies::serve(),
        Command::CrowdCopy => crowd::serve(),
        Command::Launch(options) => launch::exec(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn_line!("{}: {error}", style::bad_stderr("tsubame-lab"));
            ExitCode::from(error.status())
        }
    }
}
