//! What went wrong while reading a configuration, in Apache's wording, and what was merely worth saying.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::excerpt::{Excerpt, Spot};

use crate::source::Origin;

/// When an error is found: Apache prints it differently each time (measured on 2.4.71).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Structure, `Include`, everything that runs while reading: one line.
    Read,
    /// Everything else: two lines.
    Apply,
    /// The check after all directives were applied: the text as it is, then `AH00014`.
    Check,
}

/// An error in a configuration. What becomes of it is up to [`Errors`].
#[derive(Clone, Debug)]
pub struct Error {
    /// When it was found.
    pub phase: Phase,
    /// The message without position.
    pub message: String,
    /// Where; `None` for a check over the whole.
    pub origin: Option<Origin>,
    /// Which part of that line.
    pub spot: Spot,
    /// The reason, where Apache's message leaves it out.
    pub reason: Option<Box<str>>,
    /// The name that is not known here, where that is what is wrong.
    pub unknown: Option<Unknown>,
}

/// A name that is not known here.
#[derive(Clone, Debug)]
pub enum Unknown {
    /// Of a directive.
    Directive(String),
    /// Of a module: its identifier.
    Module(String),
}

/// More errors of one configuration than this are not looked for: the next one ends the reading.
pub const ERRORS_MAX: usize = 2000;

/// What becomes of errors. The first one ends the reading, as in Apache; for a report all are kept, and the reading goes on
/// after each of them.
#[derive(Debug, Default)]
pub struct Errors(Option<Vec<Error>>);

impl Errors {
    /// The first one ends the reading.
    pub fn first() -> Errors {
        Errors(None)
    }

    /// All are kept.
    pub fn all() -> Errors {
        Errors(Some(Vec::new()))
    }

    /// No errors yet, and the same to become of them.
    #[must_use]
    pub fn anew(&self) -> Errors {
        Errors(self.0.as_ref().map(|_| Vec::new()))
    }

    /// Whether the reading goes on after an error.
    pub fn go_on(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps an error. `Err`: it ends the reading.
    pub fn meet(&mut self, error: Error) -> Result<(), Error> {
        match &mut self.0 {
            Some(kept) if kept.len() < ERRORS_MAX => kept.push(error),
            _ => return Err(error),
        }
        Ok(())
    }

    /// Those that were kept.
    pub fn kept(&self) -> &[Error] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Error {
    /// An error at a line.
    pub fn at(phase: Phase, origin: &Origin, message: impl Into<String>) -> Error {
        Error { origin: Some(origin.clone()), ..Error::new(phase, message) }
    }

    /// An error of the whole configuration.
    pub fn check(message: impl Into<String>) -> Error {
        Error::new(Phase::Check, message)
    }

    /// An error without a place.
    pub fn new(phase: Phase, message: impl Into<String>) -> Error {
        Error { phase, message: message.into(), origin: None, spot: Spot::Line, reason: None, unknown: None }
    }

    /// The same error, of a part of its line.
    #[must_use]
    pub fn of(self, spot: Spot) -> Error {
        Error { spot, ..self }
    }

    /// The line as it is written, with the part of it that is meant.
    pub fn excerpt(&self) -> Option<Excerpt> {
        Excerpt::of(self.origin.as_ref()?, self.spot)
    }

    /// Apache's own line or lines. `program` is the name the server was called by.
    pub fn own_lines(&self, program: &str) -> String {
        let message = escape(&self.message);
        match (self.phase, &self.origin) {
            // The outermost file comes first: each Include adds its line in front. Of a cycle Apache repeats them all.
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

    /// The level of a keyword, without difference of case.
    pub fn parse(word: &str) -> Option<Level> {
        Level::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, level)| *level)
    }

    /// The keyword, as it stands in a log line.
    pub fn name(self) -> &'static str {
        Level::NAMES[self as usize].0
    }
}

/// Something worth saying that does not stop the server.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The module that speaks, as in `LogLevel` (`core`, `alias`, `mpm_prefork`).
    pub module: &'static str,
    /// How bad.
    pub level: Level,
    /// The text, with its `AHnnnnn:` where Apache has one.
    pub text: String,
    /// Printed bare while the server starts, as Apache does with its start-up messages.
    pub bare: bool,
    /// The line that gave cause for it, where it was one that was being applied.
    pub origin: Option<Origin>,
}

/// Line breaks and other control characters cannot forge a second message; bytes beyond ASCII are shown as Apache shows
/// them (`\xef`).
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in http1::text::to_bytes(text).iter() {
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
