//! What a restart would change: the configuration in effect beside the one on disk.

use serde_json::{Value, json};
use server::Server;

use crate::explain::{lines, module_ids};
use crate::style::{Page, Style};

/// A line of one side, with its place.
type Line = (String, String);

/// Which side has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Both,
    Running,
    Disk,
}

/// As text, or for programs.
pub(super) fn of(running: &Server, disk: &Server, json: bool, style: Style) -> String {
    let (left, right) = (all(running), all(disk));
    let changes: Vec<(Side, &Line)> =
        compare(&left, &right).into_iter().filter(|(side, _)| *side != Side::Both).collect();
    if json {
        let change = |(side, (text, origin)): &(Side, &Line)| {
            let side = if *side == Side::Running { "running" } else { "disk" };
            json!({ "only": side, "line": text.trim(), "origin": origin, "needs_start": needs_start(text) })
        };
        let changes: Vec<Value> = changes.iter().map(change).collect();
        return format!("{:#}\n", json!({ "same": changes.is_empty(), "changes": changes }));
    }
    if changes.is_empty() {
        return "the configuration on disk is the one in effect\n".into();
    }
    let mut out = Page::default();
    writeln!(out, "{}", style.bad("- in effect"));
    writeln!(out, "{}", style.good("+ on disk: in effect after a restart"));
    for (side, (text, origin)) in changes {
        let hint = if needs_start(text) { "; needs a stop and a start" } else { "" };
        let at = style.dim(format!("  # {origin}{hint}"));
        match side {
            Side::Disk => writeln!(out, "{}{at}", style.good(format!("+ {text}"))),
            Side::Both | Side::Running => writeln!(out, "{}{at}", style.bad(format!("- {text}"))),
        }
    }
    out.finish()
}

/// Directives of which the first start has fixed what they ask for.
const FIXED: [&str; 3] = ["ServerLimit", "ThreadLimit", "ListenCoresBucketsRatio"];

/// Whether a line is about what a restart cannot change.
fn needs_start(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (name, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    name == LOAD_MODULE && first.starts_with("mpm_") || FIXED.iter().any(|fixed| fixed.eq_ignore_ascii_case(name))
}

const LOAD_MODULE: &str = "LoadModule";

/// Everything that a configuration says, modules and names first.
fn all(server: &Server) -> Vec<Line> {
    let plain = |text: String| (text, "before all lines".to_string());
    let mut out = vec![plain(format!("ServerRoot {}", server.language.server_root))];
    // It does not matter in which order they are loaded.
    let mut modules = module_ids(server);
    modules.sort_unstable();
    modules.dedup();
    out.extend(modules.into_iter().map(|id| plain(format!("{LOAD_MODULE} {id}"))));
    out.extend(server.language.defines().map(|(name, value)| plain(format!("Define {name} {}", value.unwrap_or("")))));
    lines(&server.tree, 0, &mut out);
    out
}

/// The lines of both sides in order, as few as possible of them on one side only (Hunt and Szymanski's longest common
/// subsequence, over what is left between the same beginning and end).
fn compare<'a>(left: &'a [Line], right: &'a [Line]) -> Vec<(Side, &'a Line)> {
    let same = |(a, b): &(&Line, &Line)| a.0 == b.0;
    let begin = left.iter().zip(right).take_while(same).count();
    let (inner_left, inner_right) = (&left[begin..], &right[begin..]);
    let end = inner_left.iter().rev().zip(inner_right.iter().rev()).take_while(same).count();
    let (end_left, end_right) = (inner_left.len() - end, inner_right.len() - end);
    let mut out: Vec<(Side, &Line)> = left[..begin].iter().map(|line| (Side::Both, line)).collect();
    out.extend(middle(&inner_left[..end_left], &inner_right[..end_right]));
    out.extend(inner_left[end_left..].iter().map(|line| (Side::Both, line)));
    out
}

/// More lines than this on both sides are not compared one by one.
const COMPARED_MAX: usize = 4000;

fn middle<'a>(left: &'a [Line], right: &'a [Line]) -> Vec<(Side, &'a Line)> {
    let only = |side, lines: &'a [Line]| lines.iter().map(move |line| (side, line));
    if left.len().max(right.len()) > COMPARED_MAX {
        return only(Side::Running, left).chain(only(Side::Disk, right)).collect();
    }
    // longest[i][j]: of left[i..] and right[j..]
    let width = right.len() + 1;
    let mut longest = vec![0u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            longest[i * width + j] = match left[i].0 == right[j].0 {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < left.len() && j < right.len() {
        if left[i].0 == right[j].0 {
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
        let lines = |text: &str| -> Vec<Line> { text.chars().map(|c| (c.to_string(), String::new())).collect() };
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
                .map(|(side, (text, _))| match side {
                    Side::Both => text.clone(),
                    Side::Running => format!("-{text}"),
                    Side::Disk => format!("+{text}"),
                })
                .collect();
            assert_eq!(got, want);
        }
    }
}
