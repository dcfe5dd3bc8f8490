//! What the requests cost: the same mix against both servers in turn.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::answer::tls_to;
use super::ask::Ask;
use super::comparison::Explained;
use super::endpoints::{Endpoint, Endpoints};
use super::pair::Pair;
use super::sources::Busiest;
use crate::compare::{Calm, FIGURES, Measured, measure};
use crate::load::Plan;
use crate::load::plan::Request;
use crate::machine::error::Result;
use crate::machine::host::allowed_cores;
use crate::machine::interrupt;
use crate::machine::listener::Listener;
use crate::machine::stats::{Ratio, interval, median, ratio};
use crate::screen::table::Table;

/// How many requests a round's mix has: enough for what occurs once in a thousand lines.
const MIX: u64 = 2000;
/// Connections at a time.
const CLIENTS: usize = 16;
/// How long one measurement takes.
const MEASUREMENT: Duration = Duration::from_secs(3);
/// How long all measurements together may wait until other programs leave the cores alone.
const PATIENCE: Duration = Duration::from_secs(30);

/// The results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cost {
    /// The lines of the logs that the mix stands for, and all that were compared.
    pub(crate) lines: [u64; 2],
    /// The site that was asked.
    pub(crate) host: String,
    pub(crate) figures: Vec<Figure>,
    pub(crate) doubts: Vec<String>,
}

/// A figure of both servers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) more_is_better: bool,
    #[serde(skip)]
    digits: usize,
    /// The first measurement after the start: Apache's, then Tsubame's.
    pub(crate) cold: [Option<f64>; 2],
    /// Those of the other rounds.
    pub(crate) apache: Vec<f64>,
    pub(crate) tsubame: Vec<f64>,
}

/// Measures in so many rounds, after one that is cold; none if no request has a weight.
pub(crate) fn measure_in_turn(
    pair: &Pair,
    endpoints: &Endpoints,
    samples: &[Explained],
    rounds: u32,
) -> Result<Option<Cost>> {
    let Some((place, mix, lines)) = mix(samples) else { return Ok(None) };
    let requests: Vec<Request> =
        mix.iter().map(|ask| Request { bytes: ask.bytes(None).into(), bodiless: ask.method == "HEAD" }).collect();
    let plan = |at: usize| {
        let address = endpoints.socket(place.endpoint, pair.sides[at].network);
        let tls = place.name.as_deref().map(tls_to);
        Plan { clients: CLIENTS, count: None, time: Some(MEASUREMENT), tls, ..Plan::of(address, requests.clone()) }
    };
    let plans = [plan(0), plan(1)];
    let calm = Calm::default();
    calm.grant(PATIENCE);
    let cores = allowed_cores()?;
    let mut figures: Vec<Figure> = FIGURES
        .iter()
        .map(|&(name, more_is_better, digits)| Figure {
            name,
            more_is_better,
            digits,
            cold: [None; 2],
            apache: Vec::new(),
            tsubame: Vec::new(),
        })
        .collect();
    let mut doubts: Vec<String> = Vec::new();
    for round in 0..=rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for at in order {
            interrupt::check()?;
            calm.wait(&cores)?;
            let server = Listener::at(plans[at].servers[0]);
            let Measured { figures: measured, .. } = measure(&plans[at], server.as_ref(), |_| {})?;
            for (figure, value) in figures.iter_mut().zip(measured) {
                match round {
                    0 => figure.cold[at] = value,
                    _ => [&mut figure.apache, &mut figure.tsubame][at].extend(value),
                }
            }
        }
    }
    if let (disturbed @ 1.., all) = calm.disturbed() {
        doubts.push(format!("other programs used the cores when {disturbed} of {all} measurements began"));
    }
    Ok(Some(Cost { lines, host: place.host, figures, doubts }))
}

/// Where a mix is asked: a connection leads to one endpoint, and with TLS to one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    endpoint: Endpoint,
    name: Option<String>,
    host: String,
}

/// The place that most lines are about, and its requests in proportion to their weights, mixed; with the lines that they
/// stand for, and all lines.
fn mix(samples: &[Explained]) -> Option<(Place, Vec<&Ask>, [u64; 2])> {
    let mut places: BTreeMap<Place, Vec<(&Ask, u64)>> = BTreeMap::new();
    // A load of requests is nothing for what could change something, or for the live machine's backends.
    let is_harmless = |(sample, explanation): &&Explained| sample.ask.is_safe() && !explanation.asks_backend();
    let is_counted = |(sample, _): &&Explained| sample.weight > 0 && sample.ask.minor == 1;
    for (sample, _) in samples.iter().filter(is_counted).filter(is_harmless) {
        let host = sample.ask.host.clone().unwrap_or_default();
        let name = sample.ask.is_encrypted.then(|| host.clone());
        let place = Place { endpoint: sample.ask.endpoint, host: name.clone().unwrap_or_default(), name };
        places.entry(place).or_default().push((&sample.ask, sample.weight));
    }
    let all: u64 = samples.iter().map(|(sample, _)| sample.weight).sum();
    let weight = |asks: &[(&Ask, u64)]| asks.iter().map(|(_, weight)| weight).sum::<u64>();
    let (place, asks) = places.into_iter().max_by_key(|(_, asks)| weight(asks))?;
    let own = weight(&asks);
    // Every ask that is due at its share of the way: neighbours in the list are spread over the whole mix.
    let count = MIX.max(1);
    let mut due: Vec<(u64, &Ask)> = Vec::new();
    let mut passed = 0;
    for (ask, weight) in &asks {
        let before = passed * count / own;
        passed += weight;
        due.extend((before..passed * count / own).map(|turn| (turn, *ask)));
    }
    // A long step that has no divisor in common with the length visits every place once, and neighbours far apart.
    let length = due.len();
    let is_coprime = |step: &usize| (2..=*step).all(|by| !step.is_multiple_of(by) || !length.is_multiple_of(by));
    let step = (length * 618 / 1000..length).find(is_coprime).unwrap_or(1);
    let mixed = (0..length).map(|turn| due[turn * step % length].1).collect();
    Some((place, mixed, [own, all]))
}

impl Cost {
    /// Tsubame's CPU time for a request, as a share of Apache's.
    fn cpu(&self) -> Option<Ratio> {
        let figure = self.figures.first()?;
        ratio(&figure.apache, &figure.tsubame)
    }

    /// What can be said for certain, in a sentence.
    pub(crate) fn verdict(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        match self.cpu().and_then(|found| Some((found.middle, found.bounds?))) {
            Some((middle, [low, high])) if high < 1.0 || low > 1.0 => format!(
                "Tsubame spends {} of Apache's CPU time on these requests (between {} and {}).",
                percent(middle),
                percent(low),
                percent(high)
            ),
            Some((_, [low, high])) => format!(
                "These rounds show no difference in CPU time: Tsubame spends between {} and {} of Apache's.",
                percent(low),
                percent(high)
            ),
            None => "The CPU time of the servers could not be compared.".to_owned(),
        }
    }

    /// The figures.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(1, &["warm, median (cold)", "Apache", "Tsubame", "Tsubame / Apache", "95 %"]);
        for figure in &self.figures {
            let Figure { name, more_is_better, digits, cold, apache, tsubame } = figure;
            let digits = *digits;
            let cell = |values: &[f64], cold: Option<f64>| {
                let number =
                    |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"));
                format!("{} ({})", number(median(values)), number(cold))
            };
            let found = ratio(tsubame, apache);
            let better = if *more_is_better { "more is better" } else { "less is better" };
            let bounds = found.and_then(|found| found.bounds);
            table.push(vec![
                format!("{name} ({better})"),
                cell(apache, cold[0]),
                cell(tsubame, cold[1]),
                found.map_or_else(|| "–".to_owned(), |found| format!("{:.2}", found.middle)),
                bounds.map_or_else(|| "–".to_owned(), |[low, high]| format!("{low:.2} – {high:.2}")),
            ]);
        }
        table
    }

    /// What the busiest minute of the logs needs of each server, as far as the rounds are certain.
    pub(crate) fn needed(&self, busiest: &Busiest) -> Vec<String> {
        let Some(answers) = self.figures.first() else { return Vec::new() };
        let rate = busiest.rate;
        let mut told = vec![format!("In their busiest minute the logs have {rate:.1} requests a second.")];
        for (name, values) in [("Apache", &answers.apache), ("Tsubame", &answers.tsubame)] {
            // The share of one core: requests a second, by those that a second of CPU time answers.
            if let Some([low, high]) = interval(values) {
                let [least, most] = [rate / high, rate / low].map(|share| share * 100.0);
                told.push(format!(
                    "{name} needs between {least:.2} % and {most:.2} % of a core for that, if all are like these."
                ));
            }
        }
        if let Some(concurrency) = busiest.concurrency {
            told.push(format!(
                "On average {concurrency:.1} of them were under way at a time, each of which takes a worker (MaxRequestWorkers) under \
                 prefork and worker."
            ));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::switch::ask::tests::ask;
    use crate::switch::ask::{Sample, Source};
    use crate::switch::explain::Explanation;
    use crate::switch::tree::Origin;

    #[test]
    fn a_mix_has_each_request_by_its_weight() {
        let sample = |line: &str, weight: u64| {
            let source = Source::Given(Origin { file: "x".into(), line: 1 });
            (Sample { ask: ask(line), weight, due: None, source }, Rc::new(Explanation::default()))
        };
        let samples = [sample("GET /often", 750), sample("GET /rarely", 250), sample("GET /never", 0)];
        let (_, mixed, lines) = mix(&samples).unwrap();
        let count = |target: &[u8]| mixed.iter().filter(|ask| ask.target == target).count();
        assert_eq!([count(b"/often"), count(b"/rarely"), count(b"/never")], [1500, 500, 0]);
        assert_eq!(lines, [1000, 1000]);
        let beginning = mixed[..100].iter().filter(|ask| ask.target == b"/rarely").count();
        assert!((10..=40).contains(&beginning), "{beginning} of the first 100");
        assert!(mix(&[sample("GET /", 0)]).is_none());
        assert!(mix(&[sample("POST /", 9)]).is_none(), "what could change something is sent once");
        let module = Some("mod_proxy_http".to_owned());
        let (asked, _) = sample("GET /", 9);
        let backend = Rc::new(Explanation { module, runs: true, ..Explanation::default() });
        assert!(mix(&[(asked, backend)]).is_none(), "backends are the live ones");
    }
}
