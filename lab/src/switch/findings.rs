//! What was found: differences of one cause are one finding.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::ask::{Ask, Sample, Source};
use super::difference::{Difference, Told, What, short};
use super::explain::Explanation;
use super::meant::{self, Case};

/// How many requests of a finding are kept: the shortest ones.
const EXAMPLES_MAX: usize = 8;

/// The most findings that are kept apart; more are counted only.
const FINDINGS_MAX: usize = 2000;

/// The most of a body that an example keeps, in bytes: more than the report shows.
const BODY_MAX: usize = 16 * 1024;

/// A request that shows a finding, and both answers.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) ask: Ask,
    pub(crate) source: Source,
    pub(crate) apache: Told,
    pub(crate) tsubame: Told,
    pub(crate) differences: Vec<Difference>,
    /// What Apache and Tsubame wrote into their error logs about the request.
    pub(crate) errors: [String; 2],
}

/// A finding.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The entry of `docs/differences.md`, if it is meant.
    pub(crate) entry: Option<&'static str>,
    pub(crate) explanation: Rc<Explanation>,
    /// How many different requests show it.
    pub(crate) requests: u64,
    /// How many lines of the logs they stand for.
    pub(crate) weight: u64,
    /// The shortest first.
    pub(crate) examples: Vec<Example>,
}

/// What makes two differences one finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    entry: Option<&'static str>,
    what: Vec<(What, String, String)>,
    line: Option<String>,
    module: Option<String>,
}

/// All findings, and how many requests were compared.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: BTreeMap<Cause, Finding>,
    /// Requests that were asked, and the lines that they stand for.
    pub(crate) asked: Count,
    /// Those that got the same answer.
    pub(crate) same: Count,
    /// Differences that were too many to keep apart.
    pub(crate) dropped: u64,
}

/// Requests, and lines of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Count {
    pub(crate) requests: u64,
    pub(crate) lines: u64,
}

impl Count {
    /// Adds a request that stands for so many lines.
    pub(crate) fn add(&mut self, lines: u64) {
        self.requests += 1;
        self.lines += lines;
    }
}

impl Findings {
    /// Adds the differences of a request; what is meant is a finding of its own.
    pub(crate) fn add(&mut self, sample: &Sample, explanation: &Rc<Explanation>, mut example: Example) {
        let mut groups: BTreeMap<Option<&'static str>, Vec<Difference>> = BTreeMap::new();
        for difference in &example.differences {
            let Example { ask, apache, tsubame, .. } = &example;
            let entry = meant::entry(&Case { ask, difference, apache, tsubame, explanation });
            groups.entry(entry).or_default().push(difference.clone());
        }
        for told in [&mut example.apache, &mut example.tsubame] {
            told.shorten(BODY_MAX);
        }
        for (entry, differences) in groups {
            let example = Example { differences, ..example.clone() };
            self.add_one(entry, sample.weight, explanation, example);
        }
    }

    fn add_one(&mut self, entry: Option<&'static str>, weight: u64, explanation: &Rc<Explanation>, example: Example) {
        // Answers that are the same are logged differently for a reason of the log's own.
        let is_about_logs = example.differences.iter().all(|one| one.what == What::AccessLog);
        let cause = match entry {
            // Whatever line leads there, the reason is the same.
            Some(_) => Cause { entry, what: Vec::new(), line: None, module: None },
            None => Cause {
                entry,
                what: example.differences.iter().map(of_kind).collect(),
                line: explanation.line.clone().filter(|_| !is_about_logs),
                module: explanation.module.clone().filter(|_| !is_about_logs),
            },
        };
        if self.found.len() >= FINDINGS_MAX && !self.found.contains_key(&cause) {
            self.dropped += 1;
            return;
        }
        let new =
            || Finding { entry, explanation: Rc::clone(explanation), requests: 0, weight: 0, examples: Vec::new() };
        let finding = self.found.entry(cause).or_insert_with(new);
        finding.requests += 1;
        finding.weight += weight;
        let length = |example: &Example| example.ask.bytes(None).len();
        let place = finding.examples.partition_point(|known| length(known) <= length(&example));
        finding.examples.insert(place, example);
        finding.examples.truncate(EXAMPLES_MAX);
        if place == 0 {
            finding.explanation = Rc::clone(explanation);
        }
    }

    /// The findings that nothing explains, for a second look at their requests.
    pub(crate) fn unexplained(&mut self) -> impl Iterator<Item = &mut Finding> {
        self.found.values_mut().filter(|finding| finding.entry.is_none())
    }

    /// The findings: those without an entry first, and then by weight.
    pub(crate) fn sorted(self) -> Vec<Finding> {
        let mut all: Vec<Finding> = self.found.into_values().collect();
        all.sort_by_key(|finding| (finding.entry.is_some(), std::cmp::Reverse((finding.weight, finding.requests))));
        all
    }
}

/// A difference without what only one request has: the text of a body, and numbers.
fn of_kind(difference: &Difference) -> (What, String, String) {
    let Difference { what, apache, tsubame } = difference;
    match what {
        What::Body | What::Length => (what.clone(), String::new(), String::new()),
        What::AccessLog => {
            let words = apache.split(' ').zip(tsubame.split(' ')).find(|(one, other)| one != other);
            let (one, other) = words.unwrap_or((apache.as_str(), tsubame.as_str()));
            (what.clone(), kind(one), kind(other))
        }
        What::Status | What::Answer => (what.clone(), apache.clone(), tsubame.clone()),
        _ => (what.clone(), kind(apache), kind(tsubame)),
    }
}

/// A value without its numbers, and without what follows a slash: the same path differs in the same way everywhere.
fn kind(value: &str) -> String {
    let digits = |char: char| if char.is_ascii_digit() { '#' } else { char };
    let mut text: String = value.split('/').next().unwrap_or_default().chars().map(digits).collect();
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    short(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::answer::Answer;
    use crate::switch::ask::tests::ask;
    use crate::switch::neutral::Neutral;
    use crate::switch::tree::Origin;

    fn told(status: u16) -> Told {
        let answer = Answer { status, ..Answer::default() };
        Told { plain: Neutral::default().plain(&answer), answer }
    }

    #[test]
    fn one_cause_is_one_finding() {
        let mut findings = Findings::default();
        let mut add = |line: &str, what: What, apache: &str, tsubame: &str, decides: &str| {
            let source = Source::Given(Origin { file: "x".into(), line: 1 });
            let sample = Sample { ask: ask(line), weight: 3, due: None, source: source.clone() };
            let difference = Difference { what, apache: apache.to_owned(), tsubame: tsubame.to_owned() };
            let (apache, tsubame) = (told(200), told(200));
            let example = Example {
                ask: ask(line),
                source,
                apache,
                tsubame,
                differences: vec![difference],
                errors: Default::default(),
            };
            let explanation = Explanation { line: Some(decides.to_owned()), ..Explanation::default() };
            findings.add(&sample, &Rc::new(explanation), example);
        };
        add("GET /longer", What::Field("etag".to_owned()), "\"12\"", "\"345\"", "a:1");
        add("GET /a", What::Field("etag".to_owned()), "\"6\"", "\"7\"", "a:1");
        add("GET /a", What::Field("etag".to_owned()), "\"6\"", "absent", "a:1");
        add("GET /a", What::Field("etag".to_owned()), "\"6\"", "\"7\"", "a:2");
        let sorted = findings.sorted();
        let shown: Vec<_> = sorted.iter().map(|one| (one.requests, one.weight, one.examples[0].ask.shown())).collect();
        assert_eq!(shown[0], (2, 6, "GET http://localhost/a".to_owned()));
        assert_eq!(shown.len(), 3);
    }
}
