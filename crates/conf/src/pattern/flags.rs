//! What a pattern is compiled with, and why it could not be.

use std::fmt;

/// Compile-time options of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// ASCII letters match regardless of case.
    pub ignore_case: bool,
    /// `^` and `$` match at every line.
    pub multi_line: bool,
    /// `.` matches a newline too (`DOTALL`).
    pub dot_all: bool,
    /// `$` matches at the very end only, not before a final newline (`DOLLAR_ENDONLY`).
    pub dollar_end_only: bool,
    /// Blanks and `#` comments in the pattern mean nothing (`EXTENDED`).
    pub extended: bool,
}

impl Default for Flags {
    /// What `RegexDefaultOptions` stands for in 2.4: `DOTALL` and `DOLLAR_ENDONLY`.
    fn default() -> Self {
        Self { ignore_case: false, multi_line: false, dot_all: true, dollar_end_only: true, extended: false }
    }
}

impl Flags {
    /// The defaults with case ignored, as `BrowserMatchNoCase` and `[NC]` want it.
    #[must_use]
    pub fn ignoring_case() -> Self {
        Self { ignore_case: true, ..Self::default() }
    }
}

/// Why a pattern could not be compiled.
///
/// Apache shows this text nowhere (each directive has a message of its own); it is for our own
/// detail lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError(String);

impl PatternError {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PatternError {}
