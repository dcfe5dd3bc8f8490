//! A problem of a configuration: how severe it is, where it is, and what to do about it.

use conf::{Excerpt, Origin};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The server does not start.
    Stops,
    /// The server starts, but something does not work.
    Loses,
    /// Nothing is lost.
    Harmless,
}

/// The subject area of a finding, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the titles say it")]
pub enum Topic {
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
    pub fn title(self) -> &'static str {
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
    pub fn key(self) -> &'static str {
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
    pub fn is_detail(self) -> bool {
        matches!(self, Topic::WithoutEffect | Topic::Differs)
    }
}

/// The loss without a directive or module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing that a visitor would notice.
    Nothing,
    /// Answers stay the same, but come later.
    Speed,
    /// What a module does for visitors.
    Feature,
    /// A restriction: without it, more is allowed.
    Protection,
}

/// A problem that the check found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How bad it is.
    pub weight: Weight,
    /// The subject area.
    pub topic: Topic,
    /// The subject: a directive, a module or a file.
    pub subject: String,
    /// All places where it occurs.
    pub places: Vec<Origin>,
    /// The excerpt at the first place, for an error.
    pub excerpt: Option<Excerpt>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What the directive or module does.
    pub does: Option<String>,
    /// The effect of removing the line without a replacement.
    pub loss: Option<Loss>,
    /// What to write or do instead.
    pub instead: Option<String>,
}

impl Finding {
    /// Makes a finding without a place.
    pub fn new(weight: Weight, topic: Topic, subject: &str, message: impl Into<String>) -> Finding {
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

    /// The finding with one more place.
    #[must_use]
    pub fn at(mut self, origin: &Origin) -> Finding {
        self.places.push(origin.clone());
        self
    }

    /// The finding with what the directive or module does, if that is known.
    #[must_use]
    pub fn does(mut self, text: &str) -> Finding {
        self.does = Some(text.to_string()).filter(|text| !text.is_empty());
        self
    }

    /// The finding with the loss.
    #[must_use]
    pub fn loss(mut self, loss: Option<Loss>) -> Finding {
        self.loss = loss;
        self
    }

    /// The finding with what to write or do instead, if that is known.
    #[must_use]
    pub fn instead(mut self, text: impl Into<String>) -> Finding {
        self.instead = Some(text.into()).filter(|text| !text.is_empty());
        self
    }
}
