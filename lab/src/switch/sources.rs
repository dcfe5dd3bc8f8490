//! Where requests come from: access logs, the configuration, the files, and files of requests.

mod configuration;
mod files;
mod logs;

use std::collections::{BTreeMap, HashSet};

use clap::ValueEnum;

pub(crate) use logs::Busiest;

use super::SwitchOptions;
use super::ask::{Ask, Sample, Unsendable};
use super::comparison::Explained;
use super::endpoints::Endpoints;
use super::explain::Explainer;
use super::findings::Count;
use super::sites::{Site, Sites};
use super::tree::Installed;
use crate::machine::error::Result;
use crate::machine::interrupt;

/// Where requests come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// What clients asked, from access logs
    Logs,
    /// What each line of the configuration is about, and what just misses that line
    Configuration,
    /// One file of each kind, in all forms
    Files,
}

/// What requests are made from.
#[derive(Debug)]
pub(crate) struct Given<'a> {
    pub(crate) options: &'a SwitchOptions,
    pub(crate) installed: &'a Installed,
    pub(crate) endpoints: &'a Endpoints,
    pub(crate) sites: &'a Sites,
}

/// The requests to ask.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Without those that are left out.
    pub(crate) samples: Vec<Explained>,
    /// As they were found.
    found: Vec<Sample>,
    /// Requests that are not sent, by reason.
    pub(crate) unsendable: BTreeMap<Unsendable, Count>,
    /// Requests that would run a script or ask a backend.
    pub(crate) scripts: Count,
    /// How busy the logs were, if their lines have times.
    pub(crate) busiest: Option<Busiest>,
    /// What else has to be said.
    pub(crate) notes: Vec<String>,
}

impl Given<'_> {
    /// The requests of all sources, each once, those of logs first.
    pub(crate) fn collect(&self) -> Result<Collected> {
        let mut collected = Collected::default();
        for source in &self.options.sources {
            match source {
                Source::Logs => logs::collect(self, &mut collected)?,
                Source::Configuration => configuration::collect(self, &mut collected),
                Source::Files => files::collect(self, &mut collected),
            }
        }
        Ok(collected)
    }

    /// A request to a site, as a simple client makes it; none if nothing listens for the site.
    pub(crate) fn ask(&self, number: usize, target: &str) -> Option<Ask> {
        let site = self.sites.all().get(number)?;
        Some(Ask {
            site: number,
            endpoint: site.endpoint()?,
            is_encrypted: site.is_encrypted,
            method: "GET".to_owned(),
            target: target.as_bytes().to_vec(),
            minor: 1,
            host: Some(host(site)),
            fields: Vec::new(),
            client: None,
            body: Vec::new(),
        })
    }
}

/// What a client says in `Host` to reach a site.
fn host(site: &Site) -> String {
    let alias = || site.aliases.iter().find(|alias| !alias.contains(['*', '?'])).cloned();
    let name = Some(site.name.clone()).filter(|name| !name.is_empty());
    name.or_else(alias).unwrap_or_else(|| "localhost".to_owned())
}

impl Collected {
    /// Adds a request.
    pub(crate) fn add(&mut self, sample: Sample) {
        self.found.push(sample);
    }

    /// Adds some.
    fn add_all(&mut self, samples: impl IntoIterator<Item = Sample>) {
        self.found.extend(samples);
    }
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
        if collected.samples.len() >= options.limit {
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
