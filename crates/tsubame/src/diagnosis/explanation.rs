//! Explains why a configuration cannot run: Apache's own words, and below them the line, the position in it, the reason
//! and the solution.

use std::collections::HashSet;

use conf::error::Phase;
use conf::{Cause, Error};
use server::{Failed, Loaded};

use super::context::ErrorContext;
use super::errors::{explained, kind};
use super::excerpt::marked;
use super::names::named;
use crate::style::{Page, Style};

/// The maximum number of kinds of errors to show after the first error; the rest are counted.
const ERRORS_MAX: usize = 19;

/// How many errors of one kind are shown in full.
const OF_ONE_KIND: usize = 3;

/// The maximum number of places to list for errors of one kind: a stock configuration has some dozens of one kind.
const PLACES_MAX: usize = 40;

/// The maximum number of lines of an include chain to show.
const CHAIN_MAX: usize = 8;

/// The prefix of a note, aligned with the bars.
const NOTE: &str = "      =";

/// The full explanation of an error: lines, each with its line break.
pub(crate) fn of(error: &Error, known: &ErrorContext<'_>, program: &str, style: Style) -> String {
    let mut page = Page::default();
    for line in error.own_lines(program).lines() {
        writeln!(page, "{}", style.bold(line));
    }
    if let Some(excerpt) = error.excerpt() {
        marked(&mut page, "", &excerpt, style);
    }
    for note in notes(error, known) {
        writeln!(page, "{} {note}", style.dim(NOTE));
    }
    page.finish()
}

/// A line below a message of Apache that has no place in a configuration.
pub(crate) fn note(text: &str) -> String {
    format!("{NOTE} {text}")
}

/// The explanation of an error for a log: without the line.
pub(crate) fn for_log(error: &Error, known: &ErrorContext<'_>, program: &str) -> String {
    notes(error, known).into_iter().fold(error.own_lines(program), |text, about| text + &note(&about) + "\n")
}

/// The explanation of all errors except `first`, which was explained already. `None` if there are no others.
/// `everything` is what was read without stopping at an error.
pub(crate) fn of_others(
    everything: &Result<Loaded, Box<Failed>>,
    first: &Error,
    program: &str,
    style: Style,
) -> Option<String> {
    let (errors, known): (Vec<&Error>, ErrorContext<'_>) = match everything {
        Ok(loaded) => (loaded.errors.iter().collect(), loaded.into()),
        Err(failed) => (failed.errors.iter().chain([&failed.error]).collect(), (&**failed).into()),
    };
    let key = |error: &Error| (error.origin.as_ref().map(ToString::to_string), error.message.clone());
    // Files that include each other repeat each of their errors.
    let mut said = HashSet::from([key(first)]);
    let others: Vec<&Error> = errors.into_iter().filter(|error| said.insert(key(error))).collect();
    if others.is_empty() {
        return None;
    }
    let groups = Group::all(first, &others, &known);
    let mut page = Page::default();
    writeln!(page, "{}", style.bold(format!("{}:", more(others.len()))));
    let mut text = page.finish();
    for group in groups.iter().take(ERRORS_MAX) {
        group.shown.iter().for_each(|error| text += &of(error, &known, program, style));
        text += &group.rest(style);
    }
    let left: usize = groups.iter().skip(ERRORS_MAX).map(|group| group.shown.len() + group.others.len()).sum();
    if left > 0 {
        text += &format!("and {}; `{} check` lists them all\n", more(left), program);
    }
    Some(text)
}

/// Errors with one reason.
struct Group<'a> {
    kind: String,
    /// Whether the very first error, which was shown already, is of this kind.
    is_first: bool,
    /// Errors that are shown in full.
    shown: Vec<&'a Error>,
    others: Vec<&'a Error>,
}

impl<'a> Group<'a> {
    /// The groups of these errors, in the order of their first members.
    fn all(first: &Error, errors: &[&'a Error], known: &ErrorContext<'_>) -> Vec<Group<'a>> {
        let new = |kind, is_first| Group { kind, is_first, shown: Vec::new(), others: Vec::new() };
        let mut groups = vec![new(kind(first, known), true)];
        for error in errors {
            let kind = kind(error, known);
            let at = groups.iter().position(|group| group.kind == kind).unwrap_or_else(|| {
                groups.push(new(kind, false));
                groups.len() - 1
            });
            let group = &mut groups[at];
            let has_room = group.shown.len() + usize::from(group.is_first) < OF_ONE_KIND;
            if has_room { group.shown.push(error) } else { group.others.push(error) }
        }
        groups.retain(|group| !group.shown.is_empty());
        groups
    }

    /// The line about the errors that are not shown: what is unknown in each of them, and the place.
    fn rest(&self, style: Style) -> String {
        if self.others.is_empty() {
            return String::new();
        }
        let place = |error: &&Error| {
            let at = error.origin.as_ref().map(ToString::to_string)?;
            Some(match error.cause() {
                Some(Cause::UnknownModule(name) | Cause::UnknownDirective(name)) => {
                    format!("{} at {at}", named(name))
                }
                _ => at,
            })
        };
        let mut places: Vec<String> = self.others.iter().filter_map(place).take(PLACES_MAX).collect();
        if let Some(left) = self.others.len().checked_sub(PLACES_MAX).filter(|left| *left > 0) {
            places.push(format!("and {left} more"));
        }
        let mut page = Page::default();
        writeln!(page, "{} and {} more of this kind: {}", style.dim(NOTE), self.others.len(), places.join(", "));
        page.finish()
    }
}

fn more(count: usize) -> String {
    format!("{count} more error{}", if count == 1 { "" } else { "s" })
}

/// The notes that Apache's words leave out.
fn notes(error: &Error, known: &ErrorContext<'_>) -> Vec<String> {
    let found = explained(error, known);
    let mut notes: Vec<String> = error.reason.iter().map(ToString::to_string).chain(found.message).collect();
    notes.extend(found.instead.map(|instead| format!("help: {instead}")));
    // When reading stops, Apache prints the chain itself.
    if let (Phase::Apply, Some(origin)) = (error.phase, &error.origin) {
        let mut seen = HashSet::from([(origin.line, origin.file())]);
        let mut chain = origin.chain().take_while(|at| seen.insert((at.line, at.file())));
        notes.extend(chain.by_ref().take(CHAIN_MAX).map(|at| format!("included from {at}")));
        let left = chain.count();
        if left > 0 {
            notes.push(format!("and from {left} more"));
        }
    }
    notes
}
