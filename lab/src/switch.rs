//! `tsubame-lab switch`: proves, on an administrator's own configuration, files and traffic, that Tsubame answers as Apache does.
//!
//! The installed Apache and Tsubame start beside the live server, each in a place of its own ([`private`], [`pair`]), from the
//! tree that Apache itself has read ([`tree`]). Both are asked the same ([`sources`]), the answers are compared without what
//! belongs to a place or a moment ([`neutral`], [`difference`]), and differences of one cause are one finding ([`findings`]).

mod answer;
mod ask;
mod comparison;
mod copies;
mod cost;
mod difference;
mod endpoints;
mod explain;
mod findings;
mod log;

mod meant;
mod neutral;
mod pair;
mod private;
mod reading;
mod reduce;
mod report;
mod sites;
mod sources;
mod tree;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::machine::error::{Error, Result, write_file};
use crate::machine::scratch::Scratch;
use crate::machine::{interrupt, programs};
use comparison::Comparison;
use endpoints::{Endpoints, Network};
use explain::Explainer;
use pair::Start;
use report::Report;
use sites::Sites;
use sources::Source;
use tree::Program;

/// The exit status if there are findings that `--fail-on` names.
const DIFFERENT: u8 = 3;

/// The options of `switch`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SwitchOptions {
    /// The configuration of the live server
    #[arg(short = 'f', long = "file", value_name = "FILE", default_value = "/etc/apache2/apache2.conf")]
    file: PathBuf,

    /// A name for <IfDefine>, as the live server has it
    #[arg(short = 'D', value_name = "NAME")]
    defines: Vec<String>,

    /// Where requests come from
    #[arg(long = "from", value_name = "SOURCE", value_delimiter = ',', default_values = ["logs", "configuration", "files"])]
    sources: Vec<Source>,

    /// An access log, instead of those that the configuration names; its rotated and compressed siblings belong to it
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,

    /// Also the requests in a file: HAR, as browsers save it, or lines of curl
    #[arg(long, value_name = "FILE")]
    requests: Vec<PathBuf>,

    /// A user for pages that want one; without any, they are asked only as a stranger
    #[arg(long, value_name = "NAME:PASSWORD")]
    user: Option<String>,

    /// Ask this many different requests at most, the most frequent ones first
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    limit: usize,

    /// Send every line of the logs, in their order, so many times as fast as they came: 1 is their own pace
    #[arg(long, value_name = "TIMES", value_parser = speed)]
    speed: Option<f64>,

    /// Run scripts and ask backends, too: each request runs them twice, or more often where answers differ. As root each server has
    /// a copy of all files, in memory; databases and backends are the real ones
    #[arg(long)]
    scripts: bool,

    /// Send methods that can change something, too: only as root, because each server needs a copy of all files
    #[arg(long = "unsafe", conflicts_with = "in_place")]
    allows_unsafe: bool,

    /// Let scripts write where they are, without copies
    #[arg(long)]
    in_place: bool,

    /// How long a server may take to answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,

    /// Measure the cost of the logs' requests in this many rounds; 0 leaves that out
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    rounds: u32,

    /// Which differences make the exit status 3
    #[arg(long, value_name = "WHICH", default_value = "unexplained")]
    fail_on: FailOn,

    /// The Apache to compare with [default: apache2 or httpd, as installed]
    #[arg(long, value_name = "PATH")]
    apache: Option<PathBuf>,

    /// The tsubame to compare [default: as in `run http`, or the installed one]
    #[arg(long, value_name = "PATH")]
    tsubame: Option<PathBuf>,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,

    /// Write the report for a browser to a file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl SwitchOptions {
    /// Whether the servers write to copies of the files. A plain user's scripts write where that user may, unless something is
    /// sent that is meant to change files.
    fn has_copies(&self) -> bool {
        let is_root = rustix::process::geteuid().is_root();
        self.allows_unsafe || (self.scripts && !self.in_place && is_root)
    }
}

/// Which findings make a run fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Those that the list of differences does not name
    Unexplained,
    /// All
    Any,
    /// None
    Never,
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    text.parse()
        .ok()
        .filter(|times| (0.001..=1e6).contains(times))
        .ok_or_else(|| "a number from 0.001 to 1000000".to_owned())
}

/// Runs `tsubame-lab switch`.
pub(crate) fn run(options: &SwitchOptions) -> Result<()> {
    interrupt::catch()?;
    let [mut apache, tsubame] = programs_of(options)?;
    let scratch = Scratch::new()?;
    let file = std::path::absolute(&options.file).map_err(|error| Error::new(error.to_string()))?;
    warn_line!("reading {} with {}", file.display(), apache.path.display());
    apache.replace_keys(&file, scratch.path())?;
    let tsubame = tsubame.with_keys_of(&apache);
    let installed = apache.read(&file)?;
    let reading = reading::differences(&installed.tree, &tsubame.tree(&file)?);
    let networks = Network::own();
    let endpoints = Endpoints::of(&installed.tree, networks)?;
    let sites = Sites::of(&installed.tree, &endpoints);

    let mut explainer = Explainer::start(&tsubame, &file)?;
    let given = sources::Given { options, installed: &installed, endpoints: &endpoints, sites: &sites };
    let mut collected = given.collect()?;
    for key in apache.replaced_keys() {
        collected.notes.push(format!("{} may be read only by root: another key stands for it", key.display()));
    }
    sources::keep_harmless(&mut collected, options, &mut explainer, &endpoints)?;

    let start = Start {
        programs: [&apache, &tsubame],
        installed: &installed,
        endpoints: &endpoints,
        networks,
        sites: &sites,
        scratch: &scratch,
        copies: options.has_copies(),
    };
    let mut pair = start.pair(true)?;
    let patience = Duration::from_secs(options.timeout);
    let comparison = Comparison { endpoints: &endpoints, sites: &sites, patience };
    let compared = comparison.run(&mut pair, &collected.samples)?;
    let has_cost = options.rounds > 0 && collected.samples.iter().any(|(sample, _)| sample.weight > 0);
    let cost = match has_cost {
        true => cost::measure_in_turn(&start.pair(false)?, &endpoints, &collected.samples, options.rounds)?,
        false => None,
    };
    let servers = [&apache, &tsubame].map(|program| programs::version_of(&program.path, &["-v"]).unwrap_or_default());
    let report = Report::new(servers, compared, cost, &collected, &pair, reading);
    match options.json {
        true => say_line!("{}", report.json()?),
        false => say!("{}", report.text()),
    }
    if let Some(path) = &options.html {
        write_file(path, report.page())?;
    }
    let fails = match options.fail_on {
        FailOn::Unexplained => report.unexplained() > 0,
        FailOn::Any => report.all() > 0,
        FailOn::Never => false,
    };
    match fails {
        true => Err(Error::new("the servers do not answer alike").ending_with(DIFFERENT)),
        false => Ok(()),
    }
}

/// Both programs.
fn programs_of(options: &SwitchOptions) -> Result<[Program; 2]> {
    let apache = options.apache.clone().or_else(|| programs::find(&["apache2", "httpd"]));
    let apache = apache.ok_or_else(|| Error::new("Apache is not here, so there is nothing to compare with"))?;
    let found = programs::find_tsubame(options.tsubame.as_deref())?.or_else(|| programs::find(&["tsubame"]));
    let tsubame = found.ok_or_else(|| Error::new("tsubame is not here").advise("--tsubame PATH"))?;
    Ok([
        Program::new(apache, &options.file, &options.defines)?,
        Program::new(tsubame, &options.file, &options.defines)?,
    ])
}
