//! Arguments that the directives of several of these modules take, and rows of those that do nothing.

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, row};

/// A number of our own directives, for which Apache has no rules.
pub(super) fn number(cmd: &Cmd<'_>, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{}: '{value}' is not a number", cmd.node.name))
}

/// Checks that a file exists and can be reached. `what` it is stands in the message.
pub(super) fn check_accessible(cmd: &Cmd<'_>, what: &str, path: &str) -> Result<(), String> {
    match cmd.context.system.file_kind(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{what} {path} cannot be accessed: {}", sys::describe(&error))),
    }
}

/// The row of a directive with one argument that has no effect here, and why.
pub(super) const fn ignored(
    name: &'static str,
    allowed: Allowed,
    default: &'static str,
    why: &'static str,
    help: &'static str,
) -> Directive {
    row(name, allowed, Take1(|_, _| Ok(())), default, help).without_effect(why)
}
