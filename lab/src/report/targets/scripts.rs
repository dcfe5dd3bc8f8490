//! The rules about scripts, for several subjects at once: the worst of them counts.

use super::verdict::{State, Verdict};
use crate::experiments::experiment::MEMORY;
use crate::experiments::experiment::find_workload;
use crate::experiments::profile::Entry;
use crate::experiments::workload::LoadShape;
use crate::machine::stats::Ratio;
use crate::measure::results::{Load, PressureEvents};
use crate::report::summary::{Cell, Figure, Summary, place, title};

/// A figure of the first in each pair, compared with the second's.
pub(super) fn judge_each(
    summary: &Summary<'_>,
    workload: &str,
    pairs: &[(Entry, Entry)],
    figure: Figure,
    factor: f64,
) -> Option<Verdict> {
    let workload = find_workload(workload)?;
    let connections = *workload.connections().first()?;
    let cell = |entry| summary.cell(workload, connections, entry);
    let ratio = |(subject, peer): &(Entry, Entry)| Some((*subject, cell(*subject)?.ratio_of(cell(*peer)?, figure)?));
    let ratios: Vec<(Entry, Ratio)> = pairs.iter().filter_map(ratio).collect();
    let text: Vec<String> = ratios.iter().map(|(subject, ratio)| format!("{ratio} {}", title(*subject))).collect();
    let says = |what| ratios.iter().filter(|(_, ratio)| ratio.reaches(factor) == Some(what)).count();
    (!ratios.is_empty()).then(|| Verdict {
        // One pair that misses the target decides; the others decide only together.
        state: match says(false) {
            0 if says(true) == pairs.len() => State::Met,
            0 => State::Open,
            _ => State::Missed,
        },
        measured: text.join(", "),
    })
}

/// The failures of all subjects together.
pub(super) fn judge_faults(
    summary: &Summary<'_>,
    workload: &str,
    subjects: &[Entry],
    connections: &[u32],
) -> Option<Verdict> {
    let workload = find_workload(workload)?;
    let cell = |subject: Entry, connections: u32| summary.cell(workload, connections, subject);
    let of = |subject: &Entry| -> Option<(Entry, u64)> {
        let cells: Vec<&Cell<'_>> = connections.iter().filter_map(|number| cell(*subject, *number)).collect();
        (!cells.is_empty()).then(|| (*subject, cells.iter().map(|cell| cell.errors()).sum()))
    };
    let counted: Vec<(Entry, u64)> = subjects.iter().filter_map(of).collect();
    let failed: Vec<String> = counted
        .iter()
        .filter(|(_, errors)| *errors > 0)
        .map(|(subject, errors)| format!("{errors} {}", title(*subject)))
        .collect();
    (!counted.is_empty()).then(|| Verdict {
        state: State::decided(failed.is_empty()),
        measured: match failed.is_empty() {
            true => format!("none with {} of {} subjects", counted.len(), subjects.len()),
            false => failed.join(", "),
        },
    })
}

/// The busiest thread of all, with the idle share beside it.
pub(super) fn judge_spread(
    summary: &Summary<'_>,
    workload: &str,
    subjects: &[Entry],
    busiest: f64,
    idle: f64,
) -> Option<Verdict> {
    let rows = summary.rows(find_workload(workload)?);
    let own = rows.iter().filter(|(entry, ..)| subjects.contains(entry));
    let figures = own.filter_map(|(entry, connections, cell)| {
        Some((cell.median(|load| load.busiest)?, cell.median(|load| load.busy.idle)?, *entry, *connections))
    });
    let figures: Vec<(f64, f64, Entry, u32)> = figures.collect();
    let (share, unused, entry, connections) = *figures.iter().max_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
    Some(Verdict {
        state: State::decided(figures.iter().all(|(share, unused, ..)| *share <= busiest || *unused <= idle)),
        measured: format!(
            "at most {:.0} % (idle {:.0} %), {} with {connections} clients",
            share * 100.0,
            unused * 100.0,
            title(entry)
        ),
    })
}

/// The subject with the longest wait, compared with the effect of queueing.
pub(super) fn judge_queue(summary: &Summary<'_>, workload: &str, subjects: &[Entry], factor: f64) -> Option<Verdict> {
    let workload = find_workload(workload)?;
    let LoadShape::Queue(queue) = &workload.shape else { return None };
    let explained = queue.by_queueing_us(0.99) as f64;
    let p99 = |entry: &Entry| summary.cell(workload, queue.requests, *entry)?.median(|load| load.p99_us as f64);
    let ratios: Vec<(Entry, f64)> =
        subjects.iter().filter_map(|entry| Some((*entry, p99(entry)? / explained))).collect();
    let (worst, ratio) = *ratios.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(Verdict {
        // One subject that misses the target decides; the others decide only together.
        state: match ratio > factor {
            true => State::Missed,
            false if ratios.len() == subjects.len() => State::Met,
            false => State::Open,
        },
        measured: format!("at most {ratio:.2}, {}", title(worst)),
    })
}

/// The worst round of all workloads with too little memory.
pub(super) fn judge_pressure(
    summary: &Summary<'_>,
    subjects: &[Entry],
    figure: fn(&PressureEvents, &Load) -> f64,
    limit: f64,
) -> Option<Verdict> {
    let mut worst: Option<(f64, String)> = None;
    let mut beyond = Vec::new();
    for workload in MEMORY.workloads {
        for (entry, connections, cell) in summary.rows(workload) {
            let figures = cell.pressure().map(|(events, load)| figure(events, load));
            let Some(most) = figures.max_by(f64::total_cmp).filter(|_| subjects.contains(&entry)) else {
                continue;
            };
            let place = place(workload, entry, connections);
            if most > limit {
                beyond.push(format!("{place} ({})", short(most)));
            }
            if worst.as_ref().is_none_or(|(value, _)| most > *value) {
                worst = Some((most, place));
            }
        }
    }
    let (most, place) = worst?;
    Some(Verdict {
        state: State::decided(beyond.is_empty()),
        measured: match beyond.is_empty() {
            true => format!("at most {}, in {place}", short(most)),
            false => beyond.join(", "),
        },
    })
}

/// Formats counts as whole numbers, latencies with decimals.
fn short(value: f64) -> String {
    let places = usize::from(value.fract() != 0.0);
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::profile::Profile::{Cgi, Cgid, OneBackend, Unconfigured};
    use crate::experiments::profile::{bare, under};
    use crate::measure::results::{Measure, Results, Sample, example};

    const OURS: Entry = under(Cgi, "tsubame-percore");
    const OTHER: Entry = under(Cgid, "tsubame-percore");
    const FLOOR: Entry = bare("floor-spawn");

    fn add(results: &mut Results, entry: Entry, connections: u32, requests: u64, change: fn(&mut Load)) {
        let mut sample = example::load("cgi-static", entry.subject, connections, 1, requests);
        sample.profile = entry.profile;
        if let Sample { measure: Measure::Load(load), .. } = &mut sample {
            change(load);
        }
        results.samples.push(sample);
    }

    #[test]
    fn one_that_is_too_slow_decides_and_one_that_is_missing_leaves_it_open() {
        let judge = |ours: u64, other: Option<u64>| {
            let mut results = example::empty();
            add(&mut results, FLOOR, 100, 1000, |_| ());
            add(&mut results, OURS, 100, ours, |_| ());
            if let Some(requests) = other {
                add(&mut results, OTHER, 100, requests, |_| ());
            }
            judge_each(
                &Summary::of(&example::thrice(&results)),
                "cgi-static",
                &[(OURS, FLOOR), (OTHER, FLOOR)],
                Load::per_cpu_second,
                0.9,
            )
            .unwrap()
            .state
        };
        assert_eq!(judge(910, Some(950)), State::Met);
        assert_eq!(judge(910, Some(890)), State::Missed);
        assert_eq!(judge(910, None), State::Open);
        assert_eq!(judge(890, None), State::Missed);
    }

    #[test]
    fn failures_are_reported_with_their_source() {
        let mut results = example::empty();
        add(&mut results, OURS, 300, 1000, |_| ());
        add(&mut results, OTHER, 1000, 1000, |load| load.errors.timeout = 3);
        let judge = |subjects: &[Entry]| judge_faults(&Summary::of(&results), "cgi-static", subjects, &[300, 1000]);
        assert_eq!(judge(&[OURS]).unwrap().state, State::Met);
        let verdict = judge(&[OURS, OTHER]).unwrap();
        assert_eq!((verdict.state, verdict.measured.as_str()), (State::Missed, "3 Tsubame percore, mod_cgid"));
        assert_eq!(judge(&[FLOOR]), None);
    }

    #[test]
    fn a_full_thread_matters_only_beside_an_idle_core() {
        let judge = |change: fn(&mut Load)| {
            let mut results = example::empty();
            add(&mut results, OURS, 100, 1000, change);
            judge_spread(&Summary::of(&results), "cgi-static", &[OURS], 0.95, 0.15).unwrap().state
        };
        assert_eq!(judge(|load| (load.busiest, load.busy.idle) = (0.99, 0.10)), State::Met);
        assert_eq!(judge(|load| (load.busiest, load.busy.idle) = (0.90, 0.40)), State::Met);
        assert_eq!(judge(|load| (load.busiest, load.busy.idle) = (0.99, 0.40)), State::Missed);
    }

    #[test]
    fn a_wait_is_compared_with_what_queueing_makes_of_it() {
        const FIRST: Entry = under(OneBackend, "tsubame-percore");
        const SECOND: Entry = under(OneBackend, "tsubame-event");
        let judge = |percore: u64, event: Option<u64>| {
            let mut results = example::empty();
            for (entry, p99_us) in [(FIRST, Some(percore)), (SECOND, event)] {
                let Some(p99_us) = p99_us else { continue };
                let mut sample = example::load("queue", entry.subject, 240, 1, 240);
                sample.profile = entry.profile;
                if let Sample { measure: Measure::Load(load), .. } = &mut sample {
                    load.p99_us = p99_us;
                }
                results.samples.push(sample);
            }
            judge_queue(&Summary::of(&results), "queue", &[FIRST, SECOND], 1.1).unwrap().state
        };
        // By queueing alone: 237 requests of 50 ms each, less than the four seconds in which they came.
        assert_eq!(judge(7_990_000, Some(8_000_000)), State::Met);
        assert_eq!(judge(7_990_000, Some(8_900_000)), State::Missed);
        assert_eq!(judge(7_990_000, None), State::Open);
        assert_eq!(judge(8_900_000, None), State::Missed);
    }

    #[test]
    fn in_too_little_memory_the_worst_round_counts() {
        const UNCONFIGURED: Entry = under(Unconfigured, "tsubame-event");
        let judge = |kills: [u64; 2]| {
            let mut results = example::empty();
            for (round, oom_kills) in (1..).zip(kills) {
                let mut sample = example::load("memory-10", UNCONFIGURED.subject, 10, round, 100);
                sample.profile = UNCONFIGURED.profile;
                if let Sample { measure: Measure::Load(load), .. } = &mut sample {
                    load.pressure = Some(Box::new(PressureEvents { oom_kills, ..PressureEvents::default() }));
                }
                results.samples.push(sample);
            }
            judge_pressure(&Summary::of(&results), &[UNCONFIGURED], |events, _| events.oom_kills as f64, 0.0).unwrap()
        };
        assert_eq!(judge([0, 0]).state, State::Met);
        let verdict = judge([0, 2]);
        assert_eq!((verdict.state, verdict.measured.as_str()), (State::Missed, "memory-10 Tsubame event (2)"));
    }
}
