//! Explains why a configuration cannot run: Apache's own words, and below them the line, the position in it, the reason
//! and the solution.

use std::collections::HashSet;

use conf::error::Phase;
use conf::read::Ran;
use conf::{Error, Excerpt, Marked, ModuleInfo, Node, Notice, Unknown};
use server::{Failed, Loaded};
use unicode_width::UnicodeWidthStr as _;

use crate::boot;
use crate::check::{explained, kind, named};
use crate::cli::Options;
use crate::style::{Page, Style, shown};

/// The maximum number of kinds of errors to show after the first error; the rest are counted.
const ERRORS_MAX: usize = 19;
/// How many errors of one kind are shown in full.
const OF_ONE_KIND: usize = 3;
/// The maximum number of places to list for errors of one kind: a stock configuration has some dozens of one kind.
const PLACES_MAX: usize = 40;
/// The maximum number of lines of an include chain to show.
const CHAIN_MAX: usize = 8;
/// The maximum length of a line, in columns. A longer line is cut around the marked part.
const COLUMNS_MAX: usize = 100;
/// The number of columns before the marked part of a line that was cut.
const COLUMNS_BEFORE: usize = 30;
/// The prefix of a note, aligned with the bars.
const NOTE: &str = "      =";
const TAB: &str = "    ";

/// The parts of a configuration that are used to explain an error.
pub(crate) struct Known<'a> {
    /// Its directives and sections.
    pub(crate) tree: &'a [Node],
    /// The lines that took effect while the configuration was read.
    pub(crate) ran: &'a [Ran],
    /// The modules that are loaded.
    pub(crate) loaded: &'a [&'static ModuleInfo],
    /// The notices of the reader.
    pub(crate) notices: &'a [Notice],
}

impl<'a> From<&'a Failed> for Known<'a> {
    fn from(failed: &'a Failed) -> Known<'a> {
        let Failed { tree, ran, notices, language, .. } = failed;
        Known { tree, ran, notices, loaded: language.loaded() }
    }
}

impl<'a> From<&'a Loaded> for Known<'a> {
    fn from(loaded: &'a Loaded) -> Known<'a> {
        let Loaded { server, notices, .. } = loaded;
        Known { tree: &server.tree, ran: &server.ran, notices, loaded: server.infos() }
    }
}

/// The full explanation of an error: lines, each with its line break.
pub(crate) fn of(error: &Error, known: &Known<'_>, program: &str, style: Style) -> String {
    let mut page = Page::default();
    for line in own_lines(error, program).lines() {
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
pub(crate) fn for_log(error: &Error, known: &Known<'_>, program: &str) -> String {
    notes(error, known).into_iter().fold(own_lines(error, program), |text, about| text + &note(&about) + "\n")
}

/// The explanation of all errors except `first`, which was explained already. `None` if there are no others.
pub(crate) fn of_others(options: &Options, first: &Error, style: Style) -> Option<String> {
    let everything = boot::read_everything(options);
    let (errors, known): (Vec<&Error>, Known<'_>) = match &everything {
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
        group.shown.iter().for_each(|error| text += &of(error, &known, &options.program, style));
        text += &group.rest(style);
    }
    let left: usize = groups.iter().skip(ERRORS_MAX).map(|group| group.shown.len() + group.others.len()).sum();
    if left > 0 {
        text += &format!("and {}; `{} check` lists them all\n", more(left), options.program);
    }
    Some(text)
}

/// Errors with one reason.
struct Group<'a> {
    kind: String,
    /// Whether the very first error, which was shown already, is of this kind.
    is_first: bool,
    /// Those that are shown in full.
    shown: Vec<&'a Error>,
    others: Vec<&'a Error>,
}

impl<'a> Group<'a> {
    /// The groups of these errors, in the order of their first members.
    fn all(first: &Error, errors: &[&'a Error], known: &Known<'_>) -> Vec<Group<'a>> {
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
            Some(match &error.unknown {
                Some(Unknown::Module(name) | Unknown::Directive(name)) => {
                    format!("{} at {at}", named(name))
                }
                None => at,
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

/// Apache's own line or lines.
fn own_lines(error: &Error, program: &str) -> String {
    error.own_lines(program).replace("{program}", program)
}

/// The notes that Apache's words leave out.
fn notes(error: &Error, known: &Known<'_>) -> Vec<String> {
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

/// Writes an excerpt: the lines with their numbers, and carets below the marked part.
pub(crate) fn marked(page: &mut Page, indent: &str, excerpt: &Excerpt, style: Style) {
    let gutter = |text: &str| style.dim(format!("{indent}{text:>5} |"));
    let mut next = None;
    for line in &excerpt.0 {
        if next.is_some_and(|next| next != line.number) {
            writeln!(page, "{}", gutter("..."));
        }
        next = Some(line.number + 1);
        let Window { text, carets } = Window::of(line);
        writeln!(page, "{} {text}", gutter(&line.number.to_string()));
        if let Some((blanks, count)) = carets {
            writeln!(page, "{} {}{}", gutter(""), " ".repeat(blanks), style.bad("^".repeat(count)));
        }
    }
}

/// The visible part of a line.
struct Window {
    text: String,
    /// The number of columns before the carets, and the number of carets.
    carets: Option<(usize, usize)>,
}

impl Window {
    /// The whole line if it fits; otherwise the text around the marked part.
    fn of(line: &Marked) -> Window {
        let mark = line.mark.clone().unwrap_or_default();
        let (before, rest) = line.text.split_at(mark.start);
        let (meant, after) = rest.split_at(mark.len());
        let is_long = fitting(line.text.chars(), COLUMNS_MAX).1;
        let (mut front, is_cut) = fitting(before.chars().rev(), if is_long { COLUMNS_BEFORE } else { COLUMNS_MAX });
        front.reverse();
        let front = format!("{}{}", if is_cut { "…" } else { "" }, front.concat());
        let room = COLUMNS_MAX.saturating_sub(front.width());
        let (middle, is_cut) = fitting(meant.chars(), room);
        let middle = middle.concat();
        let (behind, is_cut) = match is_cut {
            true => (Vec::new(), true),
            false => fitting(after.chars(), room - middle.width()),
        };
        let text = format!("{front}{middle}{}{}", behind.concat(), if is_cut { "…" } else { "" });
        let carets = line.mark.is_some().then(|| (front.width(), middle.width().max(1)));
        Window { text: text.trim_end().to_string(), carets }
    }
}

/// Characters as they are shown, as many as fit into `columns`; and whether there are more.
fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> (Vec<String>, bool) {
    let (mut fitting, mut used) = (Vec::new(), 0);
    for c in chars {
        let cell = if c == '\t' { TAB.into() } else { shown(c) };
        used += cell.width();
        if used > columns {
            return (fitting, true);
        }
        fitting.push(cell);
    }
    (fitting, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line, with the carets below it.
    fn shown_with(text: &str, part: &str) -> String {
        let start = text.find(part).expect("the part");
        let line = Marked { number: 7, text: text.into(), mark: Some(start..start + part.len()) };
        let mut page = Page::default();
        marked(&mut page, "", &Excerpt(vec![line]), Style(false));
        page.finish()
    }

    #[test]
    fn carets_mark_the_wrong_word() {
        let cases = [
            ("Listen x", "x", "    7 | Listen x\n      |        ^\n"),
            ("\tListen\tx", "x", "    7 |     Listen    x\n      |               ^\n"),
            ("ServerName 日本 語", "語", "    7 | ServerName 日本 語\n      |                 ^^\n"),
            ("A \u{7}bc", "bc", "    7 | A \\x07bc\n      |       ^^\n"),
        ];
        for (text, part, want) in cases {
            assert_eq!(shown_with(text, part), want);
        }
    }

    #[test]
    fn long_lines_are_cut() {
        let text = format!("Alias {} needle {}", "a".repeat(500), "b".repeat(500));
        let shown = shown_with(&text, "needle");
        let [line, carets] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
        assert!(line.starts_with("    7 | …aaa") && line.ends_with("b…"), "{shown}");
        assert_eq!(line.chars().position(|c| c == 'n'), carets.chars().position(|c| c == '^'), "{shown}");
        assert_eq!(carets.matches('^').count(), "needle".len());
        let shown = shown_with(&text, &"b".repeat(500));
        assert!(shown.lines().all(|line| line.chars().count() < 120), "{shown}");
    }
}
