//! Medians over rounds, and ratios between subjects of the same round.

use std::collections::BTreeMap;

use crate::experiments::profile::{Entry, Profile};
use crate::experiments::subject;
use crate::experiments::workload::Workload;
use crate::machine::stats::{self, Ratio};
use crate::measure::results::{Load, Measure, Memory, PressureEvents, Results, Sample};

/// A figure of a measurement under load.
pub(crate) type Figure = fn(&Load) -> f64;

/// One subject on one workload with one number of connections: all rounds.
#[derive(Debug)]
pub(crate) struct Cell<'a> {
    rounds: BTreeMap<u32, &'a Sample>,
}

impl<'a> Cell<'a> {
    /// The rounds under load, with their numbers.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (u32, &'a Load)> {
        self.rounds.iter().filter_map(|(round, sample)| match &sample.measure {
            Measure::Load(load) => Some((*round, &**load)),
            Measure::Memory(_) => None,
        })
    }

    /// The rounds at rest.
    pub(crate) fn memories(&self) -> impl Iterator<Item = &'a Memory> {
        self.rounds.values().filter_map(|sample| match &sample.measure {
            Measure::Memory(memory) => Some(memory),
            Measure::Load(_) => None,
        })
    }

    /// The median of a figure under load.
    pub(crate) fn median(&self, figure: Figure) -> Option<f64> {
        stats::median(&self.values(figure))
    }

    /// The highest value of a figure under load.
    pub(crate) fn worst(&self, figure: Figure) -> Option<f64> {
        self.values(figure).into_iter().max_by(f64::total_cmp)
    }

    /// The spread of a figure under load.
    pub(crate) fn spread(&self, figure: Figure) -> Option<f64> {
        stats::spread(&self.values(figure))
    }

    /// A figure under load in every round.
    pub(crate) fn values(&self, figure: Figure) -> Vec<f64> {
        self.loads().map(|(_, load)| figure(load)).collect()
    }

    /// What too little memory caused, in each round.
    pub(crate) fn pressure(&self) -> impl Iterator<Item = (&'a PressureEvents, &'a Load)> {
        self.loads().filter_map(|(_, load)| Some((load.pressure.as_deref()?, load)))
    }

    /// The median of a figure at rest.
    pub(crate) fn median_memory(&self, figure: fn(&Memory) -> f64) -> Option<f64> {
        stats::median(&self.memories().map(figure).collect::<Vec<_>>())
    }

    /// Errors of all rounds together, and connections lost.
    pub(crate) fn errors(&self) -> u64 {
        let failed: u64 = self.loads().map(|(_, load)| load.errors.total() + load.lost).sum();
        failed + self.memories().map(|memory| memory.lost).sum::<u64>()
    }

    /// Rounds after which a fresh request was not answered.
    pub(crate) fn hung(&self) -> u64 {
        self.loads().filter(|(_, load)| load.hung()).count() as u64
    }

    /// The ratio of requests per CPU-second.
    pub(crate) fn ratio(&self, other: &Cell<'_>) -> Option<Ratio> {
        self.ratio_of(other, Load::per_cpu_second)
    }

    /// The ratio of this cell's figure to the other's in the rounds that both have: slow changes of the machine do not
    /// widen its interval.
    pub(crate) fn ratio_of(&self, other: &Cell<'_>, figure: Figure) -> Option<Ratio> {
        let theirs: BTreeMap<u32, &Load> = other.loads().collect();
        let both = self.loads().filter_map(|(round, load)| Some((figure(load), figure(theirs.get(&round)?))));
        let (one, other): (Vec<f64>, Vec<f64>) = both.unzip();
        stats::ratio(&one, &other)
    }
}

/// The identity of a cell.
type Key = (String, u32, String, Profile);

/// All cells of a run.
#[derive(Debug)]
pub(crate) struct Summary<'a> {
    cells: BTreeMap<Key, Cell<'a>>,
}

impl<'a> Summary<'a> {
    /// Sorts the samples into cells.
    pub(crate) fn of(results: &'a Results) -> Self {
        let mut cells: BTreeMap<Key, Cell<'a>> = BTreeMap::new();
        for sample in &results.samples {
            let key = (sample.workload.clone(), sample.connections, sample.subject.clone(), sample.profile);
            let cell = cells.entry(key).or_insert_with(|| Cell { rounds: BTreeMap::new() });
            cell.rounds.insert(sample.round, sample);
        }
        Self { cells }
    }

    /// The cell of a subject, if it was measured.
    pub(crate) fn cell(&self, workload: &Workload, connections: u32, entry: Entry) -> Option<&Cell<'a>> {
        let key = (workload.id.to_owned(), connections, entry.subject.to_owned(), entry.profile);
        self.cells.get(&key)
    }

    /// The measured cells of a workload, in the order of its table.
    pub(crate) fn rows(&self, workload: &'static Workload) -> Vec<(Entry, u32, &Cell<'a>)> {
        let mut rows = Vec::new();
        for entry in workload.entries {
            for connections in workload.connections() {
                if let Some(cell) = self.cell(workload, *connections, *entry) {
                    rows.push((*entry, *connections, cell));
                }
            }
        }
        rows
    }

    /// Of `peers`, the one with the most requests per CPU-second.
    pub(crate) fn best(&self, workload: &Workload, connections: u32, peers: &[Entry]) -> Option<(Entry, &Cell<'a>)> {
        peers
            .iter()
            .filter_map(|peer| Some((*peer, self.cell(workload, connections, *peer)?)))
            .filter_map(|(peer, cell)| Some((cell.median(Load::per_cpu_second)?, peer, cell)))
            .max_by(|(a, ..), (b, ..)| a.total_cmp(b))
            .map(|(_, peer, cell)| (peer, cell))
    }
}

/// The name of a subject under a configuration.
pub(crate) fn title(entry: Entry) -> String {
    let title = subject::find(entry.subject).map_or(entry.subject, |subject| subject.title);
    match entry.profile.names() {
        (_, "") => title.to_owned(),
        (_, profile) => format!("{title}, {profile}"),
    }
}

/// A place in a run: the workload, with the number of connections if there are several, and the subject.
pub(crate) fn place(workload: &Workload, entry: Entry, connections: u32) -> String {
    match workload.connections().len() {
        1 => format!("{} {}", workload.id, title(entry)),
        _ => format!("{}/{connections} {}", workload.id, title(entry)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::find_workload;
    use crate::measure::results::example;

    const A: Entry = Entry { subject: "tsubame-percore", profile: Profile::Bare };
    const B: Entry = Entry { subject: "nginx", profile: Profile::Bare };

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut results = example::empty();
        // The machine halves its speed in every round; the ratio stays.
        for (round, requests) in [(1, 8000), (2, 4000), (3, 2000)] {
            results.samples.push(example::load("keepalive", A.subject, 100, round, requests));
            results.samples.push(example::load("keepalive", B.subject, 100, round, requests / 2));
        }
        let summary = Summary::of(&results);
        let workload = find_workload("keepalive").unwrap();
        let (a, b) = (summary.cell(workload, 100, A).unwrap(), summary.cell(workload, 100, B).unwrap());
        assert!(a.ratio(b).is_some_and(|ratio| ratio.reaches(1.99) == Some(true) && ratio.middle == 2.0));
        assert_eq!(a.median(Load::per_cpu_second), Some(4000.0));
        let best = summary.best(workload, 100, &[B, A]).map(|(entry, _)| entry);
        assert_eq!(best, Some(A));
    }

    #[test]
    fn rows_follow_the_table_and_skip_the_absent() {
        let mut results = example::empty();
        results.samples.push(example::load("keepalive", B.subject, 100, 1, 1));
        results.samples.push(example::load("keepalive", A.subject, 100, 1, 1));
        let summary = Summary::of(&results);
        let rows = summary.rows(find_workload("keepalive").unwrap());
        let subjects: Vec<&str> = rows.iter().map(|(entry, ..)| entry.subject).collect();
        assert_eq!(subjects, [A.subject, B.subject]);
    }
}
