//! Published experiments that inspired Tsubame: the figures in their articles, and the corresponding figures here. The
//! table is below.

mod table;

use std::collections::BTreeSet;

use crate::experiments::experiment::find_workload;
use crate::experiments::profile::Entry;
use crate::experiments::workload::Workload;
use crate::report::summary::{Cell, Figure, Summary};
pub(crate) use table::PUBLISHED;

/// A table of an article.
#[derive(Debug)]
pub(crate) struct Published {
    /// The experiment that repeats it.
    pub(crate) experiment: &'static str,
    /// The measurement, and its load.
    pub(crate) title: &'static str,
    /// The machine, the software and the date, if the article gives them.
    pub(crate) machine: &'static str,
    /// The differences here, in sentences.
    pub(crate) here: &'static str,
    /// The article's subject: the heading for the figures beside its own.
    pub(crate) peer: &'static str,
    /// The figures of each row.
    pub(crate) metrics: &'static [Metric],
    /// The row whose ratio is 1.
    pub(crate) base: usize,
    /// In the order of the article.
    pub(crate) rows: &'static [Row],
}

/// A figure in an article.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Its name, with its unit.
    pub(crate) name: &'static str,
    /// Whether a lower one is better; `None` if neither is.
    pub(crate) lower_is_better: Option<bool>,
    /// The same figure here.
    pub(crate) figure: Figure,
}

/// A row of the article's table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// One for each metric.
    pub(crate) figures: &'static [f64],
    /// The article's other remarks, as the rest of a sentence.
    pub(crate) remark: &'static str,
    /// The workload that repeats it.
    pub(crate) workload: &'static str,
    /// The number of connections.
    pub(crate) connections: u32,
    /// The server of the article, or why it is not measured here.
    pub(crate) same: Counterpart,
    /// Tsubame in its place.
    pub(crate) tsubame: Counterpart,
}

/// The counterpart of a row, or the reason for none: in a word, empty if a reason would add nothing.
pub(crate) type Counterpart = Result<Entry, &'static str>;

impl Published {
    /// The tables that an experiment repeats, if the run has measured any of their rows.
    pub(crate) fn of<'s>(
        experiment: &'static str,
        summary: &'s Summary<'_>,
    ) -> impl Iterator<Item = &'static Published> + 's {
        let is_measured = |published: &&Published| published.rows.iter().any(|row| row.is_measured(summary));
        PUBLISHED.iter().filter(move |published| published.experiment == experiment).filter(is_measured)
    }

    /// The workloads that repeat its rows.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &'static Workload> {
        let ids: BTreeSet<&str> = self.rows.iter().map(|row| row.workload).collect();
        ids.into_iter().filter_map(find_workload)
    }
}

impl Row {
    /// The measurements of one side.
    pub(crate) fn cell<'s, 'a>(&self, summary: &'s Summary<'a>, side: Counterpart) -> Option<&'s Cell<'a>> {
        summary.cell(find_workload(self.workload)?, self.connections, side.ok()?)
    }

    fn is_measured(&self, summary: &Summary<'_>) -> bool {
        [self.same, self.tsubame].into_iter().any(|side| self.cell(summary, side).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::Experiment;

    #[test]
    fn every_row_is_whole_and_stands_beside_something_that_is_measured() {
        for published in &PUBLISHED {
            let experiment = Experiment::find(published.experiment).expect("an experiment");
            assert!(published.base < published.rows.len(), "{published:?}");
            for row in published.rows {
                assert_eq!(row.figures.len(), published.metrics.len(), "{row:?}");
                let sides = [row.same, row.tsubame].into_iter().flatten();
                for side in sides {
                    let workload = experiment.workloads.iter().find(|it| it.id == row.workload).expect("a workload");
                    assert!(workload.connections().contains(&row.connections), "{row:?}");
                    assert!(workload.entries.contains(&side), "{row:?}");
                }
            }
        }
    }
}
