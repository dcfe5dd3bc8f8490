//! Reports a wrong command line: the reason, the most similar name, the usage, and where to find more.

use std::process::ExitCode;

use conf::nearest_name;

use super::help::HelpPage;
use crate::output;

/// What the words after a command ask for. `Err`: the page of `--help` was printed (`Ok(None)`), or misuse was reported.
pub(crate) fn wish<W>(program: &str, page: &HelpPage, read: Result<Option<W>, lexopt::Error>) -> Result<W, ExitCode> {
    match read {
        Ok(Some(wish)) => Ok(wish),
        Ok(None) => {
            output::print(&page.page());
            Err(ExitCode::SUCCESS)
        }
        Err(why) => {
            report(program, page, &why);
            Err(page.misuse.into())
        }
    }
}

/// Reports why the words after a command are wrong.
pub(crate) fn report(program: &str, page: &HelpPage, error: &lexopt::Error) {
    let called = format!("{program} {}", page.name);
    let reason = reason(error, page.long_options());
    output::complain(&format!("{called}: {reason}\n{}`{called} --help` says more.", page.usage_lines()));
}

/// The reason why a command line is wrong. For an unknown option it suggests the most similar one of these.
pub(crate) fn reason(error: &lexopt::Error, options: impl Iterator<Item = &'static str>) -> String {
    match error {
        lexopt::Error::UnexpectedOption(option) => unknown("option", option, options),
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
