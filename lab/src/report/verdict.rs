//! The verdict on a run, in one sentence: how Tsubame compares with the others, and which targets it meets.

use super::figures::{Compared, compared};
use crate::experiments::experiment::Experiment;
use crate::experiments::profile::Side;
use crate::experiments::workload::Workload;
use crate::machine::stats;
use crate::report::summary::Summary;
use crate::report::targets::{self, State};
use crate::screen::text::{counted, enumerated};

/// The verdict, without reasons to doubt it; see [`crate::page::html::doubted`].
pub(super) fn verdict(experiment: &Experiment, summary: &Summary<'_>) -> String {
    let outcomes: Vec<Option<bool>> =
        experiment.workloads.iter().flat_map(|workload| beside_others(summary, workload)).collect();
    let comparison = match outcomes.len() {
        0 => "This run measured nothing that Tsubame could be compared with".to_owned(),
        all => {
            let words = [(Some(true), "better in ", ""), (Some(false), "worse in ", ""), (None, "undecided in ", "")];
            let told = described(&outcomes, &words);
            format!("Beside the best of the others, Tsubame is {told} of {}", counted(all as u64, "comparison"))
        }
    };
    let judged = targets::of(experiment).iter().filter_map(|target| targets::judge(target, summary));
    let states: Vec<State> = judged.map(|verdict| verdict.state).collect();
    let targets = match states.len() {
        0 => String::new(),
        all => {
            let words = [(State::Met, "meets ", ""), (State::Missed, "misses ", ""), (State::Open, "leaves ", " open")];
            format!("; of {} it {}", counted(all as u64, "target"), described(&states, &words))
        }
    };
    format!("{comparison}{targets}.")
}

/// How often each outcome occurs, between the words before and after its number.
fn described<T: PartialEq>(outcomes: &[T], words: &[(T, &str, &str)]) -> String {
    let parts = words.iter().filter_map(|(outcome, before, after)| {
        let count = outcomes.iter().filter(|other| *other == outcome).count();
        (count > 0).then(|| format!("{before}{count}{after}"))
    });
    enumerated(&parts.collect::<Vec<_>>())
}

/// Whether the best of Tsubame is better than the best other server, by the figure that the workload compares, for each
/// number of connections at which both are measured; `None` if the interval leaves that open.
fn beside_others(summary: &Summary<'_>, workload: &'static Workload) -> Vec<Option<bool>> {
    let Compared { lower_is_better, values, .. } = compared(workload);
    let rows = summary.rows(workload);
    let best = |wanted: u32, side: Side| {
        let cells = rows.iter().filter(|(entry, connections, _)| *connections == wanted && entry.side() == side);
        let measured = cells.filter_map(|(.., cell)| Some((stats::median(&values(cell))?, cell)));
        let best = measured.min_by(|(one, _), (other, _)| match lower_is_better {
            true => one.total_cmp(other),
            false => other.total_cmp(one),
        });
        best.map(|(_, cell)| values(cell))
    };
    let outcome = |connections: &u32| {
        let (own, other) = (best(*connections, Side::Own)?, best(*connections, Side::Other)?);
        let ratio = if lower_is_better { stats::ratio(&other, &own) } else { stats::ratio(&own, &other) };
        Some(ratio.and_then(|ratio| ratio.reaches(1.0)))
    };
    workload.connections().iter().filter_map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::HTTP;
    use crate::measure::results::{Results, example};

    fn verdict_on(samples: &[(&str, &str, u64)]) -> String {
        let mut results = example::empty();
        results.samples = samples
            .iter()
            .map(|(workload, subject, requests)| example::load(workload, subject, 100, 1, *requests))
            .collect();
        let results: Results = example::thrice(&results);
        verdict(&HTTP, &Summary::of(&results))
    }

    #[test]
    fn the_verdict_compares_the_best_of_both_sides() {
        assert_eq!(verdict_on(&[]), "This run measured nothing that Tsubame could be compared with.");
        let lost = [("file16k", "tsubame-percore", 9), ("file16k", "nginx", 10)];
        assert!(verdict_on(&lost).starts_with("Beside the best of the others, Tsubame is worse in 1 of 1 comparison"));
        let won = [
            ("keepalive", "floor", 100),
            ("keepalive", "tsubame-event", 10),
            ("keepalive", "tsubame-percore", 60),
            ("keepalive", "nginx", 50),
        ];
        let told = verdict_on(&[&won[..], &lost].concat());
        assert!(
            told.starts_with(
                "Beside the best of the others, Tsubame is better in 1 and worse in 1 of 2 comparisons; of "
            ),
            "{told}"
        );
        assert!(told.contains(" targets it misses ") || told.contains(" target it misses "), "{told}");
    }
}
