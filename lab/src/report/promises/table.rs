//! The promises as a table: which of them a run keeps.

use super::judge::judge;
use super::tables::of;
use crate::experiments::experiment::Experiment;
use crate::report::summary::Summary;
use crate::screen::table::Table;

/// The state of the promises that this run covers; `None` if it covers none.
pub(crate) fn table(experiment: &Experiment, summary: &Summary<'_>) -> Option<Table> {
    let mut table = Table::new(3, &["target", "", "measured"]);
    for promise in of(experiment) {
        let verdict = judge(promise, summary);
        let word = match verdict.met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None if verdict.is_open() => "open",
            None => continue,
        };
        table.push(vec![promise.text.to_owned(), word.to_owned(), verdict.measured]);
    }
    (!table.is_empty()).then_some(table)
}
