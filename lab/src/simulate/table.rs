//! The figures of several simulations, one beside the other.

use std::time::Duration;

use super::outcome::{Outcome, Spread};
use crate::screen::table::Table;
use crate::screen::text::{figure, grouped};

/// A figure's name, and how it is written.
type Row = (&'static str, fn(&Outcome) -> String);

const ROWS: [Row; 18] = [
    ("requests", |outcome| count(outcome.arrived)),
    ("completed", |outcome| count(outcome.completed)),
    ("scripts completed per second", |outcome| figure(outcome.scripts_per_second)),
    ("refused (503)", |outcome| count(outcome.refused)),
    ("lost", |outcome| count(outcome.lost)),
    ("not finished at the end", |outcome| count(outcome.unfinished)),
    ("tried with another node", |outcome| count(outcome.redispatched)),
    ("scripts that waited at worst", |outcome| count(outcome.queued_at_worst)),
    ("scripts p50 ms", |outcome| figure(outcome.scripts.p50)),
    ("scripts p99 ms", |outcome| figure(outcome.scripts.p99)),
    ("scripts p99.9 ms", |outcome| figure(outcome.scripts.p999)),
    ("files p50 ms", |outcome| figure(outcome.files.p50)),
    ("files p99 ms", |outcome| figure(outcome.files.p99)),
    ("files p99.9 ms", |outcome| figure(outcome.files.p999)),
    ("memory in use %, mean of all nodes", |outcome| percent(outcome.memory.mean)),
    ("  least and most of a node", |outcome| extremes(&outcome.memory)),
    ("processors in use %, mean of all nodes", |outcome| percent(outcome.processors.mean)),
    ("  least and most of a node", |outcome| extremes(&outcome.processors)),
];

/// The cost stands apart: it is what machines are paid for.
const COST: Row = ("node-seconds per million requests", |outcome| grouped(outcome.node_seconds_per_million));

/// The table for standard output.
pub(super) fn text(outcomes: &[Outcome]) -> String {
    let names: Vec<String> = outcomes
        .iter()
        .map(|outcome| format!("{}, {}", outcome.balance, if outcome.agent { "agent" } else { "no agent" }))
        .collect();
    let headers: Vec<&str> = [""].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new(1, &headers);
    for (name, value) in ROWS.into_iter().chain([COST]) {
        table.push([name.to_owned()].into_iter().chain(outcomes.iter().map(value)).collect());
    }
    table.to_screen()
}

/// How fast the simulation was.
pub(super) fn speed(events: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let rate = events as f64 / seconds.max(f64::MIN_POSITIVE) / 1e6;
    format!(
        "{} million events in {} s: {} million events/s",
        figure(events as f64 / 1e6),
        figure(seconds),
        figure(rate)
    )
}

fn count(number: u64) -> String {
    grouped(number as f64)
}

fn percent(share: f64) -> String {
    figure(100.0 * share)
}

fn extremes(spread: &Spread) -> String {
    format!("{} to {}", percent(spread.min), percent(spread.max))
}
