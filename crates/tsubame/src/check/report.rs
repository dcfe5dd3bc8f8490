//! The report of `tsubame check`: its findings, and the overall verdict.

use std::collections::BTreeSet;
use std::process::ExitCode;

use conf::Origin;

use server::module::finding::{Finding, Topic, Weight};

/// How much of the configuration, and of the disk, was examined.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    pub(super) files: usize,
    pub(super) hosts: usize,
    pub(super) access_files: usize,
    pub(super) directories: usize,
}

/// What the findings mean for a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Starts,
    StartsWithLosses,
    DoesNotStart,
}

impl Verdict {
    /// The key in the JSON report.
    pub(super) fn key(self) -> &'static str {
        match self {
            Verdict::Starts => "starts",
            Verdict::StartsWithLosses => "starts_with_losses",
            Verdict::DoesNotStart => "does_not_start",
        }
    }

    pub(super) fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Verdict::Starts => 0,
            Verdict::StartsWithLosses => 1,
            Verdict::DoesNotStart => 2,
        })
    }
}

/// The whole report.
#[derive(Debug)]
pub(super) struct Report {
    /// The main file of the configuration.
    pub(super) file: String,
    pub(super) read: Read,
    pub(super) findings: Vec<Finding>,
    /// What was not examined because a limit was reached.
    pub(super) limits: BTreeSet<String>,
}

impl Report {
    pub(super) fn new(file: String) -> Report {
        Report { file, read: Read::default(), findings: Vec::new(), limits: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds a finding without a place that prevents the start, unless it was added already.
    pub(super) fn stops(&mut self, topic: Topic, subject: &str, message: &str) {
        if !self.findings.iter().any(|finding| finding.message == message) {
            self.add(Finding::new(Weight::Stops, topic, subject, message));
        }
    }

    /// Removes repeated findings. Files that include themselves were read repeatedly, so their findings occur more than
    /// once.
    fn forget_repetitions(&mut self) {
        self.findings.retain(|finding| finding.topic != Topic::Twice);
        self.findings.retain_mut(|finding| {
            let had_places = !finding.places.is_empty();
            finding.places.retain(|place| !place.repeats());
            !had_places || !finding.places.is_empty()
        });
    }

    /// Sorts the findings and merges those that differ only in their places.
    pub(super) fn finish(&mut self) {
        if self.findings.iter().any(|finding| finding.topic == Topic::Circle) {
            self.forget_repetitions();
        }
        let mut merged: Vec<Finding> = Vec::new();
        for finding in self.findings.drain(..) {
            let same = |other: &&mut Finding| {
                (other.weight, other.topic, &other.subject, &other.message)
                    == (finding.weight, finding.topic, &finding.subject, &finding.message)
            };
            match merged.iter_mut().find(same) {
                Some(other) => {
                    let new = finding.places.into_iter().filter(|place| !other.places.contains(place));
                    let new: Vec<Origin> = new.collect();
                    other.places.extend(new);
                }
                None => merged.push(finding),
            }
        }
        merged.sort_by_key(|finding| (finding.weight, finding.topic));
        self.findings = merged;
    }

    pub(super) fn count(&self, weight: Weight) -> usize {
        self.findings.iter().filter(|finding| finding.weight == weight).count()
    }

    pub(super) fn verdict(&self) -> Verdict {
        match (self.count(Weight::Stops), self.count(Weight::Loses)) {
            (0, 0) => Verdict::Starts,
            (0, _) => Verdict::StartsWithLosses,
            _ => Verdict::DoesNotStart,
        }
    }
}
