//! What went wrong while reading a configuration, in Apache's wording, and what was merely worth saying.

use std::fmt::Write as _;

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
    /// It is about something that is not known here.
    pub unknown: Option<Unknown>,
}

/// A name that is not known here.
#[derive(Clone, Debug)]
pub enum Unknown {
    /// Of a directive, and perhaps the one that was meant.
    Directive(String, Option<&'static str>),
    /// Of a module: its identifier.
    Module(String),
}

/// More errors of one configuration than this are not looked for: the one behind ends the reading.
pub const ERRORS_MAX: usize = 2000;

/// What becomes of errors. The first one ends the reading, as in Apache; for a report all are kept, and the reading goes on
/// behind each of them.
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

    /// Whether it goes on behind an error.
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
        Error { phase, message: message.into(), origin: Some(origin.clone()), unknown: None }
    }

    /// An error of the whole configuration.
    pub fn check(message: impl Into<String>) -> Error {
        Error { phase: Phase::Check, message: message.into(), origin: None, unknown: None }
    }

    /// The text for stderr: Apache's own line or lines first, then the include chain and the hint.
    /// `program` is the name the server was called by.
    pub fn render(&self, program: &str) -> String {
        let message = escape(&self.message);
        let mut out = match (self.phase, &self.origin) {
            // The outermost file comes first: each Include adds its line in front.
            (Phase::Read, Some(origin)) => {
                let mut text = String::new();
                let chain: Vec<&Origin> = origin.chain().collect();
                for at in chain.iter().rev() {
                    let _ = write!(text, "Syntax error on line {} of {}: ", at.line, at.file());
                }
                format!("{program}: {text}Syntax error on line {} of {}: {message}\n", origin.line, origin.file())
            }
            (Phase::Apply, Some(origin)) => {
                format!("AH00526: Syntax error on line {} of {}:\n{message}\n", origin.line, origin.file())
            }
            (Phase::Check, _) => format!("{message}\nAH00014: Configuration check failed\n"),
            (Phase::Read, None) => format!("{program}: {message}\n"),
            (Phase::Apply, None) => format!("{message}\n"),
        };
        if let (Phase::Apply, Some(origin)) = (self.phase, &self.origin) {
            for at in origin.chain() {
                let _ = writeln!(out, "  included from {at}");
            }
        }
        if let Some(Unknown::Directive(_, Some(hint))) = &self.unknown {
            let _ = writeln!(out, "  did you mean '{hint}'?");
        }
        out
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
