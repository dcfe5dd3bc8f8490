//! The figures that an article printed, beside those of this machine. Ratios are what can be compared between machines.

use super::tables::{NOTHING, count, decimals, ratio};
use crate::experiments::experiment::find_workload;
use crate::measure::results::Results;
use crate::report::article::{Counterpart, Metric, Published, Row};
use crate::report::doubts::is_saturated;
use crate::report::summary::{Cell, Summary, title};
use crate::screen::table::Table;

/// The heading above them.
pub(super) const HEADING: &str = "The article's figures beside yours";

/// The explanation of them.
pub(super) const EXPLANATION: &str = "Compare the ratios: your machine is another one. Each is to the row that has 1.00, in the same column, with its 95 % interval in \
     parentheses. Where Tsubame has no such row, its ratios are to that row in the column before. \
     ≥ stands where the load generator was the limit: the server could have answered more, and the ratio says nothing.";

/// A table of an article beside the same figures here.
pub(super) struct Comparison {
    pub(super) published: &'static Published,
    /// One for each metric, with its name.
    pub(super) tables: Vec<(String, Table)>,
    /// Missing figures, failures, and the article's other remarks.
    pub(super) notes: Vec<String>,
}

/// All tables of which a run has measured a row.
pub(super) fn comparison(results: &Results, summary: &Summary<'_>) -> Vec<Comparison> {
    let of = |published: &'static Published| Comparison {
        published,
        tables: (0..published.metrics.len()).map(|at| table(published, at, summary)).collect(),
        notes: published.rows.iter().flat_map(|row| notes(published, row, summary)).collect(),
    };
    Published::of(results.experiment().id, summary).map(of).collect()
}

fn table(published: &Published, at: usize, summary: &Summary<'_>) -> (String, Table) {
    let metric = &published.metrics[at];
    let base = &published.rows[published.base];
    let (peer, own) = (format!("{} here", published.peer), "Tsubame here");
    let mut table = Table::new(1, &["", "article", "ratio", &peer, "ratio", own, "ratio"]);
    let base_of_same = base.cell(summary, base.same);
    // If Tsubame has no row to compare with, its base is the article's subject.
    let base_of_own = base.cell(summary, base.tsubame).or(base_of_same);
    for row in published.rows {
        let mut cells = vec![row.name.to_owned(), number(row.figures[at])];
        cells.push(decimals(Some(row.figures[at] / base.figures[at]), 2));
        for (cell, base) in [(row.cell(summary, row.same), base_of_same), (row.cell(summary, row.tsubame), base_of_own)]
        {
            let [value, ratio] = measured(cell, base, metric);
            // A generator's limit is not that of the server.
            let is_bound = |cell| find_workload(row.workload).is_some_and(|workload| is_saturated(workload, cell));
            let is_least = metric.lower_is_better == Some(false) && cell.is_some_and(is_bound);
            cells.extend([if is_least { format!("≥ {value}") } else { value }, ratio]);
        }
        table.push(cells);
    }
    let better = match metric.lower_is_better {
        Some(true) => " (lower is better)",
        Some(false) => " (higher is better)",
        None => "",
    };
    (format!("{}{better}", metric.name), table)
}

/// The median and its ratio to that of the base.
fn measured(cell: Option<&Cell<'_>>, base: Option<&Cell<'_>>, metric: &Metric) -> [String; 2] {
    let value = cell.and_then(|cell| cell.median(metric.figure)).filter(|value| value.is_finite());
    let compared = match (cell, base) {
        (Some(cell), Some(base)) if std::ptr::eq(cell, base) => decimals(Some(1.0), 2),
        (Some(cell), Some(base)) => ratio(cell.ratio_of(base, metric.figure)),
        _ => NOTHING.to_owned(),
    };
    [value.map_or(NOTHING.to_owned(), number), compared]
}

/// Figures of articles have up to four digits.
fn number(value: f64) -> String {
    match value {
        small if small < 100.0 => decimals(Some(small), 2),
        large => count(Some(large)),
    }
}

fn notes(published: &Published, row: &Row, summary: &Summary<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut add = |what: String| notes.push(format!("{}: {what}", row.name));
    if !row.remark.is_empty() {
        add(format!("{} in the article", row.remark));
    }
    let sides = [(published.peer, row.same), ("Tsubame", row.tsubame)];
    match (row.same, row.tsubame) {
        (Err(one), Err(other)) if one == other => add(format!("not measured here, {one}")),
        _ => sides.into_iter().filter_map(|(who, side)| absence(who, row, side, summary)).for_each(&mut add),
    }
    for (_, side) in sides {
        if let (Ok(entry), Some(cell)) = (side, row.cell(summary, side))
            && cell.errors() > 0
        {
            add(format!("{} requests of {} failed here", cell.errors(), title(entry)));
        }
    }
    notes
}

fn absence(who: &str, row: &Row, side: Counterpart, summary: &Summary<'_>) -> Option<String> {
    match side {
        Err("") => None,
        Err(reason) => Some(format!("{who} is not measured here, {reason}")),
        Ok(entry) => row.cell(summary, side).is_none().then(|| format!("{} is not measured in this run", title(entry))),
    }
}
