//! What was promised: the table of targets, and whether a run meets them.

use crate::results::{Load, Memory};
use crate::summary::{Summary, title};
use crate::workload::{self, Entry, FILE_PEERS, bare, debian};

/// A promise.
#[derive(Debug)]
pub(crate) struct Target {
    /// In words.
    pub(crate) text: &'static str,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    /// Requests per CPU-second at least `factor` times those of the best peer that is here.
    Speed { workload: &'static str, subject: Entry, peers: &'static [Entry], factor: f64 },
    /// Memory of prefork's children at most `factor` times Apache's.
    ChildrenMemory { factor: f64, figure: fn(&Memory) -> f64 },
    /// Memory of an idle connection.
    ConnectionMemory { bytes: f64 },
    /// No errors, and the worst throughput within this share of the best.
    Steadiness { loss: f64 },
}

/// How a promise stands.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Whether it is kept; `None` when the run does not tell.
    pub(crate) met: Option<bool>,
    /// The figure and what it is compared with.
    pub(crate) measured: String,
}

const PERCORE: Entry = bare("tsubame-percore");
const PREFORK: Entry = bare("tsubame-prefork");
const WORKER: Entry = bare("tsubame-worker");
const EVENT: Entry = bare("tsubame-event");
const FLOOR: Entry = bare("floor");
const fn speed(
    text: &'static str,
    workload: &'static str,
    subject: Entry,
    factor: f64,
    peers: &'static [Entry],
) -> Target {
    Target { text, rule: Rule::Speed { workload, subject, peers, factor } }
}

/// Every promise about HTTP, in the order of the workloads.
pub(crate) static TARGETS: [Target; 20] = [
    speed(
        "keep-alive: percore ≥ 1.0 × the faster of lighttpd and h2o",
        "keepalive",
        PERCORE,
        1.0,
        &[bare("lighttpd"), bare("h2o")],
    ),
    speed("keep-alive: percore ≥ 0.85 × the floor", "keepalive", PERCORE, 0.85, &[FLOOR]),
    speed("keep-alive: percore ≥ 1.5 × nginx with open_file_cache", "keepalive", PERCORE, 1.5, &[bare("nginx-ofc")]),
    speed("keep-alive: prefork ≥ 4 × Apache prefork", "keepalive", PREFORK, 4.0, &[bare("apache-prefork")]),
    speed("keep-alive: prefork ≥ 0.9 × nginx with open_file_cache", "keepalive", PREFORK, 0.9, &[bare("nginx-ofc")]),
    speed("keep-alive: worker ≥ 4 × Apache worker", "keepalive", WORKER, 4.0, &[bare("apache-worker")]),
    speed("keep-alive: worker ≥ 1.0 × nginx with open_file_cache", "keepalive", WORKER, 1.0, &[bare("nginx-ofc")]),
    speed("keep-alive: event ≥ 4 × Apache event", "keepalive", EVENT, 4.0, &[bare("apache-event")]),
    speed("keep-alive: event ≥ 1.0 × nginx with open_file_cache", "keepalive", EVENT, 1.0, &[bare("nginx-ofc")]),
    speed("`Connection: close`: percore ≥ 1.0 × h2o", "close", PERCORE, 1.0, &[bare("h2o")]),
    speed("`Connection: close`: prefork ≥ 2 × Apache prefork", "close", PREFORK, 2.0, &[bare("apache-prefork")]),
    speed("`Connection: close`: worker ≥ 2 × Apache worker", "close", WORKER, 2.0, &[bare("apache-worker")]),
    speed("`Connection: close`: event ≥ 2 × Apache event", "close", EVENT, 2.0, &[bare("apache-event")]),
    speed("16 KB file: percore ≥ 1.0 × the best peer", "file16k", PERCORE, 1.0, FILE_PEERS),
    speed("1 MB file: percore ≥ 1.0 × the best peer", "file1m", PERCORE, 1.0, FILE_PEERS),
    speed(
        "Debian's default configuration: percore ≥ 0.85 × the bare one",
        "debian",
        debian("tsubame-percore"),
        0.85,
        &[PERCORE],
    ),
    Target {
        text: "prefork, 256 idle children: PSS ≤ half of Apache's",
        rule: Rule::ChildrenMemory { factor: 0.5, figure: |memory| memory.before_kib as f64 },
    },
    Target {
        text: "prefork, 256 children that have served: PSS ≤ half of Apache's",
        rule: Rule::ChildrenMemory { factor: 0.5, figure: |memory| memory.after_kib as f64 },
    },
    Target {
        text: "10 000 idle keep-alive connections under percore: ≤ 1 KB of PSS each",
        rule: Rule::ConnectionMemory { bytes: 1024.0 },
    },
    Target {
        text: "100 to 10 000 connections under percore: no errors, req/s within 25 % of the best point",
        rule: Rule::Steadiness { loss: 0.25 },
    },
];

impl Target {
    /// Judges by a run.
    pub(crate) fn judge(&self, summary: &Summary<'_>) -> Verdict {
        let verdict = match &self.rule {
            Rule::Speed { workload, subject, peers, factor } => {
                judge_speed(summary, workload, *subject, peers, *factor)
            }
            Rule::ChildrenMemory { factor, figure } => judge_children(summary, *factor, *figure),
            Rule::ConnectionMemory { bytes } => judge_connections(summary, *bytes),
            Rule::Steadiness { loss } => judge_steadiness(summary, *loss),
        };
        verdict.unwrap_or(Verdict { met: None, measured: "not measured".to_owned() })
    }
}

fn judge_speed(summary: &Summary<'_>, workload: &str, subject: Entry, peers: &[Entry], factor: f64) -> Option<Verdict> {
    let workload = workload::find(workload)?;
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
    Some(Verdict { met: Some(ratio >= factor), measured: format!("{ratio:.2} × {}{without}", title(peer)) })
}

fn judge_children(summary: &Summary<'_>, factor: f64, figure: fn(&Memory) -> f64) -> Option<Verdict> {
    let workload = workload::find("prefork-memory")?;
    let connections = *workload.connections().first()?;
    let median = |entry| summary.cell(workload, connections, entry)?.median_memory(figure);
    let (own, theirs) = (median(PREFORK)?, median(bare("apache-prefork"))?);
    Some(Verdict {
        met: Some(own <= factor * theirs),
        measured: format!("{:.1} MB against {:.1} MB", own / 1024.0, theirs / 1024.0),
    })
}

fn judge_connections(summary: &Summary<'_>, bytes: f64) -> Option<Verdict> {
    let workload = workload::find("idle")?;
    let connections = *workload.connections().first()?;
    let cell = summary.cell(workload, connections, PERCORE)?;
    let each = cell.median_memory(|memory| memory.growth_kib())? * 1024.0 / f64::from(connections);
    let lost = cell.errors();
    Some(Verdict {
        met: Some(each <= bytes && lost == 0),
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
        met: Some(errors == 0 && worst >= 1.0 - loss),
        measured: format!("worst point {worst:.2} of the best{floor}, {errors} errors"),
    })
}

/// The worst point of the sweep as a share of the best, and all errors; nothing when a point is missing.
fn steadiness(summary: &Summary<'_>, subject: Entry) -> Option<(f64, u64)> {
    let workload = workload::find("sweep")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Results, example};

    fn verdict(text: &str, results: &Results) -> Verdict {
        let target = TARGETS.iter().find(|target| target.text.starts_with(text)).unwrap();
        target.judge(&Summary::of(results))
    }

    #[test]
    fn every_rule_speaks_of_measured_entries() {
        for target in &TARGETS {
            if let Rule::Speed { workload, subject, peers, .. } = &target.rule {
                let workload = workload::find(workload).unwrap();
                assert!(workload.entries.contains(subject), "{}", target.text);
                assert!(peers.iter().all(|peer| workload.entries.contains(peer)), "{}", target.text);
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        for target in &TARGETS {
            let expected = Verdict { met: None, measured: "not measured".to_owned() };
            assert_eq!(target.judge(&Summary::of(&example::empty())), expected);
        }
    }

    #[test]
    fn speed_is_compared_with_the_best_peer_that_is_here() {
        let mut results = example::empty();
        for (subject, requests) in [("tsubame-percore", 900), ("lighttpd", 1000)] {
            results.samples.push(example::load("keepalive", subject, 100, 1, requests));
        }
        let expected = Verdict { met: Some(false), measured: "0.90 × lighttpd (without h2o)".to_owned() };
        assert_eq!(verdict("keep-alive: percore ≥ 1.0", &results), expected);
    }

    #[test]
    fn memory_is_compared_in_absolute_terms() {
        let mut results = example::empty();
        results.samples.extend([
            example::memory("prefork-memory", "tsubame-prefork", 256, 20_480, 30_720),
            example::memory("prefork-memory", "apache-prefork", 256, 61_440, 61_440),
            example::memory("idle", "tsubame-percore", 10_000, 0, 10_240),
        ]);
        assert_eq!(verdict("prefork, 256 idle", &results).met, Some(true));
        assert_eq!(verdict("prefork, 256 children", &results).met, Some(true));
        let connections = verdict("10 000 idle", &results);
        assert_eq!(connections.met, Some(false), "{connections:?}");
        assert!(connections.measured.starts_with("1.02 KB"), "{connections:?}");
    }

    #[test]
    fn a_sweep_is_judged_only_when_complete() {
        let mut results = example::empty();
        for (connections, requests) in [(100, 1000), (1000, 900), (5000, 800)] {
            results.samples.push(example::load("sweep", "tsubame-percore", connections, 1, requests));
        }
        assert_eq!(verdict("100 to 10 000", &results).met, None);
        results.samples.push(example::load("sweep", "tsubame-percore", 10_000, 1, 740));
        assert_eq!(verdict("100 to 10 000", &results).met, Some(false));
    }
}
