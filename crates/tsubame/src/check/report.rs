//! What is found, and what it comes to.

use std::collections::BTreeSet;
use std::process::ExitCode;

use conf::{Excerpt, Origin};
use modules::manual::Loss;

/// How much something matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// The server does not start.
    Stops,
    /// It starts, and something does not work.
    Loses,
    /// Nothing is lost.
    Harmless,
}

/// What something is about; the order is that of the report.
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
    /// The heading.
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

    /// The name for programs.
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

    /// There may be many of them, and few people want to read them all.
    pub(super) fn is_detail(self) -> bool {
        matches!(self, Topic::WithoutEffect | Topic::Differs)
    }
}

/// Something that was found.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) weight: Weight,
    pub(super) topic: Topic,
    /// What it is about: a directive, a module, a file.
    pub(super) subject: String,
    /// Where it stands, all of the places.
    pub(super) places: Vec<Origin>,
    /// The first of them, where it is an error.
    pub(super) excerpt: Option<Excerpt>,
    /// What is the matter.
    pub(super) message: String,
    /// What the directive or module does.
    pub(super) does: Option<String>,
    /// What is lost if the line is only removed.
    pub(super) loss: Option<Loss>,
    /// What to write or to do instead.
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

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    pub(super) files: usize,
    pub(super) hosts: usize,
    pub(super) access_files: usize,
    pub(super) directories: usize,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Starts,
    StartsWithLosses,
    DoesNotStart,
}

impl Verdict {
    /// The name for programs.
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

/// The report.
#[derive(Debug)]
pub(super) struct Report {
    /// The main file.
    pub(super) file: String,
    pub(super) read: Read,
    pub(super) findings: Vec<Finding>,
    /// What was not looked at, as it would have been too much.
    pub(super) limits: BTreeSet<String>,
}

impl Report {
    pub(super) fn new(file: String) -> Report {
        Report { file, read: Read::default(), findings: Vec::new(), limits: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Something without a place that keeps the server from starting, unless it was said already.
    pub(super) fn stops(&mut self, topic: Topic, subject: &str, message: &str) {
        if !self.findings.iter().any(|finding| finding.message == message) {
            self.add(Finding::new(Weight::Stops, topic, subject, message));
        }
    }

    /// Files that include themselves were read over and over: what was found in them is said once.
    fn forget_repetitions(&mut self) {
        self.findings.retain(|finding| finding.topic != Topic::Twice);
        self.findings.retain_mut(|finding| {
            let had_places = !finding.places.is_empty();
            finding.places.retain(|place| !place.repeats());
            !had_places || !finding.places.is_empty()
        });
    }

    /// Sorts the findings, and makes one of those that differ only in their places.
    /// `program` is the name the server was called by, which messages of Apache's have.
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
