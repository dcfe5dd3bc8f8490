//! `tsubame-lab tune`: searches for better settings of a server's multi-processing module, and proves that they are
//! better.
//!
//! [`space`](mod@space) defines the candidates and [`memory`] excludes those that do not fit, [`httpd`] and [`nginx`] write them
//! into copies of a configuration ([`base`]), [`trial`] measures one, [`halving`] and [`search`] find the best,
//! [`verdict`] interprets the result, and [`findings`] presents it.

pub(crate) mod advise;
mod base;
mod findings;
mod halving;
mod httpd;
mod memory;
mod nginx;
mod search;
mod space;
mod surface;
mod trial;
mod verdict;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use crate::compare::{self, Calm, Cores, Side, Starter, in_turn};
use crate::frontends::load::LoadOptions;
use crate::machine::descriptors;
use crate::machine::duration::duration;
use crate::machine::error::{Error, Result};
use crate::machine::host::{Host, allowed_cores};
use crate::machine::interrupt;
use crate::machine::launch;
use crate::machine::programs;
use crate::screen::progress;
use crate::screen::table::Table;
use crate::tune::advise::memory::{AvailableMemory, UsedMemory};
use base::Base;
use findings::Findings;
use memory::Memory;
use search::{Evaluation, Search};
use space::{Candidate, EffectiveSettings, Mpm, SpaceLimits, mix, space};
use trial::{Destination, Goal, Trials};
use verdict::{Case, Outcome, Proof};

/// The options of `tune`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("urls", |arg| arg.required(false).action(clap::ArgAction::Set).num_args(0..=1).value_name("CONF").help("The configuration to tune; it is not changed [default: a small one that serves a file of 31 bytes]")))]
#[command(mut_arg("csv", |arg| arg.hide(true)))]
#[command(mut_arg("requests", |arg| arg.hide(true)))]
#[command(mut_arg("duration", |arg| arg.default_value("3s").help("How long each measurement of the last comparison takes")))]
#[command(mut_arg("warm_up", |arg| arg.default_value("300ms")))]
#[command(mut_arg("connections", |arg| arg.default_value("100")))]
pub(crate) struct TuneOptions {
    #[command(flatten)]
    load: LoadOptions,

    /// The server: apache2, nginx, tsubame, or the path of any that has the command line of one of these [default: tsubame]
    #[arg(long, value_name = "PROGRAM")]
    server: Option<String>,

    /// The path to request, at the first address the server listens on [default: /]
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    path: Option<String>,

    /// The URL to request, at an address of this machine that the configuration listens on
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The multi-processing modules to try [default: that of the configuration]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    mpm: Vec<Mpm>,

    /// The goal of the search [default: rate, or cpu with --rate]
    #[arg(long = "for", value_name = "GOAL")]
    goal: Option<Goal>,

    /// How long to search, before the last comparison
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    budget: Duration,

    /// How often the best and the current settings are measured in turn at the end
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// The fewest workers to recommend, all children together: so many slow requests at once stop a site [default:
    /// twice the cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=20_000))]
    least_workers: Option<u64>,

    /// Write tune.html, tune.json and fragment.conf here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tsubame-lab tune --server apache2 --close                   a small configuration: just to see
  tsubame-lab tune my.conf --server apache2 --path /index.html -c 200 --out DIR
  tsubame-lab tune my.conf --server apache2 --mpm event,worker,prefork --budget 15m
  tsubame-lab tune nginx.conf --server nginx --url http://localhost:8080/ --for p99
Start as root what needs root. Stop a server that listens at the same port, or tune a copy with another one.
The servers have the cores that the load generator leaves. Let nothing else run meanwhile.";

/// How long the current settings are measured for their memory.
const MEMORY_TIME: Duration = Duration::from_secs(2);

/// The fraction of the budget for which the search may wait until other programs leave the cores alone.
const SEARCH_PATIENCE: u32 = 4;

/// How long the last comparison may wait for that.
const PROOF_PATIENCE: Duration = Duration::from_secs(30);

/// Runs `tsubame-lab tune`.
pub(crate) fn run(options: &TuneOptions) -> Result<()> {
    interrupt::catch()?;
    let host = Host::observe();
    let descriptors = descriptors::raise_limit()?;
    let all = allowed_cores()?;
    let cores = Cores::divide(&all, options.load.threads());
    let starter = Starter::new(options.server.as_deref(), &cores.server, descriptors)?;
    launch::pin(&cores.generator)?;
    let (configuration, path) = match options.load.urls.first() {
        Some(file) => (PathBuf::from(file), "/".to_owned()),
        None => base::own(&starter, starter.scratch())?,
    };
    let base = Base::read(&starter, &configuration)?;
    let destination = match &options.url {
        Some(url) => Destination::Url(url.clone()),
        None => Destination::Path(options.path.clone().unwrap_or(path)),
    };
    let trials = Trials { starter, load: &options.load, destination, cores: all, calm: Calm::default() };
    let findings = Tuning { options, trials: &trials, base: &base, cores: &cores }.findings(host)?;
    if let Some(directory) = &options.out {
        findings.write(directory)?;
    }
    match options.load.json {
        true => say_line!("{}", findings.to_json()?),
        false => say!("{}", findings.to_text()),
    }
    if let Some(directory) = &options.out {
        warn_line!("tune.html and tune.json are in {}", directory.display());
    }
    interrupt::check()
}

/// Tuning one configuration.
struct Tuning<'t> {
    options: &'t TuneOptions,
    trials: &'t Trials<'t>,
    base: &'t Base,
    cores: &'t Cores,
}

/// What the search has measured.
struct Explored {
    /// The best first.
    tried: Vec<Evaluation>,
    /// How many settings had no turn.
    left_over: usize,
    bar: indicatif::ProgressBar,
}

/// The error of a search in which no measurement succeeded.
fn nothing_measured(tried: &[Evaluation]) -> Error {
    let failure = tried.iter().find_map(|tried| tried.failure.clone());
    let why = failure.unwrap_or_else(|| "the time was too short".to_owned());
    Error::new(format!("nothing could be measured: {why}")).advise("a longer --budget")
}

impl Tuning<'_> {
    /// The fewest workers to recommend.
    fn least(&self) -> u64 {
        self.options.least_workers.unwrap_or(2 * self.trials.cores.len() as u64)
    }

    fn goal(&self) -> Goal {
        self.options.goal.unwrap_or(if self.options.load.is_paced() { Goal::Cpu } else { Goal::Rate })
    }

    fn findings(&self, host: Host) -> Result<Findings> {
        warn_line!("measuring the present settings ({}: {})", self.base.mpm.name(), self.base.extent);
        let (memory, overhead) = self.present()?;
        let (fitting, too_large) = self.divided(memory)?;
        let Explored { tried, left_over, bar } = self.explore(fitting, memory, overhead);
        let mut findings = Findings {
            server: self.server(),
            load: self.describe(),
            goal: self.goal(),
            host,
            server_cores: self.cores.server.clone(),
            present: self.base.extent,
            memory,
            memory_bound: memory.map(|memory| memory.bound(memory.threads)),
            doubts: self.doubts(memory, &too_large),
            tried,
            too_large,
            proof: None,
            outcome: Outcome::Open,
            verdict: String::new(),
            reasons: Vec::new(),
            fragment: None,
            compared: None,
        };
        let Some(best) = findings.best().cloned() else {
            bar.finish_and_clear();
            return Err(nothing_measured(&findings.tried));
        };
        if left_over > 0 && !interrupt::is_asked() {
            let settings = if left_over == 1 { "one setting".to_owned() } else { format!("{left_over} settings") };
            findings.doubts.push(format!("the time was over before {settings} had a turn: use a longer --budget"));
        }
        self.conclude(&mut findings, &best, &bar);
        bar.finish_and_clear();
        if findings.outcome != Outcome::Change {
            // The effect of the settings is worth knowing; why they would be better is not.
            findings.reasons.truncate(1);
        }
        Ok(findings)
    }

    /// Measures the settings that fit, until the time is over.
    fn explore(&self, fitting: Vec<Candidate>, memory: Option<Memory>, overhead: Duration) -> Explored {
        let options = self.options;
        let mut tried = vec![Evaluation::present(self.base.extent)];
        tried.extend(fitting.into_iter().map(Evaluation::new));
        let patience = options.budget / SEARCH_PATIENCE;
        let shortest = search::shortest(tried.len(), options.budget - patience, overhead);
        let bar = progress::bar(search::steps(tried.len()) + 2 * options.rounds as usize);
        let deadline = Instant::now() + options.budget;
        self.trials.calm.grant(patience);
        let (goal, least) = (self.goal(), self.least());
        let mut search =
            Search { trials: self.trials, base: self.base, goal, least, bar: bar.clone(), deadline, tried };
        let ranking = search.run(shortest, memory, self.cores.server.len() as u64);
        let tried: Vec<Evaluation> =
            ranking.into_iter().map(|at| search.tried[at].clone()).filter(Evaluation::is_known).collect();
        let left_over = search.tried.len() - tried.len();
        Explored { tried, left_over, bar }
    }

    /// Measures the best settings against the present ones in turn, and writes down what that proves and why.
    fn conclude(&self, findings: &mut Findings, best: &Evaluation, bar: &indicatif::ProgressBar) {
        let load = findings.load.clone();
        let case = Case {
            best,
            present: self.base.extent,
            clients: self.options.load.clients(),
            cores: self.cores.server.len() as u64,
            memory: findings.memory,
            load: &load,
        };
        findings.reasons = case.reasons();
        let proof = self.proof(best, bar, &mut findings.doubts);
        findings.doubts.extend(case.stops());
        let (disturbed, all) = self.trials.calm.disturbed();
        if disturbed > 0 {
            findings.doubts.push(format!(
                "other programs used the processors when {disturbed} of {all} measurements began: figures vary more, and many threads \
                 look better than they are, since together they get more of the time that is left"
            ));
        }
        let (proof, table) = match proof {
            Ok(proved) => proved,
            Err(error) => {
                findings.verdict = format!(
                    "Nothing is proved ({error}): the best so far is {best}, which comes to {}.",
                    best.comes_to,
                    best = best.name()
                );
                return;
            }
        };
        findings.verdict = proof.describe(best.comes_to, findings.goal);
        findings.outcome = proof.outcome();
        if findings.outcome == Outcome::Change && disturbed * 2 > all {
            findings.outcome = Outcome::Open;
            findings.verdict = format!(
                "Nothing is proved, since other programs used the processors when most measurements began; for what it is worth: {}",
                findings.verdict
            );
        }
        if findings.outcome == Outcome::Change {
            findings.fragment = case.fragment(&proof, findings.goal, &findings.doubts);
        }
        (findings.proof, findings.compared) = (Some(proof), Some(table));
    }

    /// The memory limit, from the needs of the current settings under the load, and how much longer than its load a
    /// trial takes.
    fn present(&self) -> Result<(Option<Memory>, Duration)> {
        let file = self.base.write(None)?;
        let began = Instant::now();
        let mut most: Option<(UsedMemory, Option<AvailableMemory>)> = None;
        let measured = self.trials.measure(&file, MEMORY_TIME, |server| {
            let Some(used) = UsedMemory::of(server) else { return };
            let room = server.roots().first().and_then(|root| AvailableMemory::of(*root));
            most = Some(most.map_or((used, room), |(before, _)| (before.most(used), room)));
        })?;
        if measured.failures >= measured.responses {
            return Err(Error::new(format!(
                "no response is as expected ({}): their status is 400 or above",
                self.describe()
            ))
            .advise("use --path with a page that the server has"));
        }
        let overhead = began.elapsed().saturating_sub(MEMORY_TIME);
        let EffectiveSettings { mpm, children, threads, connections, .. } = self.base.extent;
        let threads = match (mpm, connections) {
            (Mpm::Nginx, Some(connections)) => connections / children.max(1),
            _ => threads,
        };
        let clients = self.options.load.clients();
        let memory = most.and_then(|(used, room)| Some(Memory::of(room?, used, threads, clients)));
        Ok((memory, overhead))
    }

    /// The candidates, and those that could make the machine swap.
    fn divided(&self, memory: Option<Memory>) -> Result<(Vec<Candidate>, Vec<Candidate>)> {
        let clients = self.options.load.clients();
        let frame = SpaceLimits { cores: self.cores.server.len() as u64, clients, least: self.least() };
        let mpms = match &self.options.mpm[..] {
            [] => vec![self.base.mpm],
            _ if self.base.mpm == Mpm::Nginx => {
                return Err(Error::new("nginx has no multi-processing modules").advise("leave out --mpm"));
            }
            mpms => mpms.to_vec(),
        };
        if mpms == [Mpm::Percore] && self.base.mpm == Mpm::Percore {
            return Err(Error::new("percore has no number to set: it starts as many as the processors can use")
                .advise("--mpm percore,event, which compares it with another module"));
        }
        let mut all: Vec<Candidate> = mpms.iter().flat_map(|mpm| space(*mpm, frame)).collect();
        mix(&mut all);
        Ok(match memory {
            Some(memory) => memory.divide(all, frame.clients),
            None => (all, Vec::new()),
        })
    }

    /// The best and the current settings, measured in turn.
    fn proof(
        &self,
        best: &Evaluation,
        bar: &indicatif::ProgressBar,
        doubts: &mut Vec<String>,
    ) -> Result<(Proof, Table)> {
        interrupt::check()?;
        let files: [PathBuf; 2] = [self.base.write(best.setting)?, self.base.write(None)?];
        let best = best.name();
        let names = [best.as_str(), "present settings"];
        self.trials.calm.grant(PROOF_PATIENCE);
        let mut sides = names.map(Side::new);
        in_turn(&mut sides, self.options.rounds, |round, side| {
            progress::announce(bar, &format!("round {}: {}", round + 1, side.name));
            let file: &Path = if side.name == names[0] { &files[0] } else { &files[1] };
            let (_server, url) = self.trials.start(file)?;
            side.prepare(&self.options.load, &url)?;
            self.trials.calm.wait(&self.trials.cores)?;
            side.measure()?;
            bar.inc(1);
            Ok(())
        })?;
        for side in &sides {
            doubts.extend(side.doubts.iter().map(|doubt| format!("{}: {doubt}", side.name)));
        }
        Ok((Proof::of(&sides, self.options.rounds, self.goal()), compare::table(&sides, ["found", "present"])))
    }

    /// Its module and its version.
    fn server(&self) -> String {
        let program = self.trials.starter.program();
        let version = programs::version_of(program, &["-v"]).unwrap_or_else(|| program.display().to_string());
        match self.base.mpm {
            Mpm::Nginx => version,
            mpm => format!("{version}, {}", mpm.name()),
        }
    }

    /// The load, in words.
    fn describe(&self) -> String {
        let what = match &self.trials.destination {
            Destination::Path(path) => path,
            Destination::Url(url) => url,
        };
        format!("{}, {what}", self.options.load.describe())
    }

    fn doubts(&self, memory: Option<Memory>, too_large: &[Candidate]) -> Vec<String> {
        let mut doubts = vec![format!(
            "found for {}: tune again with more or fewer connections (-c) if yours are not like that",
            self.options.load.describe()
        )];
        match self.cores.is_apart {
            true => doubts.push(format!(
                "the server had {} of {} cores, the load generator the others: where clients are elsewhere, more children may be better",
                self.cores.server.len(),
                self.cores.server.len() + self.cores.generator.len()
            )),
            false => doubts.push("server and load generator shared all cores: differences are smaller than they would be apart".to_owned()),
        }
        if memory.is_none() {
            doubts.push(
                "the memory of the server could not be read, so nothing was left out for it: run this as root"
                    .to_owned(),
            );
        }
        if !too_large.is_empty() {
            doubts.push(format!("{} settings were left out: they could have made the machine swap", too_large.len()));
        }
        doubts
    }
}
