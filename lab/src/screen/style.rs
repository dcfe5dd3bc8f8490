//! Colours, for terminals only, and not if NO_COLOR forbids them.

use std::io::IsTerminal;

/// Marks good news, on standard output.
pub(crate) fn good(text: &str) -> String {
    paint("32", text, is_wanted(&std::io::stdout()))
}

/// Marks something doubtful, on standard output.
pub(crate) fn doubtful(text: &str) -> String {
    paint("33", text, is_wanted(&std::io::stdout()))
}

/// Marks something wrong, on standard output.
pub(crate) fn bad(text: &str) -> String {
    paint("31", text, is_wanted(&std::io::stdout()))
}

/// Marks something wrong, on standard error.
pub(crate) fn bad_stderr(text: &str) -> String {
    paint("31", text, is_wanted(&std::io::stderr()))
}

/// Marks a heading, on standard output.
pub(crate) fn heading(text: &str) -> String {
    paint("1", text, is_wanted(&std::io::stdout()))
}

/// Whether colours are wanted there.
pub(crate) fn is_wanted(stream: &impl IsTerminal) -> bool {
    let is_forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !is_forbidden
}

fn paint(code: &str, text: &str, is_wanted: bool) -> String {
    if is_wanted { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}
