//! Where requests come from: access logs, the configuration, the files, and files of requests.

mod changes;
mod collection;
mod configuration;
mod files;
mod logs;
mod pattern;
mod requests;
mod walk;

use std::collections::{BTreeSet, HashSet};

pub(crate) use collection::{Busiest, Collected, Given};
pub(crate) use logs::logs;

use super::ask::Unsendable;
use super::endpoints::Endpoints;
use super::explain::Explainer;
use super::options::{Source, SwitchOptions};
use super::tree::all;
use crate::machine::error::Result;
use crate::machine::interrupt;
use walk::{Ground, Walked};

/// The requests of all sources, each once, those of logs first.
pub(crate) fn collect(given: &Given<'_>) -> Result<Collected> {
    let mut collected = Collected::default();
    for file in &given.options.requests {
        requests::collect(given, file, &mut collected)?;
    }
    let mut walked = Walked::default();
    let grounds: Vec<Ground> = match given.options.sources.iter().any(|source| *source != Source::Logs) {
        true => given.sites.all().iter().map(|site| walked.ground(given, site)).collect(),
        false => Vec::new(),
    };
    for source in &given.options.sources {
        match source {
            Source::Logs => logs::collect(given, &mut collected)?,
            Source::Configuration => configuration::collect(given, &grounds, &mut collected),
            Source::Files => files::collect(given, &grounds, &mut collected),
        }
    }
    collected.notes.extend(walked.notes());
    Ok(collected)
}

/// Leaves out what must not be sent: what could change something, what is no request, and what runs scripts, unless the
/// administrator wants that. Explains all others.
pub(crate) fn keep_harmless(
    collected: &mut Collected,
    options: &SwitchOptions,
    explainer: &mut Explainer,
    endpoints: &Endpoints,
) -> Result<()> {
    let mut known = HashSet::new();
    for sample in std::mem::take(&mut collected.found) {
        interrupt::check()?;
        if sample.due.is_none() && !known.insert(sample.ask.clone()) {
            continue;
        }
        if collected.samples.len() >= options.limit as usize {
            collected.unsendable.entry(Unsendable::Beyond).or_default().add(sample.weight);
            continue;
        }
        if let Some(why) = sample.ask.refusal(options.allows_unsafe) {
            collected.unsendable.entry(why).or_default().add(sample.weight);
            continue;
        }
        let explanation = explainer.explain(&sample.ask, endpoints)?;
        match explanation.runs && !options.scripts {
            true => collected.scripts.add(sample.weight),
            false => collected.samples.push((sample, explanation)),
        }
    }
    Ok(())
}

/// The most error documents that are explained.
const PAGES_MAX: usize = 2000;

/// The paths of `ErrorDocument`s that a script or a backend makes, for any site.
pub(crate) fn pages_that_run(given: &Given<'_>, explainer: &mut Explainer) -> Result<BTreeSet<String>> {
    let lines = all(&given.installed.tree).filter(|directive| directive.is("ErrorDocument"));
    let paths: BTreeSet<String> =
        lines.filter_map(|line| line.words().get(1).filter(|path| path.starts_with('/')).cloned()).collect();
    let mut running = BTreeSet::new();
    let pairs = paths.iter().flat_map(|path| (0..given.sites.all().len()).map(move |site| (site, path)));
    for (site, path) in pairs.take(PAGES_MAX) {
        interrupt::check()?;
        if let Some(ask) = given.ask(site, path)
            && explainer.explain(&ask, given.endpoints)?.runs
        {
            running.insert(path.clone());
        }
    }
    Ok(running)
}
