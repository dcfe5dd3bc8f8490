//! Finds the undefined variable behind an error.

use conf::{Cause, Error, Notice};

/// The undefined variable that caused an error: one in its line, or one that the message repeats.
pub(crate) fn undefined_variable<'a>(error: &'a Error, notices: &'a [Notice]) -> Option<&'a str> {
    let of_line = notices.iter().filter(|notice| notice.origin.is_some() && notice.origin == error.origin);
    let mut names = of_line.filter_map(|notice| match &notice.cause {
        Some(Cause::UndefinedVariable(name)) => Some(name.as_str()),
        _ => None,
    });
    names.next().or_else(|| variable(&error.message))
}

/// The name of the first `${variable}` in a text.
pub(crate) fn variable(text: &str) -> Option<&str> {
    let (name, _) = text.split_once("${")?.1.split_once('}')?;
    Some(name).filter(|name| !name.is_empty())
}

/// Advice for an undefined variable. The names in Debian's configuration begin with `APACHE_`.
pub(crate) fn define(name: &str) -> String {
    match name.starts_with("APACHE_") {
        true => format!("Run `. /etc/apache2/envvars` first: it defines ${{{name}}}"),
        false => format!("Write `Define {name} VALUE` above this line, or set the environment variable {name}"),
    }
}
