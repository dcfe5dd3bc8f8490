//! Turns the errors of the configuration reader into findings.

use conf::{Cause, Error, Origin};

use super::advice;
use super::context::ErrorContext;
use super::names::{name_at, named};
use super::unknown::{NO_SUCH_DIRECTIVE, directive, module};
use super::variables::{define, undefined_variable, variable};
use server::module::finding::{Finding, Topic, Weight};

/// An explanation to add to Apache's own words about an error.
pub(crate) struct Explained {
    /// The problem, where Apache's words do not state it.
    pub(crate) message: Option<String>,
    /// What to write or do instead.
    pub(crate) instead: Option<String>,
}

/// Explains an error.
pub(crate) fn explained(error: &Error, known: &ErrorContext<'_>) -> Explained {
    let Finding { message, instead, .. } = finding(error, Weight::Stops, Topic::Directive, known);
    let says_more = message != NO_SUCH_DIRECTIVE && message != error.message.trim_end();
    Explained { message: says_more.then_some(message), instead }
}

/// What errors of one kind have in common: their reason. Unknown modules are one kind.
pub(crate) fn kind(error: &Error, known: &ErrorContext<'_>) -> String {
    match error.cause() {
        Some(Cause::UnknownModule(_)) => "module".into(),
        Some(Cause::UnknownDirective(name)) => match explained(error, known).message {
            Some(why) => why,
            None => name.to_ascii_lowercase(),
        },
        _ => error.message.clone(),
    }
}

/// The finding for an error. `topic` is the topic for an unknown directive.
pub(crate) fn finding(error: &Error, weight: Weight, topic: Topic, known: &ErrorContext<'_>) -> Finding {
    let mut found = match error.cause() {
        Some(Cause::UnknownModule(id)) => module(weight, id, error.origin.as_ref()),
        Some(Cause::UnknownDirective(name)) => directive(weight, topic, name, known),
        Some(Cause::NoLogDirectory(directory)) => missing_log(directory, &error.message),
        cause => circle(error).unwrap_or_else(|| {
            let topic = if topic == Topic::Directive { Topic::Syntax } else { topic };
            let name = error.origin.as_ref().and_then(|origin| name_at(known.tree, origin));
            let name = name.or_else(|| match cause {
                Some(Cause::EndTag(tag)) => Some(named(tag)),
                _ => None,
            });
            let subject = name.as_deref().unwrap_or("configuration");
            Finding::new(weight, topic, subject, error.message.trim_end())
        }),
    };
    if found.places.is_empty() {
        found.places.extend(error.origin.clone());
    }
    if found.instead.is_none() {
        let undefined = undefined_variable(error, known.notices).map(define);
        let others = || error.advice.as_deref().map(str::to_string).or_else(|| advice::mpms(error, known));
        found.instead = undefined.or_else(|| advice::elsewhere(error, known)).or_else(others);
    }
    found.excerpt = error.excerpt();
    found
}

/// A finding about files that include each other, with the lines that do so. The place of the error is the first of
/// these lines.
fn circle(error: &Error) -> Option<Finding> {
    let last = error.origin.as_ref().filter(|_| error.cause() == Some(&Cause::EndlessInclude))?;
    let lines = last.cycle()?;
    let is_same = |at: &&Origin| at.line == last.line && at.file() == last.file();
    let first = last.chain().filter(is_same).last()?;
    let rounds = (last.depth() + 1).div_ceil(lines.len());
    let shown: Vec<String> = lines.iter().map(|at| at.to_string()).collect();
    let (message, instead) = match &shown[..] {
        [_] => (format!("This file includes itself, {rounds} times over until the limit."), "Remove the line"),
        _ => {
            let lines = shown.join(", ");
            let message = format!("These lines include each other, {rounds} times over until the limit: {lines}.");
            (message, "Remove one of them")
        }
    };
    let mut found = Finding::new(Weight::Stops, Topic::Circle, "Include", message).instead(instead);
    found.places.push(first.clone());
    Some(found)
}

/// The finding for a log whose directory does not exist.
pub(crate) fn missing_log(directory: &str, message: &str) -> Finding {
    let found = Finding::new(Weight::Stops, Topic::Log, directory, message.trim_end());
    found.instead(variable(directory).map_or_else(|| format!("mkdir -p {directory}"), define))
}
