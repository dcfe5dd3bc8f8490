//! Shows what a restart would change: compares the configuration in effect with the one on disk.

use std::collections::BTreeSet;

use conf::{Node, Origin};
use serde_json::{Value, json};
use server::Server;

use super::align::{Side, align};
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

/// A line with the result of the comparison.
type Compared<'a> = (Side, &'a Line<'a>);

/// A line that only one side has.
struct Change<'a> {
    side: Side,
    line: &'a Line<'a>,
    /// The sections around it on its side, outermost first, as indices into the comparison.
    within: Vec<usize>,
}

/// The difference, as text or as JSON. `drift` is what was changed by hand since a bundle was loaded.
pub(super) fn of(running: &Server, disk: &Server, drift: &[String], json: bool, style: Style) -> String {
    let (left, right) = (all(running), all(disk));
    let compared = align(&left, &right, |a, b| a.text == b.text);
    let changes = changes(&compared);
    match json {
        true => for_programs(&compared, &changes, drift),
        false => for_people(&compared, &changes, drift, style),
    }
}

/// Writes a line for each file that was changed by hand.
pub(super) fn write_drift(out: &mut Page, drift: &[String], style: Style) {
    for text in drift {
        writeln!(out, "{} {text}", style.bad("changed by hand since it was loaded:"));
    }
}

fn for_programs(compared: &[Compared<'_>], changes: &[Change<'_>], drift: &[String]) -> String {
    let change = |Change { side, line, within }: &Change<'_>| {
        let section: Vec<&str> = within.iter().map(|at| compared[*at].1.text.trim()).collect();
        json!({
            "only": if *side == Side::Left { "running" } else { "disk" },
            "section": section,
            "line": line.text.trim(),
            "origin": line.origin.map(explain::origin),
            "needs_start": needs_start(&line.text),
        })
    };
    let list: Vec<Value> = changes.iter().map(change).collect();
    format!("{:#}\n", json!({ "same": changes.is_empty(), "changes": list, "drift": drift }))
}

fn for_people(compared: &[Compared<'_>], changes: &[Change<'_>], drift: &[String], style: Style) -> String {
    let mut out = Page::default();
    write_drift(&mut out, drift, style);
    if changes.is_empty() {
        writeln!(out, "the configuration on disk is the one in effect");
        return out.finish();
    }
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
            Side::Right => writeln!(out, "{}{at}", style.good(format!("+ {}", line.text))),
            Side::Both | Side::Left => writeln!(out, "{}{at}", style.bad(format!("- {}", line.text))),
        }
    }
    out.finish()
}

/// The lines that are on one side only. If a section was replaced, its lines are in a different section on each side.
fn changes<'a>(compared: &[Compared<'a>]) -> Vec<Change<'a>> {
    let (mut running, mut disk) = (Vec::new(), Vec::new());
    let mut changes = Vec::new();
    for (at, (side, line)) in compared.iter().enumerate() {
        for (own, around) in [(Side::Left, &mut running), (Side::Right, &mut disk)] {
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
