//! Reports a wrong command line: the reason, the most similar name, the usage, and where to find more.

use conf::directive::nearest_name;

use crate::output;

/// Reports why the words after `program command` are wrong. `page` is the text of `--help`.
pub(crate) fn report(program: &str, command: &str, page: &'static str, error: &lexopt::Error) {
    let called = format!("{program} {command}");
    output::complain(&format!("{called}: {}\n{}`{called} --help` says more.", reason(error, page), usage(page)));
}

/// The reason why a command line is wrong. For an unknown name it suggests the most similar one of the page.
pub(crate) fn reason(error: &lexopt::Error, page: &'static str) -> String {
    match error {
        lexopt::Error::UnexpectedOption(option) => unknown("option", option, options(page)),
        lexopt::Error::MissingValue { option: Some(option) } => format!("option '{option}' needs a value"),
        lexopt::Error::UnexpectedValue { option, .. } => format!("option '{option}' takes no value"),
        lexopt::Error::UnexpectedArgument(word) => format!("unexpected word '{}'", word.to_string_lossy()),
        other => other.to_string(),
    }
}

/// A message about an unknown name, with the one that was probably meant.
pub(crate) fn unknown(what: &str, name: &str, names: impl Iterator<Item = &'static str>) -> String {
    let near = nearest_name(names, name).map_or_else(String::new, |near| format!(": did you mean '{near}'?"));
    format!("unknown {what} '{name}'{near}")
}

/// The long options that a page lists.
fn options(page: &'static str) -> impl Iterator<Item = &'static str> {
    page.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| word.starts_with("--") && word.len() > 2)
}

/// The usage lines of a page.
fn usage(page: &str) -> String {
    let lines = page.lines().skip_while(|line| !line.starts_with("Usage:")).take_while(|line| !line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}
