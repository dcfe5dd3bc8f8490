//! A violation of a rule, as a check reports it.

use std::fmt;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) file: String,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) what: String,
    /// How to fix it.
    pub(crate) advice: String,
}

/// The severity of a finding. Errors make the run fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

impl Finding {
    pub(crate) fn error(file: &str, line: usize, what: impl Into<String>, advice: impl Into<String>) -> Finding {
        let (what, advice) = (what.into(), advice.into());
        Finding { severity: Severity::Error, file: file.into(), line, what, advice }
    }

    pub(crate) fn warning(file: &str, line: usize, what: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(file, line, what, advice) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}: {severity}: {}\n    {}", self.file, self.line, self.what, self.advice)
    }
}
