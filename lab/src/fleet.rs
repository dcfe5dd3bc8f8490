//! `tsubame-lab run fleet`: whether three machines serve as one, and what clients notice when one of them fails.
//!
//! Each machine is a node: a tsubame in a network namespace ([`network`]) and a control group ([`group`]) of its own. HAProxy
//! stands in front ([`haproxy`]), beside it sometimes a [`store`]. [`capacity`] asks how much the nodes do together, [`failures`] what a failure costs.

mod capacity;
mod clients;
mod failures;
mod group;
mod haproxy;
mod network;
mod node;
mod page;
mod report;
mod results;
mod store;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;

use crate::machine::balance::Balance;
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::host::{self, Host};
use crate::machine::{interrupt, programs};
use crate::screen::progress;
use capacity::{ARRANGEMENTS, Arrangement};
use failures::{FAILURES, Failure, Times};
use network::Network;
use node::Equipment;
use results::{Results, SCHEMA};

/// The options of `run fleet`.
#[derive(Args)]
pub(crate) struct FleetOptions {
    /// How often each arrangement and each failure is measured [default: 3, or 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,

    /// Length of one measurement of capacity in seconds [default: 20, or 5 with --quick]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: Option<u32>,

    /// Only these arrangements and failures, by the names that an unknown one is answered with
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    only: Vec<String>,

    /// One short round: shows that everything works, proves nothing
    #[arg(long)]
    quick: bool,

    /// The tsubame program to measure [default: target/dist/tsubame of the workspace around the current directory, or else target/release/tsubame]
    #[arg(long, value_name = "PATH")]
    tsubame: Option<PathBuf>,

    /// Keep results.json, raw.csv, setup.txt, report.md and report.html here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print results.json instead of tables
    #[arg(long)]
    json: bool,
}

/// How much the nice value of the clients and of the balancer changes: what they do must not depend on what else runs on
/// the machine.
const PRECEDENCE: i32 = -10;

/// Runs `tsubame-lab run fleet`.
pub(crate) fn run(options: &FleetOptions) -> Result<()> {
    let wanted = wanted(&options.only)?;
    network::check()?;
    let haproxy = haproxy::find()?;
    let program = programs::find_tsubame(options.tsubame.as_deref())?
        .ok_or_else(|| Error::new("tsubame is not here").advise("cargo build --profile dist, or --tsubame PATH"))?;
    interrupt::catch()?;
    if let Some(directory) = &options.out {
        std::fs::create_dir_all(directory).context(|| format!("create {}", directory.display()))?;
    }
    // If that is not allowed, the figures are only less steady.
    let _ = rustix::process::nice(PRECEDENCE);
    group::clear_leftovers();
    let equipment = Rc::new(Equipment::make(program)?);
    let network = Rc::new(Network::make(failures::NODES)?);
    let mut run = Run { results: Run::results(options, &equipment, &haproxy), equipment, network, haproxy };
    run.take(&wanted, options)?;
    match options.json {
        true => say_line!("{}", run.results.to_json()?),
        false => report::print(&run.results),
    }
    if let Some(directory) = &options.out {
        warn_line!("report.html, report.md, results.json, raw.csv and setup.txt are in {}", directory.display());
    }
    match run.results.capacities.is_empty() && run.results.failures.is_empty() {
        true => Err(Error::new("nothing was measured")),
        false => Ok(()),
    }
}

/// Something to measure.
#[derive(Clone, Copy)]
enum Step {
    Capacity(&'static Arrangement),
    Failure(&'static Failure),
}

impl Step {
    fn id(self) -> &'static str {
        match self {
            Self::Capacity(arrangement) => arrangement.id,
            Self::Failure(failure) => failure.id,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Capacity(arrangement) => arrangement.title,
            Self::Failure(failure) => failure.title,
        }
    }
}

/// What the user wants to have measured: everything, or what has one of these names.
fn wanted(only: &[String]) -> Result<Vec<Step>> {
    let all = ARRANGEMENTS.iter().map(Step::Capacity).chain(FAILURES.iter().map(Step::Failure));
    let names: Vec<&str> = all.clone().map(Step::id).collect();
    match only.iter().find(|name| !names.contains(&name.as_str())) {
        Some(name) => {
            let what = format!("no arrangement and no failure is called {name:?}");
            Err(Error::new(what).advise(format!("one of {}", names.join(", "))))
        }
        None => Ok(all.filter(|step| only.is_empty() || only.iter().any(|name| name == step.id())).collect()),
    }
}

/// A run in progress. Fields are dropped in their order.
struct Run {
    results: Results,
    network: Rc<Network>,
    equipment: Rc<Equipment>,
    haproxy: PathBuf,
}

impl Run {
    fn results(options: &FleetOptions, equipment: &Equipment, haproxy: &Path) -> Results {
        let front = |agent| format!("haproxy.cfg ({agent})");
        let [plain, agent] =
            [false, true].map(|agent| haproxy::configuration(&[100; failures::NODES], Balance::Roundrobin, agent));
        Results {
            schema: SCHEMA,
            experiment: "fleet".to_owned(),
            started: host::now(),
            host: Host::observe(),
            tsubame: version(&equipment.program),
            haproxy: programs::version_of(haproxy, &["-v"]).unwrap_or_default(),
            rounds: options.rounds.unwrap_or(if options.quick { 1 } else { 3 }),
            seconds: options.seconds.unwrap_or(if options.quick { 5 } else { 20 }),
            configurations: vec![
                ("httpd.conf of the first node".to_owned(), equipment.configuration(0, false)),
                ("httpd.conf with a store".to_owned(), equipment.configuration(0, true)),
                (front("without agent"), plain),
                (front("with agent"), agent),
                (front("for failures"), failures::front_configuration()),
            ],
            capacities: Vec::new(),
            failures: Vec::new(),
            absences: Vec::new(),
        }
    }

    /// Takes the measurements: everything once before anything is measured again.
    fn take(&mut self, wanted: &[Step], options: &FleetOptions) -> Result<()> {
        let rounds = self.results.rounds;
        let bar = progress::bar(wanted.len() * rounds as usize);
        for round in 1..=rounds {
            for step in wanted {
                progress::announce(&bar, &format!("{} round {round}: {}", step.id(), step.title()));
                let outcome = self.measure(*step, round, options.quick);
                interrupt::check()?;
                if let Err(error) = outcome {
                    self.results.absences.push(format!("{} is not measured in round {round}: {error}", step.id()));
                }
                if let Some(directory) = &options.out {
                    self.results.save(directory)?;
                    write_file(directory.join("report.md"), report::markdown(&self.results))?;
                    write_file(directory.join("report.html"), page::page(&self.results))?;
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn measure(&mut self, step: Step, round: u32, quick: bool) -> Result<()> {
        let Self { equipment, network, haproxy, results } = self;
        match step {
            Step::Capacity(arrangement) => {
                results.capacities.push(arrangement.measure(equipment, network, haproxy, round, results.seconds)?);
            }
            Step::Failure(failure) => {
                let [before, during, after] = if quick { [2, 3, 2] } else { [4, 8, 6] }.map(Duration::from_secs);
                let times = Times { before, during, after };
                results.failures.push(failure.measure(equipment, network, haproxy, round, times)?);
            }
        }
        Ok(())
    }
}

/// The version of tsubame, and the profile that it was built with, if its directory tells.
fn version(program: &Path) -> String {
    let version = programs::version_of(program, &["-v"]).unwrap_or_default();
    let directory = program.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    match directory.filter(|name| ["debug", "release", "dist"].contains(name)) {
        Some(profile) => format!("{version} (built with the profile {profile})"),
        None => version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let error = wanted(&["kiled".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("killed, frozen") && error.contains("equal-leastconn-agent"), "{error}");
        assert_eq!(wanted(&[]).unwrap().len(), ARRANGEMENTS.len() + FAILURES.len());
        assert_eq!(wanted(&["one".to_owned()]).unwrap().len(), 1);
    }

    #[test]
    fn the_directory_tells_the_profile() {
        assert!(version(Path::new("/x/target/dist/tsubame")).ends_with("(built with the profile dist)"));
        assert_eq!(version(Path::new("/usr/sbin/tsubame")), "");
    }
}
