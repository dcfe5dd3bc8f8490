//! `--mpm`: shows the configured values of the multi-processing module, and the values that it uses.

use mpm::{DirectiveValue, Explained, Spare};
use serde_json::{Value, json};

use crate::style::{Page, Style};

pub(super) fn text(explained: &Explained, style: Style) -> String {
    let mut out = Page::default();
    writeln!(out, "{}", style.bold(format!("MPM {}", explained.mpm)));
    if !explained.asked.is_empty() {
        writeln!(out);
        writeln!(out, "  {:<20} {:>9} {:>9}", "directive", "asked for", "runs");
    }
    for row in &explained.asked {
        let value = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let wanted = row.configured.as_ref().map(|(value, _)| *value).or(row.wanted);
        let runs = format!("{:>9}", value(row.runs.map(|runs| runs.to_string())));
        let runs = if row.is_changed() { style.bad(runs) } else { runs };
        writeln!(out, "  {:<20} {:>9} {runs}  {}", row.name, value(wanted.map(|w| w.to_string())), place(row, style));
    }
    writeln!(out);
    writeln!(out, "{}", style.bold("How these numbers come about"));
    for sum in &explained.sums {
        let (what, sum) = sum.split_once(": ").unwrap_or(("", sum));
        writeln!(out, "  {}: {sum}", style.good(what));
    }
    writeln!(out);
    writeln!(out, "{}", style.bold("What runs"));
    writeln!(out, "  {}", summary(explained));
    out.finish()
}

fn place(row: &DirectiveValue, style: Style) -> String {
    match &row.configured {
        Some((_, origin)) => {
            let chain: String = origin.chain().map(|outer| format!(" < {outer}")).collect();
            style.dim(format!("{origin}{chain}"))
        }
        None => style.dim("by default"),
    }
}

fn summary(explained: &Explained) -> String {
    let plan = &explained.plan;
    let plural = |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let mut text = plural(plan.children, "child", "children");
    if explained.connections.is_some() {
        text = format!(
            "{text} at most ({} at the start) with {} each: {} served at once",
            plan.start,
            plural(plan.workers, "worker", "workers"),
            plural(plan.children * plan.workers, "request", "requests"),
        );
    }
    match explained.connections {
        Some(connections) => format!("{text}, {} open", plural(connections, "connection", "connections")),
        None => format!("{text}, as many connections as descriptors allow"),
    }
}

pub(super) fn json(explained: &Explained) -> String {
    let asked = |row: &DirectiveValue| {
        json!({
            "name": row.name,
            "asked": row.configured.as_ref().map(|(value, _)| *value).or(row.wanted),
            "origin": row.configured.as_ref().map(|(_, origin)| super::json::origin(origin)),
            "runs": row.runs,
            "changed": row.is_changed(),
        })
    };
    let plan = &explained.plan;
    let spare = match plan.spare {
        Spare::Between(min, max) => json!({ "min": min, "max": max }),
        Spare::FixedChildren => Value::Null,
    };
    let value = json!({
        "mpm": explained.mpm,
        "directives": explained.asked.iter().map(asked).collect::<Vec<_>>(),
        "arithmetic": explained.sums,
        "runs": {
            "children": plan.children,
            "workers_per_child": plan.workers,
            "workers": plan.children * plan.workers,
            "start": plan.start,
            "idle_workers": spare,
            "connections": explained.connections,
        },
    });
    format!("{value:#}\n")
}
