//! Shows what a restart would change: compares the configuration in effect with the one on disk.

use std::collections::BTreeSet;

use conf::{Node, Origin};
use serde_json::{Value, json};
use server::Server;

use crate::explain::{self, module_ids};
use crate::style::{Page, Style};

/// A line of either side.
struct Line<'a> {
    /// The text, indented by the number of sections around it.
    text: String,
    /// The number of sections around it.
    depth: usize,
    /// Its place; `None` for what comes before all lines.
    origin: Option<&'a Origin>,
    /// Whether it ends a section. Such a line is not a change of its own, but separates the changes before it from
    /// those after it.
    end: bool,
}

/// The side or sides that have a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Both,
    Running,
    Disk,
}

/// A line with the result of the comparison.
type Compared<'a> = (Side, &'a Line<'a>);

/// A line that only one side has.
struct Change<'a> {
    side: Side,
    line: &'a Line<'a>,
    /// The sections around it on its side, outermost first, as indices into the comparison.
    within: Vec<usize>,
}

/// The difference, as text or as JSON.
pub(super) fn of(running: &Server, disk: &Server, json: bool, style: Style) -> String {
    let (left, right) = (all(running), all(disk));
    let compared = compare(&left, &right);
    let changes = changes(&compared);
    match json {
        true => for_programs(&compared, &changes),
        false => for_people(&compared, &changes, style),
    }
}

fn for_programs(compared: &[Compared<'_>], changes: &[Change<'_>]) -> String {
    let change = |Change { side, line, within }: &Change<'_>| {
        let section: Vec<&str> = within.iter().map(|at| compared[*at].1.text.trim()).collect();
        json!({
            "only": if *side == Side::Running { "running" } else { "disk" },
            "section": section,
            "line": line.text.trim(),
            "origin": line.origin.map(explain::origin),
            "needs_start": needs_start(&line.text),
        })
    };
    let list: Vec<Value> = changes.iter().map(change).collect();
    format!("{:#}\n", json!({ "same": changes.is_empty(), "changes": list }))
}

fn for_people(compared: &[Compared<'_>], changes: &[Change<'_>], style: Style) -> String {
    if changes.is_empty() {
        return "the configuration on disk is the one in effect\n".into();
    }
    let mut out = Page::default();
    writeln!(out, "{}", style.bad("- in effect"));
    writeln!(out, "{}", style.good("+ on disk: in effect after a restart"));
    let mut shown = BTreeSet::new();
    for Change { side, line, within } in changes {
        // A section that is itself a change was printed already.
        for at in within.iter().filter(|at| compared[**at].0 == Side::Both) {
            if shown.insert(*at) {
                writeln!(out, "  {}", compared[*at].1.text);
            }
        }
        let place = line.origin.map_or_else(|| "before all lines".to_string(), ToString::to_string);
        let hint = if needs_start(&line.text) { "; needs a stop and a start" } else { "" };
        let at = style.dim(format!("  # {place}{hint}"));
        match side {
            Side::Disk => writeln!(out, "{}{at}", style.good(format!("+ {}", line.text))),
            Side::Both | Side::Running => writeln!(out, "{}{at}", style.bad(format!("- {}", line.text))),
        }
    }
    out.finish()
}

/// The lines that are on one side only. If a section was replaced, its lines are in a different section on each side.
fn changes<'a>(compared: &[Compared<'a>]) -> Vec<Change<'a>> {
    let (mut running, mut disk) = (Vec::new(), Vec::new());
    let mut changes = Vec::new();
    for (at, (side, line)) in compared.iter().enumerate() {
        for (own, around) in [(Side::Running, &mut running), (Side::Disk, &mut disk)] {
            if *side == own || *side == Side::Both {
                around.truncate(line.depth);
                if *side == own && !line.end {
                    changes.push(Change { side: own, line, within: around.clone() });
                }
                around.push(at);
            }
        }
    }
    changes
}

/// Directives whose effect is fixed at the first start.
const FIXED: [&str; 3] = ["ServerLimit", "ThreadLimit", "ListenCoresBucketsRatio"];

/// Whether a restart cannot apply a line.
fn needs_start(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (name, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    name == LOAD_MODULE && first.starts_with("mpm_") || FIXED.iter().any(|fixed| fixed.eq_ignore_ascii_case(name))
}

const LOAD_MODULE: &str = "LoadModule";

/// All lines of a configuration, starting with modules and defined names.
fn all(server: &Server) -> Vec<Line<'_>> {
    let plain = |text: String| Line { text, depth: 0, origin: None, end: false };
    let mut out = vec![plain(format!("ServerRoot {}", server.language.server_root))];
    // The order in which modules are loaded does not matter.
    let mut modules = module_ids(server);
    modules.sort_unstable();
    modules.dedup();
    out.extend(modules.into_iter().map(|id| plain(format!("{LOAD_MODULE} {id}"))));
    out.extend(server.language.defines().map(|(name, value)| plain(format!("Define {name} {}", value.unwrap_or("")))));
    add(&server.tree, 0, &mut out);
    out
}

/// Adds each directive, indented below the sections around it.
fn add<'a>(nodes: &'a [Node], depth: usize, out: &mut Vec<Line<'a>>) {
    for node in nodes {
        let (indent, origin) = ("  ".repeat(depth), Some(&node.origin));
        out.push(Line { text: format!("{indent}{node}"), depth, origin, end: false });
        if let Some(children) = &node.children {
            add(children, depth + 1, out);
            let text = format!("{indent}</{}>", node.name.trim_start_matches('<'));
            out.push(Line { text, depth, origin, end: true });
        }
    }
}

/// The lines of both sides in order, with as few as possible on one side only (Hunt and Szymanski's longest common
/// subsequence, over the lines between the common beginning and end).
fn compare<'a>(left: &'a [Line<'a>], right: &'a [Line<'a>]) -> Vec<Compared<'a>> {
    let same = |(a, b): &(&Line<'_>, &Line<'_>)| a.text == b.text;
    let begin = left.iter().zip(right).take_while(same).count();
    let (inner_left, inner_right) = (&left[begin..], &right[begin..]);
    let end = inner_left.iter().rev().zip(inner_right.iter().rev()).take_while(same).count();
    let (end_left, end_right) = (inner_left.len() - end, inner_right.len() - end);
    let mut out: Vec<Compared<'a>> = left[..begin].iter().map(|line| (Side::Both, line)).collect();
    out.extend(middle(&inner_left[..end_left], &inner_right[..end_right]));
    out.extend(inner_left[end_left..].iter().map(|line| (Side::Both, line)));
    out
}

/// Above this number of lines on both sides, they are not compared one by one.
const COMPARED_MAX: usize = 4000;

fn middle<'a>(left: &'a [Line<'a>], right: &'a [Line<'a>]) -> Vec<Compared<'a>> {
    let only = |side, lines: &'a [Line<'a>]| lines.iter().map(move |line| (side, line));
    if left.len().max(right.len()) > COMPARED_MAX {
        return only(Side::Running, left).chain(only(Side::Disk, right)).collect();
    }
    // `longest[i][j]`: the length for `left[i..]` and `right[j..]`.
    let width = right.len() + 1;
    let mut longest = vec![0u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            longest[i * width + j] = match left[i].text == right[j].text {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < left.len() && j < right.len() {
        if left[i].text == right[j].text {
            out.push((Side::Both, &left[i]));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            out.push((Side::Running, &left[i]));
            i += 1;
        } else {
            out.push((Side::Disk, &right[j]));
            j += 1;
        }
    }
    out.extend(only(Side::Running, &left[i..]));
    out.extend(only(Side::Disk, &right[j..]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lines_are_on_one_side_only() {
        let line = |c: char| Line { text: c.into(), depth: 0, origin: None, end: false };
        let lines = |text: &str| -> Vec<Line<'_>> { text.chars().map(line).collect() };
        for (left, right, want) in [
            ("abc", "abc", "abc"),
            ("abc", "axc", "a-b+xc"),
            ("", "ab", "+a+b"),
            ("ab", "", "-a-b"),
            ("abcd", "bd", "-ab-cd"),
            ("bd", "abcd", "+ab+cd"),
        ] {
            let (left, right) = (lines(left), lines(right));
            let got: String = compare(&left, &right)
                .iter()
                .map(|(side, Line { text, .. })| match side {
                    Side::Both => text.clone(),
                    Side::Running => format!("-{text}"),
                    Side::Disk => format!("+{text}"),
                })
                .collect();
            assert_eq!(got, want);
        }
    }
}
