//! `tsubame-lab switch`: proves, on an administrator's own configuration, files and traffic, that Tsubame answers as Apache does.
//!
//! The installed Apache and Tsubame start beside the live server, each in a place of its own ([`private`], [`pair`]), from the
//! tree that Apache itself has read ([`tree`]). Both are asked the same ([`sources`]), the answers are compared without what
//! belongs to a place or a moment ([`neutral`], [`difference`]), and differences of one cause are one finding ([`findings`]).
//!
//! After the switch, `--watch` compares what the logs say since then with what they said before ([`watch`]).

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
mod options;
mod pair;
mod private;
mod reading;
mod reduce;
mod report;
mod since;
mod sites;
mod sources;
mod tree;
mod watch;

use std::path::Path;
use std::time::Duration;

use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::scratch::Scratch;
use crate::machine::{interrupt, programs};
use comparison::Comparison;
use endpoints::{Endpoints, Network};
use explain::Explainer;
pub(crate) use options::SwitchOptions;
use options::{DIFFERENT, FailOn};
use pair::Start;
use report::Report;
use sites::Sites;
use tree::Program;

/// Runs `tsubame-lab switch`.
pub(crate) fn run(options: &SwitchOptions) -> Result<()> {
    if options.watch {
        return watch::run(options);
    }
    interrupt::catch()?;
    if let Some(parent) = options.html.as_deref().and_then(Path::parent).filter(|parent| *parent != Path::new("")) {
        let missing = || Error::new(format!("there is no directory {}", parent.display())).advise("--html FILE");
        parent.is_dir().then_some(()).ok_or_else(missing)?;
    }
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

    let mut explainer = Explainer::start(&tsubame, &file, &installed.tree)?;
    let given = sources::Given { options, installed: &installed, endpoints: &endpoints, sites: &sites };
    let mut collected = sources::collect(&given)?;
    for key in apache.replaced_keys() {
        collected.notes.push(format!("{} may be read only by root: another key stands for it", key.display()));
    }
    sources::keep_harmless(&mut collected, options, &mut explainer, &endpoints)?;

    let pages_that_run = sources::pages_that_run(&given, &mut explainer)?;
    let start = Start {
        programs: [&apache, &tsubame],
        installed: &installed,
        endpoints: &endpoints,
        networks,
        sites: &sites,
        scratch: &scratch,
        runs_scripts: options.scripts,
        pages_that_run: &pages_that_run,
        copies: options.has_copies(),
    };
    if collected.samples.is_empty() {
        let why = collected.notes.iter().map(|note| format!("\n  {note}")).collect::<String>();
        return Err(Error::new(format!("there is no request to ask{why}")));
    }
    let mut pair = start.pair(true)?;
    let patience = Duration::from_secs(options.timeout);
    let comparison = Comparison { endpoints: &endpoints, sites: &sites, patience };
    let compared = comparison.run(&mut pair, &collected.samples, &mut explainer)?;
    check_room(scratch.path())?;
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

/// The least room that must be left where the servers write, in bytes: on a full disk logs end early, and nobody says so.
const ROOM_MIN: u64 = 4 * 1024 * 1024;

/// Returns an error if there is no room left for the servers' logs.
fn check_room(directory: &Path) -> Result<()> {
    let room = rustix::fs::statvfs(directory).context(|| format!("ask for the room in {}", directory.display()))?;
    match room.f_bavail.saturating_mul(room.f_frsize) < ROOM_MIN {
        true => {
            Err(Error::new(format!("there is no room left in {}: the logs cannot be compared", directory.display()))
                .advise("TMPDIR=DIRECTORY, on a larger disk"))
        }
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
