//! A problem of a configuration: how severe it is, where it is, and what to do about it.

use conf::{Excerpt, Origin};
use modules::manual::Loss;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// The server does not start.
    Stops,
    /// The server starts, but something does not work.
    Loses,
    /// Nothing is lost.
    Harmless,
}

/// The subject area of a finding, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
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
    pub(crate) fn title(self) -> &'static str {
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
    pub(crate) fn key(self) -> &'static str {
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
    pub(crate) fn is_detail(self) -> bool {
        matches!(self, Topic::WithoutEffect | Topic::Differs)
    }
}

/// A problem that the check found.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) weight: Weight,
    pub(crate) topic: Topic,
    /// The subject: a directive, a module or a file.
    pub(crate) subject: String,
    /// All places where it occurs.
    pub(crate) places: Vec<Origin>,
    /// The excerpt at the first place, for an error.
    pub(crate) excerpt: Option<Excerpt>,
    /// The problem.
    pub(crate) message: String,
    /// What the directive or module does.
    pub(crate) does: Option<String>,
    /// The effect of removing the line without a replacement.
    pub(crate) loss: Option<Loss>,
    /// What to write or do instead.
    pub(crate) instead: Option<String>,
}

impl Finding {
    pub(crate) fn new(weight: Weight, topic: Topic, subject: &str, message: impl Into<String>) -> Finding {
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

    pub(crate) fn at(mut self, origin: &Origin) -> Finding {
        self.places.push(origin.clone());
        self
    }

    pub(crate) fn does(mut self, text: &str) -> Finding {
        self.does = Some(text.to_string()).filter(|text| !text.is_empty());
        self
    }

    pub(crate) fn loss(mut self, loss: Option<Loss>) -> Finding {
        self.loss = loss;
        self
    }

    pub(crate) fn instead(mut self, text: impl Into<String>) -> Finding {
        self.instead = Some(text.into()).filter(|text| !text.is_empty());
        self
    }
}
