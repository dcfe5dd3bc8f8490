//! A whole run: its measurements, their order, and their results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;

use crate::experiments::experiment::Experiment;
use crate::experiments::profile::Entry;
use crate::experiments::subject::{self, Subject};
use crate::experiments::workload::Workload;
use crate::machine::error::{Context as _, Error, Result};
use crate::machine::host::{self, Host};
use crate::machine::interrupt;
use crate::machine::programs;
use crate::measure::bench::{Bench, Trial};
use crate::measure::results::{Configuration, Failure, Results, SCHEMA, Sample, SubjectRecord};
use crate::report;
use crate::report::summary::title;
use crate::screen::no_echo::NoEcho;
use crate::screen::progress;

/// Always measured, if the table of workloads has them.
const FLOORS: [&str; 2] = ["floor", "floor-spawn"];

/// The options of `run`.
#[derive(Args)]
pub(crate) struct RunOptions {
    /// How often each server is measured on each workload; fewer than 3 prove nothing [default: 3, or 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,

    /// Length of one measurement in seconds [default: 4, or 1 with --quick]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: Option<u32>,

    /// Only these servers (see `tsubame-lab list`); floors are always measured
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) subjects: Vec<String>,

    /// Only these workloads (see `tsubame-lab list`)
    #[arg(long, value_name = "X,Y", value_delimiter = ',')]
    pub(crate) workloads: Vec<String>,

    /// One round of one second each: shows that everything works, proves nothing
    #[arg(long)]
    pub(crate) quick: bool,

    /// The tsubame program to measure [default: target/dist/tsubame of the workspace around the current directory, or else target/release/tsubame]
    #[arg(long, value_name = "PATH")]
    pub(crate) tsubame: Option<PathBuf>,

    /// Keep results.json, raw.csv, setup.txt, report.md and report.html here; an interrupted run continues
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print results.json instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs `tsubame-lab run ...`: one experiment, or several, each in a directory of its own.
pub(crate) fn run(experiments: &[&'static Experiment], options: &RunOptions) -> Result<()> {
    interrupt::catch()?;
    check_choice(experiments, options)?;
    // The bench moves this process to one core, so the machine is examined before.
    let host = Host::observe();
    let bench = Bench::new()?;
    let host = Host { descriptors: bench.descriptors(), ..host };
    let mut runs = Vec::new();
    for experiment in experiments {
        let selection = Selection::new(experiment, options)?;
        if selection.workloads.is_empty() || selection.programs.is_empty() {
            continue;
        }
        let out = options.out.as_ref().map(|directory| match experiments {
            [_] => directory.clone(),
            _ => directory.join(experiment.id),
        });
        let results = run_one(&bench, &host, experiment, selection, out.as_ref())?;
        finish(&results, options, out.as_ref())?;
        runs.push(results);
    }
    if experiments.len() > 1 && !options.json {
        report::print_articles(&runs.iter().collect::<Vec<_>>());
    }
    match runs.iter().any(|results| !results.samples.is_empty()) {
        true => Ok(()),
        false => Err(Error::new("nothing was measured").advise("tsubame-lab doctor")),
    }
}

/// Takes the measurements that an earlier run into the same directory has not taken.
fn run_one(
    bench: &Bench,
    host: &Host,
    experiment: &'static Experiment,
    selection: Selection,
    out: Option<&PathBuf>,
) -> Result<Results> {
    let mut run = Run {
        results: Results {
            schema: SCHEMA,
            experiment: experiment.id.to_owned(),
            started: host::now(),
            rounds: selection.rounds,
            seconds: selection.seconds,
            accounting: bench.cpu_time_source(),
            host: host.clone(),
            subjects: selection.records,
            samples: Vec::new(),
            failures: Vec::new(),
        },
        programs: selection.programs,
        bench,
    };
    if let Some(directory) = out {
        std::fs::create_dir_all(directory).context(|| format!("create {}", directory.display()))?;
        if let Some(earlier) = Results::load_if_any(directory)? {
            run.resume(earlier, directory)?;
        }
    }
    let steps = steps(&selection.workloads, selection.rounds, |subject| run.programs.contains_key(subject));
    run.take(&steps, out)?;
    Ok(run.results)
}

fn finish(results: &Results, options: &RunOptions, out: Option<&PathBuf>) -> Result<()> {
    if options.json {
        say_line!("{}", results.to_json()?);
    } else {
        report::print(results);
    }
    if let Some(directory) = out {
        warn_line!("report.html, report.md, results.json, raw.csv and setup.txt are in {}", directory.display());
    }
    Ok(())
}

/// Refuses unknown names.
fn check_choice(experiments: &[&'static Experiment], options: &RunOptions) -> Result<()> {
    let workloads = experiments.iter().flat_map(|experiment| experiment.workloads);
    let subjects = experiments.iter().flat_map(|experiment| experiment.subjects());
    let workload_ids: Vec<&str> = workloads.map(|workload| workload.id).collect();
    let subject_ids: BTreeSet<&str> = subjects.map(|subject| subject.id).collect();
    check_names("workload", &options.workloads, &workload_ids)?;
    check_names("subject", &options.subjects, &Vec::from_iter(subject_ids))
}

/// The effect of the options.
struct Selection {
    rounds: u32,
    seconds: u32,
    workloads: Vec<&'static Workload>,
    programs: BTreeMap<&'static str, PathBuf>,
    records: Vec<SubjectRecord>,
}

impl Selection {
    fn new(experiment: &'static Experiment, options: &RunOptions) -> Result<Self> {
        let tsubame = programs::find_tsubame(options.tsubame.as_deref())?;
        let wanted = |id: &str, chosen: &[String]| chosen.is_empty() || chosen.iter().any(|name| name == id);
        let mut programs = BTreeMap::new();
        let mut records = Vec::new();
        for subject in experiment.subjects() {
            if !FLOORS.contains(&subject.id) && !wanted(subject.id, &options.subjects) {
                continue;
            }
            let located = subject.program.locate(tsubame.as_deref());
            records.push(record(subject, &located));
            if let Ok(program) = located {
                programs.insert(subject.id, program);
            }
        }
        Ok(Self {
            rounds: options.rounds.unwrap_or(if options.quick { 1 } else { 3 }),
            seconds: options.seconds.unwrap_or(if options.quick { 1 } else { 4 }),
            workloads: experiment.workloads.iter().filter(|workload| wanted(workload.id, &options.workloads)).collect(),
            programs,
            records,
        })
    }
}

fn record(subject: &Subject, located: &std::result::Result<PathBuf, String>) -> SubjectRecord {
    SubjectRecord {
        id: subject.id.to_owned(),
        title: subject.title.to_owned(),
        version: located.as_ref().ok().and_then(|program| programs::version_of(program, subject.version)),
        absent: located.as_ref().err().map(|remedy| format!("not installed; to get it: {remedy}")),
        configurations: Vec::new(),
    }
}

fn check_names(what: &str, asked: &[String], known: &[&str]) -> Result<()> {
    match asked.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Error::new(format!("no {what} is called {name:?}"))
            .advise(format!("one of {}, or `tsubame-lab list`", known.join(", ")))),
        None => Ok(()),
    }
}

/// One measurement to take.
#[derive(Clone, Copy, Debug)]
struct Step {
    workload: &'static Workload,
    round: u32,
    connections: u32,
    entry: Entry,
}

/// All measurements in order: within a workload every subject is measured once before any is measured again.
fn steps(workloads: &[&'static Workload], rounds: u32, is_here: impl Fn(&str) -> bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for workload in workloads {
        for round in 1..=rounds {
            for connections in workload.connections() {
                let entries = workload.entries.iter().filter(|entry| is_here(entry.subject));
                steps.extend(entries.map(|entry| Step { workload, round, connections: *connections, entry: *entry }));
            }
        }
    }
    steps
}

/// A run in progress.
struct Run<'b> {
    bench: &'b Bench,
    programs: BTreeMap<&'static str, PathBuf>,
    results: Results,
}

impl Run<'_> {
    /// Continues an earlier run, if it is the same run.
    fn resume(&mut self, earlier: Results, directory: &Path) -> Result<()> {
        if let Some(difference) = earlier.difference(&self.results) {
            let what = format!("{} has the results of another run ({difference})", directory.display());
            return Err(Error::new(what).advise("another --out, or the settings of that run"));
        }
        let taken = earlier.samples.len() + earlier.failures.len();
        warn_line!("{} has {taken} measurements of this run already; it continues from there", directory.display());
        self.results = earlier;
        Ok(())
    }

    fn is_taken(&self, step: &Step) -> bool {
        let Step { workload, round, connections, entry } = *step;
        let wanted = (workload.id, entry.subject, entry.profile, connections, round);
        let samples = self.results.samples.iter();
        let failures = self.results.failures.iter();
        samples
            .map(|it| (it.workload.as_str(), it.subject.as_str(), it.profile, it.connections, it.round))
            .chain(failures.map(|it| (it.workload.as_str(), it.subject.as_str(), it.profile, it.connections, it.round)))
            .any(|taken| taken == wanted)
    }

    /// Takes the measurements; saves the results after every one, because a run may be interrupted.
    fn take(&mut self, steps: &[Step], out: Option<&PathBuf>) -> Result<()> {
        let progress = progress::bar(steps.len());
        let _no_echo = NoEcho::new();
        for (index, step) in steps.iter().enumerate() {
            if !self.is_taken(step) {
                announce(&progress, step);
                self.measure(step);
                if interrupt::is_asked() {
                    progress.finish_and_clear();
                    return Err(interrupted(out));
                }
                if let Some(directory) = out {
                    self.results.save(directory)?;
                }
            }
            progress.inc(1);
            let next = steps.get(index + 1);
            let round_ends = next.is_none_or(|next| (next.workload.id, next.round) != (step.workload.id, step.round));
            if let Some(directory) = out.filter(|_| round_ends) {
                report::write(&self.results, directory)?;
            }
        }
        progress.finish_and_clear();
        Ok(())
    }

    /// A server that cannot be measured must not spoil the others: its failure is a result too.
    fn measure(&mut self, step: &Step) {
        let Entry { subject: id, profile } = step.entry;
        let (Some(subject), Some(program)) = (subject::find(id), self.programs.get(id)) else {
            return;
        };
        let trial = Trial {
            subject,
            program,
            profile,
            shape: &step.workload.shape,
            connections: step.connections,
            seconds: self.results.seconds,
        };
        let outcome = self.bench.measure(&trial);
        // Half a measurement does not count.
        if interrupt::is_asked() {
            return;
        }
        match outcome {
            Ok((measure, configuration)) => {
                self.results.samples.push(Sample {
                    workload: step.workload.id.to_owned(),
                    subject: id.to_owned(),
                    profile,
                    connections: step.connections,
                    round: step.round,
                    measure,
                });
                self.keep(id, configuration);
            }
            Err(error) => self.results.failures.push(Failure {
                workload: step.workload.id.to_owned(),
                subject: id.to_owned(),
                profile,
                connections: step.connections,
                round: step.round,
                reason: error.to_string(),
            }),
        }
    }

    /// Keeps the first configuration of each kind; later ones differ in the port only.
    fn keep(&mut self, id: &str, configuration: Configuration) {
        let record = self.results.subjects.iter_mut().find(|record| record.id == id);
        if let Some(record) = record
            && record.configurations.iter().all(|kept| kept.profile != configuration.profile)
        {
            record.configurations.push(configuration);
        }
    }
}

fn interrupted(out: Option<&PathBuf>) -> Error {
    let error = Error::new("the run was interrupted; everything that it started is gone");
    match out {
        Some(directory) => {
            error.advise(format!("the same command again, which continues with the results in {}", directory.display()))
        }
        None => error.advise("--out DIR, which keeps what was measured, so that the same command can continue"),
    }
}

/// Announces the current measurement.
fn announce(bar: &ProgressBar, step: &Step) {
    let Step { workload, round, connections, entry } = step;
    let what = workload.noun();
    progress::announce(bar, &format!("{} round {round}: {}, {connections} {what}", workload.id, title(*entry)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::find_workload;

    #[test]
    fn rounds_alternate_over_all_subjects() {
        let keepalive = find_workload("keepalive").unwrap();
        let here = ["floor", "nginx", "h2o"];
        let steps = steps(&[keepalive], 2, |subject| here.contains(&subject));
        let order: Vec<(u32, &str)> = steps.iter().map(|step| (step.round, step.entry.subject)).collect();
        let expected = [(1, "floor"), (1, "nginx"), (1, "h2o"), (2, "floor"), (2, "nginx"), (2, "h2o")];
        assert_eq!(order, expected);
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let error = check_names("workload", &["keepalife".to_owned()], &["keepalive", "close"]).unwrap_err();
        assert!(error.to_string().contains("keepalive, close"), "{error}");
        assert!(check_names("workload", &[], &["keepalive"]).is_ok());
    }
}
