//! Colours, for terminals only and only where NO_COLOR does not forbid them.

use std::io::IsTerminal as _;

/// Something to be glad of, on standard output.
pub(crate) fn good(text: &str) -> String {
    paint("32", text, std::io::stdout().is_terminal())
}

/// Something to look at, on standard output.
pub(crate) fn doubtful(text: &str) -> String {
    paint("33", text, std::io::stdout().is_terminal())
}

/// Something wrong, on standard output.
pub(crate) fn bad(text: &str) -> String {
    paint("31", text, std::io::stdout().is_terminal())
}

/// Something wrong, on standard error.
pub(crate) fn bad_stderr(text: &str) -> String {
    paint("31", text, std::io::stderr().is_terminal())
}

/// A heading, on standard output.
pub(crate) fn heading(text: &str) -> String {
    paint("1", text, std::io::stdout().is_terminal())
}

fn paint(code: &str, text: &str, terminal: bool) -> String {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if terminal && !forbidden { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}
