//! `tsubame-lab switch --watch`: compares what the access logs say since Tsubame took over with what they said before, and
//! names what changed beyond chance.
//!
//! The logs are read in one pass ([`reading`]): requests are counted by family of URLs ([`families`]), in the hours since the
//! switch and in the same hours of the days before ([`windows`]). How much the days before differ from each other is the
//! yardstick ([`statistics`]) of each difference ([`comparison`]), and the differences of a family are one finding
//! ([`findings`]). Nothing is asked of any server.

mod cell;
mod comparison;
mod families;
mod findings;
mod reading;
mod report;
mod statistics;
mod windows;

use jiff::Zoned;

use super::endpoints::{Endpoints, Network};
use super::log::{Log, format_of};
use super::options::{DIFFERENT, SwitchOptions};
use super::since;
use super::sites::Sites;
use super::sources::{Given, logs};
use super::tree::{Installed, Program};
use crate::machine::error::{Error, Result, write_file};
use crate::machine::scratch::Scratch;
use crate::machine::{interrupt, programs};
use reading::Reader;
use report::Report;
use windows::Windows;

/// What the configuration says.
struct Configured {
    installed: Installed,
    sites: Sites,
    logs: Vec<Log>,
    notes: Vec<String>,
}

/// Runs `tsubame-lab switch --watch`.
pub(super) fn run(options: &SwitchOptions) -> Result<()> {
    interrupt::catch()?;
    let now = Zoned::now();
    let named = named(options);
    let configured = match (&named, options.since) {
        (Some(_), Some(_)) => None,
        _ => Some(configured(options)?),
    };
    let since = match (options.since, &configured) {
        (Some(since), _) => since.moment(&now)?,
        (None, Some(configured)) => since::start_of_server(&configured.installed)?,
        (None, None) => return Err(Error::new("when Tsubame took over is not known").advise("--since TIME")),
    };
    let windows = Windows::new(&since, &now, options.hours)?;
    let (sites, logs, notes) = match configured {
        Some(Configured { sites, logs, notes, .. }) => (Some(sites), logs, notes),
        None => (None, named.unwrap_or_default(), Vec::new()),
    };
    let read = Reader::new(&windows, sites.as_ref()).read(&logs, notes)?;
    let compared = report::is_enough(&read).then(|| {
        let (differences, number) = comparison::differences(&read);
        (findings::findings(&read, differences), number)
    });
    let report = Report::new(&read, &windows, &since, compared);
    match options.json {
        true => say_line!("{}", report.json()?),
        false => say!("{}", report.text()),
    }
    if let Some(path) = &options.html {
        write_file(path, report.page())?;
    }
    match report.worse() {
        0 => Ok(()),
        _ => Err(Error::new("something got worse since the switch").ending_with(DIFFERENT)),
    }
}

/// The logs that were named, if the formats of all of them can be guessed.
fn named(options: &SwitchOptions) -> Option<Vec<Log>> {
    let mut logs = Vec::new();
    for path in &options.logs {
        // What cannot be read is reported when it is read in earnest.
        let format = if path.is_file() { format_of(path).ok()?.map(|guess| guess.format) } else { None };
        let is_empty = path.metadata().is_ok_and(|meta| meta.len() == 0);
        if format.is_none() && !is_empty && path.is_file() {
            return None;
        }
        logs.push(Log { site: 0, host: options.host.clone(), path: path.clone(), format, is_named: true });
    }
    (!logs.is_empty()).then_some(logs)
}

/// Lets Apache print its configuration.
fn configured(options: &SwitchOptions) -> Result<Configured> {
    let apache = options.apache.clone().or_else(|| programs::find(&["apache2", "httpd"]));
    let apache = apache.ok_or_else(|| {
        Error::new("Apache, which prints where the logs are, is not here").advise("--log FILE and --since TIME")
    })?;
    let mut apache = Program::new(apache, &options.file, &options.defines)?;
    let scratch = Scratch::new()?;
    let file = std::path::absolute(&options.file).map_err(|error| Error::new(error.to_string()))?;
    apache.replace_keys(&file, scratch.path())?;
    let installed = apache.read(&file)?;
    let endpoints = Endpoints::of(&installed.tree, Network::own())?;
    let sites = Sites::of(&installed.tree, &endpoints);
    let mut notes = Vec::new();
    let given = Given { options, installed: &installed, endpoints: &endpoints, sites: &sites };
    let logs = logs(&given, &mut notes)?;
    Ok(Configured { logs, notes, sites, installed })
}
