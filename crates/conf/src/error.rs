//! Errors in a configuration, in Apache's wording, and notices that do not stop the server.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::excerpt::{Excerpt, Spot};
use crate::source::Origin;

/// In the message of an [`Error`], the name that the server was started with: whoever prints the message fills it in.
pub const PROGRAM: &str = "{program}";

/// The phase in which an error is found: Apache prints errors of each phase differently (measured on 2.4.71).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// While reading: structure, `Include`, everything else that runs then. Printed as one line.
    Read,
    /// While applying directives. Printed as two lines.
    Apply,
    /// In the check after all directives. Printed as the plain text, then `AH00014`.
    Check,
}

/// An error in a configuration. [`Errors`] decides how it is handled.
#[derive(Clone, Debug)]
pub struct Error {
    /// The phase in which it was found.
    pub phase: Phase,
    /// The message, without the position.
    pub message: String,
    /// The line; `None` for an error of the whole configuration.
    pub origin: Option<Origin>,
    /// The part of that line.
    pub spot: Spot,
    /// The reason, if Apache's message does not include it.
    pub reason: Option<Box<str>>,
    /// What to write instead, if the directive's function knows.
    pub advice: Option<Box<str>>,
    /// Its [`cause`](Error::cause), on the heap as it is rare.
    pub cause: Option<Box<Cause>>,
}

/// A kind of error or notice that a report explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No module has a directive of this name.
    UnknownDirective(String),
    /// There is no module with this identifier.
    UnknownModule(String),
    /// The directive's row forbids it in this context.
    NotAllowed,
    /// The directive's function refuses the enclosing section.
    Misplaced,
    /// An end tag is wrong or missing: this one (`</Directory`).
    EndTag(String),
    /// Files or macros include each other.
    EndlessInclude,
    /// More than one multi-processing module is loaded.
    SeveralMpms,
    /// The directory of a log file does not exist: this one.
    NoLogDirectory(String),
    /// A variable has no value: the one of this name.
    UndefinedVariable(String),
    /// No handler is there for some files: requests for them are answered with 500.
    NoHandler,
    /// PHP is not installed.
    NoPhp,
    /// A `DocumentRoot` does not exist.
    NoDocumentRoot,
    /// The server has no name.
    NoServerName,
}

/// The most errors kept for one configuration: the next one ends the reading.
pub const ERRORS_MAX: usize = 2000;

/// How to handle errors. The first one ends the reading, as in Apache; for a report, all are kept, and the reading
/// continues after each of them.
#[derive(Debug, Default)]
pub struct Errors(Option<Vec<Error>>);

impl Errors {
    /// Ends the reading at the first error.
    pub fn first() -> Errors {
        Errors(None)
    }

    /// Keeps errors and lets the reading continue.
    pub fn all() -> Errors {
        Errors(Some(Vec::new()))
    }

    /// A copy without errors that handles them in the same way.
    #[must_use]
    pub fn anew(&self) -> Errors {
        Errors(self.0.as_ref().map(|_| Vec::new()))
    }

    /// Whether the reading continues after an error.
    pub fn go_on(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps an error, or returns it as `Err` if it ends the reading.
    pub fn meet(&mut self, error: Error) -> Result<(), Error> {
        match &mut self.0 {
            Some(kept) if kept.len() < ERRORS_MAX => kept.push(error),
            _ => return Err(error),
        }
        Ok(())
    }

    /// The errors kept so far.
    pub fn kept(&self) -> &[Error] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Error {
    /// Makes an error at a line.
    pub fn at(phase: Phase, origin: &Origin, message: impl Into<String>) -> Error {
        Error { origin: Some(origin.clone()), ..Error::new(phase, message) }
    }

    /// Makes an error of the whole configuration.
    pub fn check(message: impl Into<String>) -> Error {
        Error::new(Phase::Check, message)
    }

    /// Makes an error without a place.
    pub fn new(phase: Phase, message: impl Into<String>) -> Error {
        Error {
            phase,
            message: message.into(),
            origin: None,
            spot: Spot::Line,
            reason: None,
            advice: None,
            cause: None,
        }
    }

    /// The error limited to a part of its line.
    #[must_use]
    pub fn of(self, spot: Spot) -> Error {
        Error { spot, ..self }
    }

    /// The error with its cause.
    #[must_use]
    pub fn because(self, cause: Cause) -> Error {
        Error { cause: Some(Box::new(cause)), ..self }
    }

    /// The kind of the error, if a report explains errors of its kind.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_deref()
    }

    /// The line as written, with the part that the error is about.
    pub fn excerpt(&self) -> Option<Excerpt> {
        Excerpt::of(self.origin.as_ref()?, self.spot)
    }

    /// Apache's own line or lines. `program` is the name that the server was started with.
    pub fn own_lines(&self, program: &str) -> String {
        let message = escape(&self.message).replace(PROGRAM, program);
        match (self.phase, &self.origin) {
            // The outermost file comes first: each Include adds its line in front. For a cycle, Apache repeats all of
            // them.
            (Phase::Read, Some(origin)) => {
                let mut chain: Vec<&Origin> = std::iter::once(origin).chain(origin.chain()).collect();
                chain.reverse();
                let mut said = HashSet::new();
                let mut text = format!("{program}: ");
                for at in chain.into_iter().filter(|at| said.insert((at.line, at.file()))) {
                    let _ = write!(text, "Syntax error on line {} of {}: ", at.line, at.file());
                }
                format!("{text}{message}\n")
            }
            (Phase::Apply, Some(origin)) => {
                format!("AH00526: Syntax error on line {} of {}:\n{message}\n", origin.line, origin.file())
            }
            (Phase::Check, _) => format!("{message}\nAH00014: Configuration check failed\n"),
            (Phase::Read, None) => format!("{program}: {message}\n"),
            (Phase::Apply, None) => format!("{message}\n"),
        }
    }
}

/// Severity, as in `LogLevel` (Apache manual, core).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are Apache's")]
pub enum Level {
    Emerg,
    Alert,
    Crit,
    Error,
    Warn,
    Notice,
    Info,
    Debug,
    Trace1,
    Trace2,
    Trace3,
    Trace4,
    Trace5,
    Trace6,
    Trace7,
    Trace8,
}

impl Level {
    /// All levels with their names, most severe first.
    pub const NAMES: [(&str, Level); 16] = [
        ("emerg", Level::Emerg),
        ("alert", Level::Alert),
        ("crit", Level::Crit),
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("notice", Level::Notice),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("trace1", Level::Trace1),
        ("trace2", Level::Trace2),
        ("trace3", Level::Trace3),
        ("trace4", Level::Trace4),
        ("trace5", Level::Trace5),
        ("trace6", Level::Trace6),
        ("trace7", Level::Trace7),
        ("trace8", Level::Trace8),
    ];

    /// The level of a keyword, ignoring case.
    pub fn parse(word: &str) -> Option<Level> {
        Level::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, level)| *level)
    }

    /// The keyword, as log lines show it.
    pub fn name(self) -> &'static str {
        Level::NAMES[self as usize].0
    }
}

/// A message that does not stop the server.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The module that it comes from, as in `LogLevel` (`core`, `alias`, `mpm_prefork`).
    pub module: &'static str,
    /// The level at which it is logged.
    pub level: Level,
    /// The text, with `AHnnnnn:` if Apache has such a number for it.
    pub text: String,
    /// Whether it is printed bare while the server starts, like Apache's start-up messages.
    pub bare: bool,
    /// The line that caused it, if it was being read or applied.
    pub origin: Option<Origin>,
    /// The kind of the notice, if a report explains notices of its kind.
    pub cause: Option<Cause>,
}

impl Notice {
    /// Makes a notice without a line.
    pub fn new(module: &'static str, level: Level, text: impl Into<String>) -> Notice {
        Notice { module, level, text: text.into(), bare: false, origin: None, cause: None }
    }

    /// The notice, printed bare while the server starts.
    #[must_use]
    pub fn bare(self) -> Notice {
        Notice { bare: true, ..self }
    }

    /// The notice with its cause.
    #[must_use]
    pub fn because(self, cause: Cause) -> Notice {
        Notice { cause: Some(cause), ..self }
    }
}

/// Escapes control characters, so that line breaks cannot forge a second message. Shows non-ASCII bytes as Apache does
/// (`\xef`).
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in http::text::to_bytes(text).iter() {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(byte as char),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out
}
