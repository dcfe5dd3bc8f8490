//! The figures of a simulation.

use serde::Serialize;

use super::fleet::{Ended, Scenario};
use super::request::SECOND;
use super::tally::Latencies;

/// What became of the requests, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Outcome {
    /// How the balancer chose, and whether it asked the agents.
    pub(super) balance: &'static str,
    pub(super) agent: bool,
    pub(super) arrived: u64,
    pub(super) completed: u64,
    /// Completed scripts in a second.
    pub(super) scripts_per_second: f64,
    /// Answered with a 503.
    pub(super) refused: u64,
    /// Without an answer, or with one that came too late.
    pub(super) lost: u64,
    /// Still on their way when the time was over.
    pub(super) unfinished: u64,
    /// Refused connections that were tried with another node.
    pub(super) redispatched: u64,
    /// The most requests that waited for memory at once, on all nodes.
    pub(super) queued_at_worst: u64,
    pub(super) scripts: Percentiles,
    pub(super) files: Percentiles,
    /// The share of the scripts' memory, and of the processors, in use over the whole time.
    pub(super) memory: Spread,
    pub(super) processors: Spread,
    /// Nodes times seconds for a million completed requests.
    pub(super) node_seconds_per_million: f64,
    /// How many things happened in the simulation.
    pub(super) events: u64,
}

/// Latencies in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

/// A share, from 0 to 1, of the nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) mean: f64,
    pub(super) max: f64,
}

impl Outcome {
    /// The figures of a fleet after its time.
    pub(super) fn of(scenario: &Scenario, ended: &Ended) -> Self {
        let tally = &ended.tally;
        let time = (scenario.duration - scenario.warm_up) as f64;
        let usage = ended.nodes.iter().map(|node| (node.usage(), node.size()));
        let processors = usage.clone().map(|(usage, (cores, _))| usage.processors as f64 / (time * cores as f64));
        let memory = usage.map(|(usage, (_, places))| usage.scripts as f64 / (time * places as f64));
        let node_seconds = ended.nodes.len() as f64 * time / SECOND as f64;
        Self {
            balance: scenario.balance.word(),
            agent: scenario.agent,
            arrived: tally.arrived,
            completed: tally.completed(),
            scripts_per_second: tally.scripts.histogram.len() as f64 * SECOND as f64 / time,
            refused: tally.refused,
            lost: tally.lost,
            unfinished: tally.present,
            redispatched: tally.redispatched,
            queued_at_worst: tally.most_waiting,
            scripts: Percentiles::of(&tally.scripts),
            files: Percentiles::of(&tally.files),
            memory: Spread::of(&memory.collect::<Vec<_>>()),
            processors: Spread::of(&processors.collect::<Vec<_>>()),
            node_seconds_per_million: node_seconds / (tally.completed().max(1) as f64 / 1e6),
            events: ended.events,
        }
    }
}

impl Percentiles {
    fn of(latencies: &Latencies) -> Self {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| latencies.milliseconds(share));
        Self { p50, p99, p999 }
    }
}

impl Spread {
    fn of(shares: &[f64]) -> Self {
        Self {
            min: shares.iter().copied().fold(f64::INFINITY, f64::min),
            mean: shares.iter().sum::<f64>() / shares.len() as f64,
            max: shares.iter().copied().fold(0.0, f64::max),
        }
    }
}
