//! The options to compile a pattern with, and the error if that fails.

use std::fmt;

use sys::pcre2::{CompileError, Options};

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
    /// Blanks and `#` comments in the pattern are ignored (`EXTENDED`).
    pub extended: bool,
}

impl Default for Flags {
    /// The default of `RegexDefaultOptions` in 2.4: `DOTALL` and `DOLLAR_ENDONLY`.
    fn default() -> Self {
        Self { ignore_case: false, multi_line: false, dot_all: true, dollar_end_only: true, extended: false }
    }
}

impl Flags {
    /// The defaults with case ignored, for `BrowserMatchNoCase` and `[NC]`.
    #[must_use]
    pub fn ignoring_case() -> Self {
        Self { ignore_case: true, ..Self::default() }
    }

    /// The PCRE2 options. As in Apache, several groups may have the same name.
    pub(super) fn options(self) -> Options {
        let given = [
            (self.ignore_case, Options::CASELESS),
            (self.multi_line, Options::MULTILINE),
            (self.dot_all, Options::DOTALL),
            (self.dollar_end_only, Options::DOLLAR_ENDONLY),
            (self.extended, Options::EXTENDED),
        ];
        let given = given.into_iter().filter_map(|(set, option)| set.then_some(option));
        given.fold(Options::DUPNAMES, Options::or)
    }
}

/// Why a pattern could not be compiled, with PCRE2's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError(pub(super) CompileError);

impl PatternError {
    /// The byte of the pattern where PCRE2 found the error; it may be the pattern's length.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.0.offset
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.0.text, self.0.offset)
    }
}

impl std::error::Error for PatternError {}
