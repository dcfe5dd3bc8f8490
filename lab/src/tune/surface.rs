//! The results as a surface: threads of a child across, children down, the figure in each cell.

use std::collections::{BTreeMap, BTreeSet};

use super::search::Evaluation;
use super::space::{Candidate, Mpm};
use super::trial::Goal;
use crate::page::plot::{self, Tile};
use crate::screen::style;
use crate::screen::table::Table;
use crate::screen::text::figure;

/// A surface: all settings of a kind.
pub(super) struct Surface<'t> {
    pub(super) title: String,
    /// The labels across and down.
    names: [&'static str; 2],
    cells: BTreeMap<[u64; 2], Cell<'t>>,
    goal: Goal,
    best: Option<Candidate>,
    /// The best figure of all surfaces.
    top: f64,
}

/// A place on it.
enum Cell<'t> {
    Evaluation(&'t Evaluation),
    /// Could have made the machine swap.
    TooLarge,
}

/// Above this share of the best figure, settings are about as good.
const ABOUT_AS_GOOD: f64 = 0.95;

/// Below this share they are bad.
const POOR: f64 = 0.6;

/// The surfaces of all results: one for each module, and a separate one for event without a limit on connections.
pub(super) fn surfaces<'t>(
    tried: &'t [Evaluation],
    too_large: &[Candidate],
    goal: Goal,
    best: Option<Candidate>,
) -> Vec<Surface<'t>> {
    let figures = tried.iter().filter(|tried| !tried.is_flawed()).filter_map(|tried| tried.figure(goal));
    let top = match goal.wants_more() {
        true => figures.fold(0.0, f64::max),
        false => figures.fold(f64::MAX, f64::min),
    };
    let mut all: BTreeMap<(Mpm, bool), BTreeMap<[u64; 2], Cell<'t>>> = BTreeMap::new();
    let mut place = |candidate: Candidate, cell: Cell<'t>| {
        let at = if candidate.mpm == Mpm::Prefork {
            [1, candidate.children]
        } else {
            [candidate.children, candidate.threads]
        };
        let cells = all.entry((candidate.mpm, candidate.factor.is_some())).or_default();
        // Of several factors the best is shown.
        let is_better = match (&cell, cells.get(&at)) {
            (Cell::Evaluation(new), Some(Cell::Evaluation(old))) => {
                goal.wants_more() == (new.figure(goal) > old.figure(goal))
            }
            (_, known) => known.is_none(),
        };
        if is_better {
            cells.insert(at, cell);
        }
    };
    for one in tried {
        if let Some(candidate) = one.setting.filter(|candidate| candidate.children > 0) {
            place(candidate, Cell::Evaluation(one));
        }
    }
    too_large.iter().for_each(|candidate| place(*candidate, Cell::TooLarge));
    let surface = |((mpm, is_open), cells): ((Mpm, bool), _)| Surface {
        title: match is_open {
            true => format!("{}, AsyncRequestWorkerFactor so that all clients are let in", mpm.name()),
            false => mpm.name().to_owned(),
        },
        names: match mpm {
            Mpm::Prefork => ["children", ""],
            Mpm::Nginx => ["worker_connections", "worker_processes"],
            _ => ["ThreadsPerChild", "children"],
        },
        cells,
        goal,
        best: best.filter(|best| (best.mpm, best.factor.is_some()) == (mpm, is_open)),
        top,
    };
    all.into_iter().map(surface).collect()
}

impl Surface<'_> {
    fn rows(&self) -> BTreeSet<u64> {
        self.cells.keys().map(|[row, _]| *row).collect()
    }

    fn columns(&self) -> BTreeSet<u64> {
        self.cells.keys().map(|[_, column]| *column).collect()
    }

    /// For a terminal: the best in bold with a star, failures with an exclamation mark.
    pub(super) fn to_text(&self) -> String {
        let columns = self.columns();
        let [along, down] = self.names;
        let corner = if down.is_empty() { along.to_owned() } else { format!("{down} ↓  {along} →") };
        let headers: Vec<String> = std::iter::once(corner).chain(columns.iter().map(u64::to_string)).collect();
        let mut table = Table::new(1, &headers.iter().map(String::as_str).collect::<Vec<_>>());
        for row in self.rows() {
            let name = if down.is_empty() { String::new() } else { row.to_string() };
            let cells = columns
                .iter()
                .map(|column| self.cells.get(&[row, *column]).map_or_else(String::new, |cell| self.cell(cell)));
            table.push(std::iter::once(name).chain(cells).collect());
        }
        format!("{}: {}\n{}", style::heading(&self.title), self.goal.name(), table.to_screen())
    }

    fn cell(&self, cell: &Cell<'_>) -> String {
        let Cell::Evaluation(tried) = cell else { return style::doubtful("memory") };
        let text = self.written(tried);
        match tried.figure(self.goal) {
            None => text,
            _ if tried.is_flawed() => style::bad(&text),
            _ if self.is_best(tried) => style::heading(&text),
            Some(figure) if self.share(figure) >= ABOUT_AS_GOOD => style::good(&text),
            Some(figure) if self.share(figure) < POOR => style::doubtful(&text),
            Some(_) => text,
        }
    }

    fn written(&self, tried: &Evaluation) -> String {
        match tried.figure(self.goal) {
            None => "failed".to_owned(),
            Some(value) if tried.is_flawed() => format!("{}!", figure(value)),
            Some(value) if self.is_best(tried) => format!("{}*", figure(value)),
            Some(value) => figure(value),
        }
    }

    fn is_best(&self, tried: &Evaluation) -> bool {
        self.best.is_some() && tried.setting == self.best
    }

    /// The share of the best figure.
    fn share(&self, figure: f64) -> f64 {
        let share = if self.goal.wants_more() { figure / self.top } else { self.top / figure };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The surface for a page.
    pub(super) fn to_svg(&self) -> String {
        let columns = self.columns();
        let row = |row: u64| {
            let tiles =
                columns.iter().map(|column| self.cells.get(&[row, *column]).map(|cell| self.tile(cell))).collect();
            (if self.names[1].is_empty() { String::new() } else { row.to_string() }, tiles)
        };
        let rows: Vec<(String, Vec<Option<Tile>>)> = self.rows().into_iter().map(row).collect();
        let names: Vec<String> = columns.iter().map(u64::to_string).collect();
        plot::surface(&format!("{} ({})", self.title, self.goal.name()), self.names, &names, &rows)
    }

    fn tile(&self, cell: &Cell<'_>) -> Tile {
        let Cell::Evaluation(tried) = cell else {
            let hover = "left out: it could have made the machine swap".to_owned();
            return Tile { text: "memory".to_owned(), hover, share: 0.0, is_best: false };
        };
        let figure = tried.figure(self.goal).filter(|_| !tried.is_flawed());
        Tile {
            text: self.written(tried),
            hover: hover(tried),
            share: figure.map_or(0.0, |figure| self.share(figure)),
            is_best: self.is_best(tried),
        }
    }
}

/// All details of a cell.
fn hover(tried: &Evaluation) -> String {
    let mut text = format!("{}: {}", tried.name(), tried.comes_to);
    if let Some(open) = tried.comes_to.connections {
        text += &format!(", lets in {open} connections");
    }
    match (&tried.failure, tried.measurements.last()) {
        (Some(failure), _) => text += &format!("; {failure}"),
        (None, Some(last)) => {
            text += &format!(
                "; {} per second, p50 {:.2} ms, p99 {:.2} ms",
                figure(last.per_second),
                last.p50_ms,
                last.p99_ms
            );
            if last.is_flawed() {
                text += &format!("; {} requests failed, {} clients waited in vain", last.failures, last.starved);
            }
        }
        (None, None) => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::search::tests::measured;

    fn tried(children: u64, threads: u64, factor: Option<u64>, rate: f64, failures: u64) -> Evaluation {
        let mut tried = Evaluation::new(Candidate { mpm: Mpm::Event, children, threads, factor });
        tried.measurements.push(measured(1.0, rate, failures));
        tried
    }

    #[test]
    fn every_setting_has_its_place() {
        let all = [
            tried(1, 2, None, 2000.0, 0),
            tried(2, 2, None, 900.0, 4),
            tried(1, 4, None, 1000.0, 0),
            tried(1, 2, Some(9), 5.0, 0),
        ];
        let too_large = [Candidate { mpm: Mpm::Event, children: 2, threads: 4, factor: None }];
        let surfaces = surfaces(&all, &too_large, Goal::Rate, all[0].setting);
        let text: Vec<String> = surfaces.iter().map(Surface::to_text).collect();
        assert_eq!(text.len(), 2);
        let lines: Vec<Vec<&str>> = text[0]
            .lines()
            .skip(2)
            .map(|line| line.split("  ").filter(|it| !it.is_empty()).map(str::trim).collect())
            .collect();
        assert_eq!(lines, [["1", "2 000*", "1 000"], ["2", "900!", "memory"]]);
        let svg = surfaces[0].to_svg();
        assert!(
            svg.contains("tile best") && svg.contains("lets in 6 connections") && svg.contains("4 requests failed"),
            "{svg}"
        );
    }
}
