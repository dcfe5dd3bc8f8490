//! What requests are made from, and those that were made.

use std::collections::BTreeMap;

use crate::switch::ask::{Ask, Sample, Unsendable};
use crate::switch::comparison::Explained;
use crate::switch::endpoints::Endpoints;
use crate::switch::findings::Count;
use crate::switch::options::SwitchOptions;
use crate::switch::sites::{Site, Sites};
use crate::switch::tree::Installed;

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
    pub(super) found: Vec<Sample>,
    /// Requests that are not sent, by reason.
    pub(crate) unsendable: BTreeMap<Unsendable, Count>,
    /// Requests that would run a script or ask a backend.
    pub(crate) scripts: Count,
    /// How busy the logs were, if their lines have times.
    pub(crate) busiest: Option<Busiest>,
    /// What else has to be said.
    pub(crate) notes: Vec<String>,
}

/// How busy the logs were.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Busiest {
    /// Requests a second in the busiest minute.
    pub(crate) rate: f64,
    /// How many of them were under way at a time, on average; none if the logs have no durations.
    pub(crate) concurrency: Option<f64>,
}

impl Given<'_> {
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
    pub(super) fn add_all(&mut self, samples: impl IntoIterator<Item = Sample>) {
        self.found.extend(samples);
    }
}

/// At most `max` of all lists: the first of each, then the second of each, and so on, so that no list comes short.
pub(super) fn in_turn(lists: Vec<Vec<Sample>>, max: usize) -> Vec<Sample> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    while !lists.is_empty() && all.len() < max {
        lists.retain_mut(|list| match list.next() {
            Some(sample) => {
                all.push(sample);
                true
            }
            None => false,
        });
    }
    all.truncate(max);
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use clap::Parser;

    use super::*;
    use crate::switch::ask::Source;
    use crate::switch::ask::tests::ask;
    use crate::switch::endpoints::Network;
    use crate::switch::tree::{Directive, Origin};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: SwitchOptions,
    }

    /// The directives of a text, one on each line.
    fn tree(lines: &mut dyn Iterator<Item = (usize, &str)>) -> Vec<Directive> {
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next() {
            let line = line.trim();
            if line.starts_with("</") {
                break;
            }
            let content = line.trim_start_matches('<').trim_end_matches('>');
            let (name, arguments) = content.split_once(' ').unwrap_or((content, ""));
            found.push(Directive {
                name: name.to_owned(),
                arguments: arguments.to_owned(),
                origin: Origin { file: "a".into(), line: u32::try_from(number + 1).unwrap() },
                children: line.starts_with('<').then(|| tree(lines)),
            });
        }
        found
    }

    /// Calls `test` for a configuration.
    pub(crate) fn with_given(text: &str, arguments: &[&str], test: impl FnOnce(&Given<'_>)) {
        let line = Line::parse_from(std::iter::once("switch").chain(arguments.iter().copied()));
        let tree = tree(&mut text.lines().enumerate());
        let (modules, libraries, variables) = Default::default();
        let installed = Installed { root: PathBuf::from("/"), tree, modules, libraries, variables };
        let endpoints = Endpoints::of(&installed.tree, Network::own()).unwrap();
        let sites = Sites::of(&installed.tree, &endpoints);
        test(&Given { options: &line.options, installed: &installed, endpoints: &endpoints, sites: &sites });
    }

    /// The requests that were found: the bytes without `HTTP/1.1`, and the source.
    pub(crate) fn found(collected: &Collected) -> Vec<(String, String)> {
        let shown = |sample: &Sample| {
            let bytes = String::from_utf8(sample.ask.bytes(None)).unwrap();
            let text = bytes.trim_end().replace(" HTTP/1.1", "").replace("\r\n", ", ");
            (text, sample.source.to_string())
        };
        collected.found.iter().map(shown).collect()
    }

    #[test]
    fn lists_take_turns() {
        let list = |names: &[&str]| -> Vec<Sample> {
            let sample = |name: &&str| {
                let source = Source::File((*name).to_owned(), "");
                Sample { ask: ask(&format!("GET /{name}")), weight: 0, due: None, source }
            };
            names.iter().map(sample).collect()
        };
        let taken = |max: usize| -> String {
            let samples = in_turn(vec![list(&["a", "b", "c"]), list(&["x"]), list(&["1", "2"])], max);
            samples.iter().map(|sample| String::from_utf8_lossy(&sample.ask.target[1..]).into_owned()).collect()
        };
        assert_eq!(taken(10), "ax1b2c");
        assert_eq!(taken(4), "ax1b");
        assert_eq!(taken(0), "");
    }
}
