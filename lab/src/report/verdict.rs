//! The verdict on a run, in one sentence: how Tsubame compares with the others, and whether it keeps its promises.

use super::figures::{Compared, FLOOR, OWN, compared};
use crate::experiments::experiment::Experiment;
use crate::experiments::workload::Workload;
use crate::machine::stats;
use crate::report::promises;
use crate::report::summary::Summary;
use crate::screen::text::{counted, enumerated};

/// The verdict, without reasons to doubt it; see [`crate::page::html::doubted`].
pub(super) fn verdict(experiment: &Experiment, summary: &Summary<'_>) -> String {
    let outcomes: Vec<Option<bool>> =
        experiment.workloads.iter().flat_map(|workload| beside_others(summary, workload)).collect();
    let comparison = match outcomes.len() {
        0 => "This run measured nothing that Tsubame could be compared with".to_owned(),
        all => {
            let told = described(&outcomes, [["better in ", ""], ["worse in ", ""], ["undecided in ", ""]]);
            format!("Beside the best of the others, Tsubame is {told} of {}", counted(all as u64, "comparison"))
        }
    };
    let judged = promises::of(experiment).iter().map(|promise| promises::judge(promise, summary));
    let judged: Vec<Option<bool>> =
        judged.filter(|judged| judged.met.is_some() || judged.is_open()).map(|judged| judged.met).collect();
    let promises = match judged.len() {
        0 => String::new(),
        all => {
            let told = described(&judged, [["meets ", ""], ["misses ", ""], ["leaves ", " open"]]);
            format!("; of {} it {told}", counted(all as u64, "target"))
        }
    };
    format!("{comparison}{promises}.")
}

/// How often something is so, is not so, and is not known, with the words before and after each number.
fn described(outcomes: &[Option<bool>], words: [[&str; 2]; 3]) -> String {
    let parts = [Some(true), Some(false), None].into_iter().zip(words).filter_map(|(outcome, [before, after])| {
        let count = outcomes.iter().filter(|other| **other == outcome).count();
        (count > 0).then(|| format!("{before}{count}{after}"))
    });
    enumerated(&parts.collect::<Vec<_>>())
}

/// Whether the best of Tsubame is better than the best other server, by the figure that the workload compares, for each
/// number of connections at which both are measured; `None` if the interval leaves that open.
fn beside_others(summary: &Summary<'_>, workload: &'static Workload) -> Vec<Option<bool>> {
    let Compared { lower_is_better, values, .. } = compared(workload);
    let rows = summary.rows(workload);
    let best = |wanted: u32, is_own: bool| {
        let side = rows.iter().filter(|(entry, connections, _)| {
            let is_of_side = !entry.subject.starts_with(FLOOR) && entry.subject.starts_with(OWN) == is_own;
            *connections == wanted && is_of_side
        });
        let measured = side.filter_map(|(.., cell)| Some((stats::median(&values(cell))?, cell)));
        let best = measured.min_by(|(one, _), (other, _)| match lower_is_better {
            true => one.total_cmp(other),
            false => other.total_cmp(one),
        });
        best.map(|(_, cell)| values(cell))
    };
    let outcome = |connections: &u32| {
        let (own, other) = (best(*connections, true)?, best(*connections, false)?);
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
