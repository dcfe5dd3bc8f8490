//! Colours, where they are wanted.

use std::fmt::Display;
use std::io::IsTerminal;

/// Whether text is marked up for a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style(pub(crate) bool);

impl Style {
    /// For standard output: a terminal, unless `NO_COLOR` is set to anything (no-color.org).
    pub(crate) fn of_output() -> Style {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style(!refused && std::io::stdout().is_terminal())
    }

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    /// For what does not count; readable without colours too, as it is said beside it.
    pub(crate) fn struck(self, text: impl Display) -> String {
        self.wrap("2;9", text)
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn bad(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}
