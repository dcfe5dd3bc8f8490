//! `tsubame-lab`: measures Tsubame beside Apache, nginx and others, on your own machine.
//!
//! The laboratory is a client: it shares no code with the server, so that a mistake in one cannot hide in the other.
//!
//! A folder uses only those before it: [`machine`] and [`screen`] are the ground, [`load`] is the generator and
//! [`frontends`] its command lines; [`experiments`] defines the measurements and the servers, [`measure`] takes one of
//! them, and [`report`] evaluates and presents a run; [`fleet`] is an experiment with machines of its own; [`compare`],
//! [`count`], [`simulate`], [`switch`], [`tune`] and [`watch`] are commands of their own.
//! [`run`] takes all measurements of an experiment in turn.

#![forbid(unsafe_code)]

#[macro_use]
mod screen;

mod cli;
mod compare;
mod count;
mod doctor;
mod experiments;
mod fleet;
mod frontends;
mod list;
mod load;
mod machine;
mod man;
mod measure;
mod page;
mod report;
mod run;
mod simulate;
mod switch;
mod tune;
mod watch;

use std::process::ExitCode;

use cli::{Command, Parts};

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
        Command::Run(experiment) => match experiment.parts() {
            Parts::Tables(experiments, options) => run::run(&experiments, options),
            Parts::Fleet(options) => fleet::run(options),
        },
        Command::Stat(options) => watch::stat::run(&options),
        Command::Top(options) => watch::top::run(&options),
        Command::Report(options) => report::rewrite(&options.dir),
        Command::Doctor(options) => doctor::examine(&options),
        Command::List => list::print(),
        Command::Man => man::print(),
        Command::Completions(options) => {
            say_line!("{}", options.text().trim_end());
            Ok(())
        }
        Command::Floor(options) => measure::floor::serve(&options),
        Command::Load(options) => frontends::load::run(&options),
        Command::Advise(options) => tune::advise::run(&options),
        Command::Count(options) => count::run(&options),
        Command::Switch(options) => switch::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Tune(options) => tune::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Ab(options) => frontends::ab::run(&options),
        Command::Weighttp(options) => frontends::weighttp::run(&options),
        Command::Httperf(options) => frontends::httperf::run(&options),
        Command::LoadCopy => load::subprocesses::serve(),
        Command::IdleCopy => measure::idle_connections::serve(),
        Command::Launch(options) => machine::launch::exec(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn_line!("{}: {error}", screen::style::bad_stderr("tsubame-lab"));
            ExitCode::from(error.status())
        }
    }
}
