//! What a run of the fleet showed: two tables and a verdict, for the terminal and for documents.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::capacity::{ARRANGEMENTS, Arrangement};
use super::failures::FAILURES;
use super::results::{Capacity, Failure, Results};
use crate::machine::stats::median;
use crate::screen::style;
use crate::screen::table::Table;
use crate::screen::text::{counted, figure};

/// How far the work of all nodes may be from the sum of each alone.
const TOLERANCE: f64 = 0.1;

/// How much slower than before one node the slowest hundredth of the files may be: as a share, and in milliseconds, which
/// matters where both are small.
const SLOWER_MAX: (f64, f64) = (0.2, 2.0);

/// A sentence about a target, and whether it was met.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) is_met: bool,
    pub(super) text: String,
}

/// Prints everything that matters on standard output.
pub(super) fn print(results: &Results) {
    for (heading, table) in tables(results) {
        say_line!("\n{}", style::heading(heading));
        say!("{}", table.to_screen());
    }
    for line in reasons(results) {
        say_line!("  {} {line}", style::doubtful("!"));
    }
    say_line!("\n{}", style::heading("Targets"));
    for Verdict { is_met, text } in verdicts(results) {
        say_line!("  {}  {text}", if is_met { style::good("met   ") } else { style::bad("missed") });
    }
    say_line!("");
}

/// The same as a document.
pub(super) fn markdown(results: &Results) -> String {
    let Results { started, rounds, seconds, host, tsubame, haproxy, .. } = results;
    let mut text = format!(
        "Measured {started} by `tsubame-lab run fleet`: {} of {seconds} s, on {} ({}, {}, Linux {}), {tsubame}, {haproxy}.\n",
        counted((*rounds).into(), "round"),
        host.cpu,
        counted(host.cores as u64, "core"),
        host.system,
        host.kernel,
    );
    for (heading, table) in tables(results) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## {heading}\n\n{}", table.to_markdown());
    }
    let items = reasons(results).into_iter().map(|line| format!("- {line}\n")).collect::<String>();
    if !items.is_empty() {
        let _ = write!(text, "\n## What failed, and what was not measured\n\n{items}");
    }
    let verdicts = verdicts(results).into_iter();
    let lines =
        verdicts.map(|Verdict { is_met, text }| format!("- {}: {text}\n", if is_met { "met" } else { "missed" }));
    let _ = write!(text, "\n## Targets\n\n{}", lines.collect::<String>());
    text
}

/// The tables that have rows, with their headings.
pub(super) fn tables(results: &Results) -> Vec<(&'static str, Table)> {
    let all = [("Capacity", capacity_table(results)), ("Failures", failure_table(results))];
    all.into_iter().filter(|(_, table)| !table.is_empty()).collect()
}

fn capacity_table(results: &Results) -> Table {
    let headers = ["nodes", "scripts/s", "of the sum", "script p50 ms", "p99 ms", "file p50 ms", "p99 ms", "failed"];
    let mut table = Table::new(1, &headers);
    for arrangement in &ARRANGEMENTS {
        let rounds: Vec<&Capacity> =
            results.capacities.iter().filter(|capacity| capacity.arrangement == arrangement.id).collect();
        if rounds.is_empty() {
            continue;
        }
        let of = |value: fn(&Capacity) -> f64| middle(rounds.iter().map(|round| value(round)));
        let share = share_of_sum(results, arrangement);
        table.push(vec![
            arrangement.title.to_owned(),
            figure(of(|round| round.scripts_per_second)),
            share.map_or_else(String::new, |share| format!("{share:.2}")),
            figure(of(|round| round.script_ms[0])),
            figure(of(|round| round.script_ms[1])),
            figure(of(|round| round.file_ms[0])),
            figure(of(|round| round.file_ms[1])),
            rounds.iter().map(|round| round.failed.values().sum::<u64>()).sum::<u64>().to_string(),
        ]);
    }
    table
}

fn failure_table(results: &Results) -> Table {
    let headers = [
        "one of three nodes is",
        "GETs",
        "failed",
        "POSTs",
        "failed",
        "doubled",
        "longest silence s",
        "slowest file s",
        "slowest script s",
    ];
    let mut table = Table::new(1, &headers);
    for failure in &FAILURES {
        let rounds: Vec<&Failure> = results.failures.iter().filter(|found| found.failure == failure.id).collect();
        if rounds.is_empty() {
            continue;
        }
        let sum = |value: fn(&Failure) -> u64| rounds.iter().map(|round| value(round)).sum::<u64>().to_string();
        let most =
            |value: fn(&Failure) -> f64| format!("{:.1}", rounds.iter().map(|round| value(round)).fold(0.0, f64::max));
        table.push(vec![
            failure.title.to_owned(),
            sum(|round| round.idempotent),
            sum(|round| all(&round.idempotent_failed)),
            sum(|round| round.posts),
            sum(|round| all(&round.posts_failed)),
            sum(|round| round.posts_doubled),
            most(|round| round.silence),
            most(|round| round.slowest_file),
            most(|round| round.slowest_script),
        ]);
    }
    table
}

fn all(reasons: &BTreeMap<String, u64>) -> u64 {
    reasons.values().sum()
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    median(&values.collect::<Vec<_>>()).unwrap_or(0.0)
}

/// The median of a figure of an arrangement, if that was measured.
fn of(results: &Results, id: &str, value: fn(&Capacity) -> f64) -> Option<f64> {
    let rounds = results.capacities.iter().filter(|capacity| capacity.arrangement == id);
    median(&rounds.map(value).collect::<Vec<_>>())
}

fn scripts_per_second(capacity: &Capacity) -> f64 {
    capacity.scripts_per_second
}

/// Its scripts per second, as a share of what its nodes do alone.
fn share_of_sum(results: &Results, arrangement: &Arrangement) -> Option<f64> {
    let alone = arrangement.target.iter().map(|id| of(results, id, scripts_per_second));
    let sum = alone.collect::<Option<Vec<f64>>>()?.iter().sum::<f64>();
    of(results, arrangement.id, scripts_per_second).map(|done| done / sum).filter(|_| sum > 0.0)
}

/// Why requests failed, and what was not measured.
pub(super) fn reasons(results: &Results) -> Vec<String> {
    let capacities = results.capacities.iter().map(|found| (&found.arrangement, "requests that failed", &found.failed));
    let failures = results.failures.iter().flat_map(|found| {
        [
            (&found.failure, "GETs that failed", &found.idempotent_failed),
            (&found.failure, "POSTs that failed", &found.posts_failed),
        ]
    });
    let mut failed: BTreeMap<(&str, &str), BTreeMap<&str, u64>> = BTreeMap::new();
    for (id, what, reasons) in capacities.chain(failures) {
        let known = failed.entry((id, what)).or_default();
        reasons.iter().for_each(|(reason, times)| *known.entry(reason).or_default() += times);
    }
    let failed = failed.into_iter().filter(|(_, reasons)| !reasons.is_empty()).map(|((id, what), reasons)| {
        let list: Vec<String> = reasons.iter().map(|(reason, times)| format!("{times} × {reason}")).collect();
        format!("{id}: {what}: {}", list.join("; "))
    });
    let lost = results
        .failures
        .iter()
        .filter(|found| found.posts_lost > 0)
        .map(|found| format!("{}: {} answered, and never ran", found.failure, counted(found.posts_lost, "post")));
    failed.chain(lost).chain(results.absences.iter().cloned()).collect()
}

/// Which targets were met.
pub(super) fn verdicts(results: &Results) -> Vec<Verdict> {
    let with_agent = ARRANGEMENTS.iter().filter(|arrangement| arrangement.has_agent);
    let work = with_agent.clone().filter_map(|arrangement| {
        let share = share_of_sum(results, arrangement)?;
        let text = format!("{}: {share:.2} of what its nodes do alone (0.9 to 1.1)", arrangement.title);
        Some(Verdict { is_met: (share - 1.0).abs() <= TOLERANCE, text })
    });
    let p99 = |capacity: &Capacity| capacity.file_ms[1];
    let files = with_agent.filter_map(|arrangement| {
        let (one, here) = (of(results, "one", p99)?, of(results, arrangement.id, p99)?);
        let limit = (one * (1.0 + SLOWER_MAX.0)).max(one + SLOWER_MAX.1);
        let text = format!(
            "{}: 99 of 100 files within {} ms, {} ms with one node (at most {} ms)",
            arrangement.title,
            figure(here),
            figure(one),
            figure(limit)
        );
        Some(Verdict { is_met: here <= limit, text })
    });
    let failures = FAILURES.iter().filter_map(|failure| {
        let rounds = || results.failures.iter().filter(|found| found.failure == failure.id);
        rounds().next()?;
        let failed: u64 = rounds().map(|round| all(&round.idempotent_failed)).sum();
        let doubled: u64 = rounds().map(|round| round.posts_doubled).sum();
        let text = format!("{}: no GET fails, no POST runs twice", failure.title);
        let found = format!("{} and {}", counted(failed, "GET"), counted(doubled, "POST"));
        let text = if failed + doubled > 0 { format!("{text}: {found}") } else { text };
        Some(Verdict { is_met: failed + doubled == 0, text })
    });
    work.chain(files).chain(failures).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::machine::host::Host;

    /// Results with something of everything.
    pub(in crate::fleet) fn results() -> Results {
        let capacity = |id: &str, done: f64, p99: f64| Capacity {
            arrangement: id.to_owned(),
            round: 1,
            scripts_per_second: done,
            script_ms: [1000.0, 2000.0],
            file_ms: [1.0, p99],
            failed: BTreeMap::new(),
        };
        let failure = |id: &str, failed: u64, doubled: u64| Failure {
            failure: id.to_owned(),
            round: 1,
            idempotent: 100,
            idempotent_failed: (failed > 0).then(|| ("503".to_owned(), failed)).into_iter().collect(),
            posts: 10,
            posts_failed: BTreeMap::from([("closed".to_owned(), 2)]),
            posts_doubled: doubled,
            posts_lost: 0,
            silence: 0.5,
            slowest_file: 2.25,
            slowest_script: 3.0,
        };
        Results {
            schema: super::super::results::SCHEMA,
            experiment: "fleet".to_owned(),
            started: "2026-01-31 23:59 UTC".to_owned(),
            host: Host::default(),
            tsubame: "Tsubame (debug)".to_owned(),
            haproxy: "HAProxy".to_owned(),
            rounds: 1,
            seconds: 20,
            configurations: Vec::new(),
            capacities: vec![
                capacity("one", 4.0, 3.0),
                capacity("small", 1.0, 3.0),
                capacity("equal-leastconn-agent", 11.0, 5.0),
                capacity("unequal-leastconn-agent", 6.0, 9.0),
            ],
            failures: vec![
                failure("killed", 0, 0),
                failure("frozen", 1, 0),
                failure("frozen", 2, 0),
                failure("drained", 0, 1),
            ],
            absences: vec!["upgraded: it was interrupted".to_owned()],
        }
    }

    #[test]
    fn targets_are_judged() {
        let met: Vec<(bool, String)> =
            verdicts(&results()).into_iter().map(|verdict| (verdict.is_met, verdict.text)).collect();
        let expected = [
            (true, "three nodes, leastconn, agent: 0.92 of"),
            (false, "two and a small one, leastconn, agent: 0.67 of"),
            (true, "three nodes, leastconn, agent: 99 of 100 files within 5 ms"),
            (false, "two and a small one, leastconn, agent: 99 of 100"),
            (true, "killed"),
            (false, "frozen"),
            (false, "drained"),
        ];
        assert_eq!(met.len(), expected.len(), "{met:?}");
        for ((is_met, text), (should, begin)) in met.iter().zip(expected) {
            assert!(*is_met == should && text.starts_with(begin), "{text}");
        }
    }

    #[test]
    fn a_document_has_both_tables_and_the_reasons() {
        let text = markdown(&results());
        for part in [
            "1 round of 20 s",
            "| three nodes, leastconn, agent | 11 | 0.92 |",
            "| 200 | 3 | 20 | 4 | 0 | 0.5 | 2.2 | 3.0 |",
            "- frozen: GETs that failed: 3 × 503\n",
            "- frozen: POSTs that failed: 4 × closed\n",
            "- upgraded: it was interrupted\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
