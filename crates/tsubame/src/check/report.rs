//! The findings, and the overall verdict.

use std::collections::BTreeSet;
use std::process::ExitCode;

use conf::{Excerpt, Origin};
use modules::manual::Loss;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// The server does not start.
    Stops,
    /// The server starts, but something does not work.
    Loses,
    /// Nothing is lost.
    Harmless,
}

/// The subject area of a finding, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Files that include each other.
    Circle,
    Syntax,
    Module,
    Directive,
    Start,
    Log,
    Certificate,
    AccessFile,
    Script,
    Handler,
    Host,
    Warning,
    NeverMatches,
    Twice,
    WithoutEffect,
    Differs,
}

impl Topic {
    /// The heading in the report.
    pub(super) fn title(self) -> &'static str {
        match self {
            Topic::Circle => "Files that include each other",
            Topic::Syntax => "Errors",
            Topic::Module => "Modules that are not here",
            Topic::Directive => "Unknown directives",
            Topic::Start => "Start",
            Topic::Log => "Logs",
            Topic::Certificate => "Certificates and keys",
            Topic::AccessFile => ".htaccess files",
            Topic::Script => "Scripts",
            Topic::Handler => "Handlers",
            Topic::Host => "Virtual hosts",
            Topic::Warning => "Warnings",
            Topic::NeverMatches => "Sections that never match",
            Topic::Twice => "Duplicates",
            Topic::WithoutEffect => "Accepted without effect",
            Topic::Differs => "Different from Apache",
        }
    }

    /// The key in the JSON report.
    pub(super) fn key(self) -> &'static str {
        match self {
            Topic::Circle => "circular_include",
            Topic::Syntax => "syntax",
            Topic::Module => "module",
            Topic::Directive => "directive",
            Topic::Start => "start",
            Topic::Log => "log",
            Topic::Certificate => "certificate",
            Topic::AccessFile => "access_file",
            Topic::Script => "script",
            Topic::Handler => "handler",
            Topic::Host => "virtual_host",
            Topic::Warning => "warning",
            Topic::NeverMatches => "never_matches",
            Topic::Twice => "twice",
            Topic::WithoutEffect => "without_effect",
            Topic::Differs => "differs",
        }
    }

    /// Whether findings of this topic are summarized by default: there may be many, and few people want to read them
    /// all.
    pub(super) fn is_detail(self) -> bool {
        matches!(self, Topic::WithoutEffect | Topic::Differs)
    }
}

/// A problem that the check found.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) weight: Weight,
    pub(super) topic: Topic,
    /// The subject: a directive, a module or a file.
    pub(super) subject: String,
    /// All places where it occurs.
    pub(super) places: Vec<Origin>,
    /// The excerpt at the first place, for an error.
    pub(super) excerpt: Option<Excerpt>,
    /// The problem.
    pub(super) message: String,
    /// What the directive or module does.
    pub(super) does: Option<String>,
    /// The effect of removing the line without a replacement.
    pub(super) loss: Option<Loss>,
    /// What to write or do instead.
    pub(super) instead: Option<String>,
}

impl Finding {
    pub(super) fn new(weight: Weight, topic: Topic, subject: &str, message: impl Into<String>) -> Finding {
        Finding {
            weight,
            topic,
            subject: subject.into(),
            places: Vec::new(),
            excerpt: None,
            message: message.into(),
            does: None,
            loss: None,
            instead: None,
        }
    }

    pub(super) fn at(mut self, origin: &Origin) -> Finding {
        self.places.push(origin.clone());
        self
    }

    pub(super) fn does(mut self, text: &str) -> Finding {
        self.does = Some(text.to_string()).filter(|text| !text.is_empty());
        self
    }

    pub(super) fn loss(mut self, loss: Option<Loss>) -> Finding {
        self.loss = loss;
        self
    }

    pub(super) fn instead(mut self, text: impl Into<String>) -> Finding {
        self.instead = Some(text.into()).filter(|text| !text.is_empty());
        self
    }
}

/// How much was examined.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    pub(super) files: usize,
    pub(super) hosts: usize,
    pub(super) access_files: usize,
    pub(super) directories: usize,
}

/// The overall result.
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
    /// The main file.
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

    /// Sorts the findings and merges those that differ only in their places. `program` is the name by which the server
    /// was called; it replaces the placeholder in Apache's messages.
    pub(super) fn finish(&mut self, program: &str) {
        for finding in &mut self.findings {
            finding.message = finding.message.replace("{program}", program);
        }
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
