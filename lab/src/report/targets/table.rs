//! The targets as a table: which of them a run meets.

use super::judge::judge;
use super::tables::of;
use super::verdict::State;
use crate::experiments::experiment::Experiment;
use crate::report::summary::Summary;
use crate::screen::table::Table;

/// The state of the targets that this run has measured; `None` if it has measured none.
pub(crate) fn table(experiment: &Experiment, summary: &Summary<'_>) -> Option<Table> {
    let mut table = Table::new(3, &["target", "", "measured"]);
    for target in of(experiment) {
        let Some(verdict) = judge(target, summary) else { continue };
        let word = match verdict.state {
            State::Met => "met",
            State::Missed => "**missed**",
            State::Open => "open",
        };
        table.push(vec![target.text.to_owned(), word.to_owned(), verdict.measured]);
    }
    (!table.is_empty()).then_some(table)
}
