//! Turns the errors of the configuration reader into findings.

use conf::{Error, Origin, Unknown};

use super::advice;
use super::context::ErrorContext;
use super::finding::{Finding, Topic, Weight};
use super::names::{name_at, named};
use super::unknown::{NO_SUCH_DIRECTIVE, directive, module};
use super::variables::{define, undefined_variable, variable};

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
    match &error.unknown {
        Some(Unknown::Module(_)) => "module".into(),
        Some(Unknown::Directive(name)) => match explained(error, known).message {
            Some(why) => why,
            None => name.to_ascii_lowercase(),
        },
        None => error.message.clone(),
    }
}

/// The finding for an error. `topic` is the topic for an unknown directive.
pub(crate) fn finding(error: &Error, weight: Weight, topic: Topic, known: &ErrorContext<'_>) -> Finding {
    let mut found = match &error.unknown {
        Some(Unknown::Module(id)) => module(weight, id, error.origin.as_ref()),
        Some(Unknown::Directive(name)) => directive(weight, topic, name, known),
        None => {
            let topic = if topic == Topic::Directive { Topic::Syntax } else { topic };
            let name = error.origin.as_ref().and_then(|origin| name_at(known.tree, origin));
            let subject = name.or_else(|| end(&error.message)).unwrap_or_else(|| "configuration".into());
            missing_log(&error.message)
                .or_else(|| circle(error))
                .unwrap_or_else(|| Finding::new(weight, topic, &subject, error.message.trim_end()))
        }
    };
    if found.places.is_empty() {
        found.places.extend(error.origin.clone());
    }
    if found.instead.is_none() {
        let undefined = || undefined_variable(error, known.notices).map(define);
        let others = || {
            advice::elsewhere(error, known)
                .or_else(|| advice::near_value(&error.message))
                .or_else(|| advice::mpms(error, known))
        };
        found.instead = undefined().or_else(others);
    }
    found.excerpt = error.excerpt();
    found
}

/// A finding about files that include each other, with the lines that do so. The place of the error is the first of
/// these lines.
fn circle(error: &Error) -> Option<Finding> {
    let last = error.origin.as_ref().filter(|_| error.message.starts_with("Exceeded maximum include depth"))?;
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

/// The finding for a message about a log whose directory does not exist.
pub(crate) fn missing_log(message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("AH02291: ").or_else(|| message.split_once("AH02297: "))?;
    let dir = rest.split('\'').nth(1)?;
    let found = Finding::new(Weight::Stops, Topic::Log, dir, message.trim_end());
    Some(found.instead(variable(dir).map_or_else(|| format!("mkdir -p {dir}"), define)))
}

/// The section end tag that a message is about.
fn end(message: &str) -> Option<String> {
    message.split_whitespace().rfind(|word| word.starts_with("</")).map(named)
}
