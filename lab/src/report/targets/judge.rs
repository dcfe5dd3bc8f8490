//! Judges a target by the figures of a run.

use super::scripts;
use super::target::{FLOOR, PERCORE, Rule, Target};
use super::verdict::{State, Verdict};
use crate::experiments::experiment::find_workload;
use crate::experiments::profile::{Entry, Profile, under};
use crate::experiments::workload::{LoadShape, Workload};
use crate::machine::stats::Ratio;
use crate::measure::results::{Load, Memory};
use crate::report::summary::{Summary, title};

/// Above this share of the cores, other programs determine the measurement.
const OTHERS_MAX: f64 = 0.2;

/// Judges a target by a run; `None` if the run has not measured it.
pub(crate) fn judge(target: &Target, summary: &Summary<'_>) -> Option<Verdict> {
    let verdict = match &target.rule {
        Rule::Speed { workload, subject, peers, factor } => judge_speed(summary, workload, *subject, peers, *factor),
        Rule::ChildrenMemory { workload, subject, peer, factor, figure } => {
            judge_children(summary, workload, [*subject, *peer], *factor, *figure)
        }
        Rule::ConnectionMemory { workload, subject, bytes } => judge_connections(summary, workload, *subject, *bytes),
        Rule::Steadiness { loss } => judge_steadiness(summary, *loss),
        Rule::Unnoticed { subject, factor } => judge_recycling(summary, subject, *factor),
        Rule::Prompt { workload, subject, milliseconds } => judge_crowd(summary, workload, *subject, *milliseconds),
        Rule::Alive { workload, subject } => judge_life(summary, workload, subject),
        Rule::Each { workload, pairs, figure, factor } => {
            scripts::judge_each(summary, workload, pairs, *figure, *factor)
        }
        Rule::PressureEvents { subjects, figure, limit } => scripts::judge_pressure(summary, subjects, *figure, *limit),
        Rule::Faultless { workload, subjects, connections } => {
            scripts::judge_faults(summary, workload, subjects, connections)
        }
        Rule::Queued { workload, subjects, factor } => scripts::judge_queue(summary, workload, subjects, *factor),
        Rule::Spread { workload, subjects, busiest, idle } => {
            scripts::judge_spread(summary, workload, subjects, *busiest, *idle)
        }
    }?;
    Some(match disturbed(&target.rule, summary) {
        None => verdict,
        Some(share) => {
            let share = share * 100.0;
            let measured = format!("other programs used {share:.0} % of the cores ({})", verdict.measured);
            Verdict { state: State::Open, measured }
        }
    })
}

/// The share of the cores that others used while the measurements of a rule were taken, if that is too much.
fn disturbed(rule: &Rule, summary: &Summary<'_>) -> Option<f64> {
    let (workload, entries) = rule.concerns();
    let rows = summary.rows(find_workload(workload)?);
    let own = rows.iter().filter(|(entry, ..)| entries.contains(entry));
    let shares = own.filter_map(|(.., cell)| cell.median(|load| load.busy.others));
    shares.max_by(f64::total_cmp).filter(|share| *share > OTHERS_MAX)
}

fn judge_speed(summary: &Summary<'_>, workload: &str, subject: Entry, peers: &[Entry], factor: f64) -> Option<Verdict> {
    let workload = find_workload(workload)?;
    let connections = *workload.connections().first()?;
    let own = summary.cell(workload, connections, subject)?;
    let (peer, cell) = summary.best(workload, connections, peers)?;
    let ratio = own.ratio(cell)?;
    let absent: Vec<&str> = peers
        .iter()
        .filter(|peer| summary.cell(workload, connections, **peer).is_none())
        .map(|peer| peer.subject)
        .collect();
    let without = match absent.is_empty() {
        true => String::new(),
        false => format!(" (without {})", absent.join(", ")),
    };
    Some(Verdict {
        state: State::of(ratio.reaches(factor)),
        measured: format!("{}{without}", beside(workload, ratio, &title(peer))),
    })
}

/// A ratio of requests per CPU-second in words. At a fixed rate all answer equally many, so the CPU time is compared.
fn beside(workload: &Workload, ratio: Ratio, peer: &str) -> String {
    match workload.shape {
        LoadShape::Rate { .. } => format!("{} × the CPU time of {peer} (lower is better)", ratio.inverse()),
        _ => format!("{ratio} × {peer}"),
    }
}

fn judge_children(
    summary: &Summary<'_>,
    workload: &str,
    entries: [Entry; 2],
    factor: f64,
    figure: fn(&Memory) -> f64,
) -> Option<Verdict> {
    let workload = find_workload(workload)?;
    let connections = *workload.connections().first()?;
    let [own, theirs] = entries.map(|entry| summary.cell(workload, connections, entry)?.median_memory(figure));
    let (own, theirs) = (own?, theirs?);
    Some(Verdict {
        state: State::decided(own <= factor * theirs),
        measured: format!("{:.1} MB against {:.1} MB", own / 1024.0, theirs / 1024.0),
    })
}

fn judge_connections(summary: &Summary<'_>, workload: &str, subject: Entry, bytes: f64) -> Option<Verdict> {
    let workload = find_workload(workload)?;
    let connections = *workload.connections().first()?;
    let cell = summary.cell(workload, connections, subject)?;
    let each = cell.median_memory(|memory| memory.growth_kib())? * 1024.0 / f64::from(connections);
    let lost = cell.errors();
    Some(Verdict {
        state: State::decided(each <= bytes && lost == 0),
        measured: format!("{:.2} KB, {lost} connections lost", each / 1024.0),
    })
}

fn judge_steadiness(summary: &Summary<'_>, loss: f64) -> Option<Verdict> {
    let (worst, errors) = steadiness(summary, PERCORE)?;
    let floor = match steadiness(summary, FLOOR) {
        Some((worst, _)) => format!(" (the floor: {worst:.2})"),
        None => String::new(),
    };
    Some(Verdict {
        state: State::decided(errors == 0 && worst >= 1.0 - loss),
        measured: format!("worst point {worst:.2} of the best{floor}, {errors} errors"),
    })
}

/// The worst point of the sweep as a share of the best, and all errors; `None` if a point is missing.
fn steadiness(summary: &Summary<'_>, subject: Entry) -> Option<(f64, u64)> {
    let workload = find_workload("sweep")?;
    let mut points = Vec::new();
    let mut errors = 0;
    for connections in workload.connections() {
        let cell = summary.cell(workload, *connections, subject)?;
        points.push(cell.median(Load::per_second)?);
        errors += cell.errors();
    }
    let best = points.iter().copied().fold(0.0, f64::max);
    let worst = points.iter().copied().fold(f64::MAX, f64::min);
    Some((worst / best, errors))
}

fn judge_recycling(summary: &Summary<'_>, subject: &'static str, factor: f64) -> Option<Verdict> {
    let workload = find_workload("recycle")?;
    let connections = *workload.connections().first()?;
    let cell = |profile| summary.cell(workload, connections, under(profile, subject));
    let (with, without) = (cell(Profile::Recycling)?, cell(Profile::Steady)?);
    let ratio = with.ratio_of(without, |load| load.p99_us as f64)?;
    let replaced = with.median(|load| load.replaced as f64)?;
    let errors = [with, without].map(|cell| cell.errors());
    let state = if replaced == 0.0 {
        // Nothing was tested.
        State::Open
    } else if errors[0] > errors[1] {
        State::Missed
    } else {
        State::of(ratio.stays_below(factor))
    };
    Some(Verdict {
        state,
        measured: format!(
            "{ratio} ×, {replaced:.0} children replaced, {} errors against {} without",
            errors[0], errors[1]
        ),
    })
}

fn judge_crowd(summary: &Summary<'_>, workload: &str, subject: Entry, milliseconds: f64) -> Option<Verdict> {
    let workload = find_workload(workload)?;
    let cell = summary.cell(workload, *workload.connections().first()?, subject)?;
    let slowest = cell.worst(|load| load.max_us as f64 / 1000.0)?;
    let errors = cell.errors();
    Some(Verdict {
        state: State::decided(slowest <= milliseconds && errors == 0),
        measured: format!("at most {slowest:.1} ms, {errors} failed or turned away"),
    })
}

fn judge_life(summary: &Summary<'_>, workload: &str, subject: &str) -> Option<Verdict> {
    let workload = find_workload(workload)?;
    let rows = summary.rows(workload);
    let own: Vec<_> = rows.iter().filter(|(entry, ..)| entry.subject == subject).collect();
    let hung: u64 = own.iter().map(|(.., cell)| cell.hung()).sum();
    // A subject without responses has no row either.
    let settings = workload.entries.iter().filter(|entry| entry.subject == subject).count();
    let wanted = settings * workload.connections().len();
    (!own.is_empty()).then(|| Verdict {
        state: State::decided(hung == 0 && own.len() == wanted),
        measured: format!("{hung} hangs in {} of {wanted} settings and numbers of connections", own.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tables::of;
    use super::*;
    use crate::experiments::experiment::EXPERIMENTS;
    use crate::measure::results::{Measure, Results, Sample, example};

    fn verdict(text: &str, results: &Results) -> Verdict {
        judged(text, results).unwrap()
    }

    fn judged(text: &str, results: &Results) -> Option<Verdict> {
        let mut targets = EXPERIMENTS.into_iter().flat_map(of);
        let target = targets.find(|target| target.text.starts_with(text)).unwrap();
        judge(target, &Summary::of(&example::thrice(results)))
    }

    #[test]
    fn at_a_fixed_rate_less_is_better_and_the_verdict_says_so() {
        let mut results = Results { experiment: "mpm".to_owned(), ..example::empty() };
        for (subject, seconds) in [("tsubame-worker", 0.2), ("apache-worker", 0.8)] {
            let mut sample = example::load("rate", subject, 100, 1, 4000);
            sample.connections = find_workload("rate").unwrap().connections()[0];
            if let Measure::Load(load) = &mut sample.measure {
                load.server_cpu_seconds = seconds;
            }
            results.samples.push(sample);
        }
        let verdict = verdict("4 000 req/s: worker", &results);
        let measured = "0.25 (0.25–0.25) × the CPU time of Apache worker (lower is better)".to_owned();
        assert_eq!(verdict, Verdict { state: State::Met, measured });
    }

    #[test]
    fn every_rule_speaks_of_measured_entries() {
        for target in EXPERIMENTS.into_iter().flat_map(of) {
            let (workload, entries) = target.rule.concerns();
            let workload = find_workload(workload).unwrap();
            assert!(entries.iter().all(|entry| workload.entries.contains(entry)), "{}", target.text);
        }
    }

    #[test]
    fn unmeasured_targets_are_not_judged() {
        for target in EXPERIMENTS.into_iter().flat_map(of) {
            assert_eq!(judge(target, &Summary::of(&example::empty())), None);
        }
    }

    #[test]
    fn speed_is_compared_with_the_best_peer_that_is_here() {
        let mut results = example::empty();
        for (subject, requests) in [("tsubame-percore", 900), ("lighttpd", 1000)] {
            results.samples.push(example::load("keepalive", subject, 100, 1, requests));
        }
        let expected =
            Verdict { state: State::Missed, measured: "0.90 (0.90–0.90) × lighttpd (without h2o)".to_owned() };
        assert_eq!(verdict("keep-alive: percore ≥ 1.0", &results), expected);
    }

    #[test]
    fn nobody_is_judged_by_what_others_did() {
        let mut results = example::empty();
        for (subject, requests) in [("tsubame-percore", 900), ("lighttpd", 1000)] {
            let mut sample = example::load("keepalive", subject, 100, 1, requests);
            if let Measure::Load(load) = &mut sample.measure {
                load.busy.others = 0.85;
            }
            results.samples.push(sample);
        }
        let found = verdict("keep-alive: percore ≥ 1.0", &results);
        let measured = "other programs used 85 % of the cores (0.90 (0.90–0.90) × lighttpd (without h2o))".to_owned();
        assert_eq!(found, Verdict { state: State::Open, measured });
    }

    #[test]
    fn memory_is_compared_in_absolute_terms() {
        let mut results = example::empty();
        results.samples.extend([
            example::memory("prefork-memory", "tsubame-prefork", 256, 20_480, 30_720),
            example::memory("prefork-memory", "apache-prefork", 256, 61_440, 61_440),
            example::memory("idle", "tsubame-percore", 10_000, 0, 10_240),
        ]);
        assert_eq!(verdict("prefork, 256 idle", &results).state, State::Met);
        assert_eq!(verdict("prefork, 256 children", &results).state, State::Met);
        let connections = verdict("10 000 idle", &results);
        assert_eq!(connections.state, State::Missed, "{connections:?}");
        assert!(connections.measured.starts_with("1.02 KB"), "{connections:?}");
    }

    #[test]
    fn a_sweep_is_judged_only_when_complete() {
        let mut results = example::empty();
        for (connections, requests) in [(100, 1000), (1000, 900), (5000, 800)] {
            results.samples.push(example::load("sweep", "tsubame-percore", connections, 1, requests));
        }
        assert_eq!(judged("100 to 10 000", &results), None);
        results.samples.push(example::load("sweep", "tsubame-percore", 10_000, 1, 740));
        assert_eq!(verdict("100 to 10 000", &results).state, State::Missed);
    }

    fn changed(profile: Profile, mut sample: Sample, change: fn(&mut Load)) -> Sample {
        sample.profile = profile;
        if let Measure::Load(load) = &mut sample.measure {
            change(load);
        }
        sample
    }

    #[test]
    fn recycling_is_judged_by_p99_and_errors_and_only_if_it_took_place() {
        let recycling = |change| {
            let mut results = example::empty();
            let sample = || example::load("recycle", "tsubame-event", 25, 1, 1000);
            results.samples.push(changed(Profile::Steady, sample(), |load| load.p99_us = 1000));
            results.samples.push(changed(Profile::Recycling, sample(), change));
            verdict("event: p99 while", &results).state
        };
        assert_eq!(recycling(|load| (load.p99_us, load.replaced) = (1100, 3)), State::Met);
        assert_eq!(recycling(|load| (load.p99_us, load.replaced) = (1300, 3)), State::Missed);
        assert_eq!(recycling(|load| (load.p99_us, load.replaced, load.errors.read) = (1100, 3, 1)), State::Missed);
        assert_eq!(recycling(|load| (load.p99_us, load.replaced) = (1100, 0)), State::Open);
    }

    #[test]
    fn in_a_crowd_the_slowest_answer_counts_and_nobody_is_turned_away() {
        let crowd = |change| {
            let mut results = example::empty();
            let sample = example::load("crowd", "tsubame-event", 10_000, 1, 200);
            results.samples.push(changed(Profile::Crowded, sample, change));
            verdict("crowd: event", &results).state
        };
        assert_eq!(crowd(|load| load.max_us = 50_000), State::Met);
        assert_eq!(crowd(|load| load.max_us = 50_001), State::Missed);
        assert_eq!(crowd(|load| load.lost = 1), State::Missed);
    }

    #[test]
    fn one_hang_under_any_settings_is_too_many() {
        let workload = find_workload("sweep002").unwrap();
        let run = |change: fn(&mut Load), rows: usize| {
            let mut results = example::empty();
            for entry in workload.entries.iter().filter(|entry| entry.subject == "tsubame-event") {
                for connections in workload.connections() {
                    let sample = example::load("sweep002", "tsubame-event", *connections, 1, 1000);
                    results.samples.push(changed(entry.profile, sample, |_| ()));
                }
            }
            results.samples.truncate(rows);
            if let Some(Sample { measure: Measure::Load(load), .. }) = results.samples.last_mut() {
                change(load);
            }
            verdict("event answers", &results).state
        };
        assert_eq!(run(|_| (), usize::MAX), State::Met);
        assert_eq!(run(|load| load.fresh_us = 1_000_000, usize::MAX), State::Missed);
        assert_eq!(run(|_| (), 3), State::Missed, "what has no row did not answer at all");
    }
}
