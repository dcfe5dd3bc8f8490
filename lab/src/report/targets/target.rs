//! A target: its text, and the rule by which it is judged.

use crate::experiments::profile::{Entry, Profile, bare, under};
use crate::measure::results::{Load, Memory, PressureEvents};
use crate::report::summary::Figure;

/// A figure, or a comparison with other servers, that Tsubame should reach.
#[derive(Debug)]
pub(crate) struct Target {
    /// What reports and `list` say.
    pub(crate) text: &'static str,
    pub(super) rule: Rule,
}

/// How a target is judged.
#[derive(Debug)]
pub(super) enum Rule {
    /// Requests per CPU-second at least `factor` times those of the best available peer.
    Speed { workload: &'static str, subject: Entry, peers: &'static [Entry], factor: f64 },
    /// Memory of children at most `factor` times the peer's.
    ChildrenMemory { workload: &'static str, subject: Entry, peer: Entry, factor: f64, figure: fn(&Memory) -> f64 },
    /// Memory of an idle connection.
    ConnectionMemory { workload: &'static str, subject: Entry, bytes: f64 },
    /// No errors, and the worst throughput within this share of the best.
    Steadiness { loss: f64 },
    /// p99 while children are replaced at most `factor` times p99 without, and no more errors.
    Unnoticed { subject: &'static str, factor: f64 },
    /// Every fresh request in a crowd is answered within this many milliseconds, and none is refused.
    Prompt { workload: &'static str, subject: Entry, milliseconds: f64 },
    /// A fresh request is answered after every load, with any settings.
    Alive { workload: &'static str, subject: &'static str },
    /// In each pair, the figure of the first at least `factor` times that of the second.
    Each { workload: &'static str, pairs: &'static [(Entry, Entry)], figure: Figure, factor: f64 },
    /// No failures with any of these numbers of connections.
    Faultless { workload: &'static str, subjects: &'static [Entry], connections: &'static [u32] },
    /// No thread uses more than this share of a core while more than that share of the cores is idle.
    Spread { workload: &'static str, subjects: &'static [Entry], busiest: f64, idle: f64 },
    /// p99 at most `factor` times that of waiting for earlier requests alone.
    Queued { workload: &'static str, subjects: &'static [Entry], factor: f64 },
    /// In too little memory a figure is at most this, in every round of every workload.
    PressureEvents { subjects: &'static [Entry], figure: fn(&PressureEvents, &Load) -> f64, limit: f64 },
}

pub(super) const PERCORE: Entry = bare("tsubame-percore");
pub(super) const PREFORK: Entry = bare("tsubame-prefork");
pub(super) const WORKER: Entry = bare("tsubame-worker");
pub(super) const EVENT: Entry = bare("tsubame-event");
pub(super) const FLOOR: Entry = bare("floor");

/// Requests per CPU-second, beside the best of the peers.
pub(super) const fn speed(
    text: &'static str,
    workload: &'static str,
    subject: Entry,
    factor: f64,
    peers: &'static [Entry],
) -> Target {
    Target { text, rule: Rule::Speed { workload, subject, peers, factor } }
}

impl Rule {
    /// The measurements it is about: a workload, and its subjects.
    pub(super) fn concerns(&self) -> (&'static str, Vec<Entry>) {
        match self {
            Rule::Speed { workload, subject, peers, .. } => (*workload, [&[*subject], *peers].concat()),
            Rule::ChildrenMemory { workload, subject, peer, .. } => (*workload, vec![*subject, *peer]),
            Rule::Prompt { workload, subject, .. } => (*workload, vec![*subject]),
            Rule::Unnoticed { subject, .. } => {
                ("recycle", [Profile::Steady, Profile::Recycling].map(|profile| under(profile, subject)).to_vec())
            }
            Rule::Alive { workload, subject } => (*workload, vec![under(Profile::EventSmall, subject)]),
            Rule::Each { workload, pairs, .. } => {
                (*workload, pairs.iter().flat_map(|(subject, peer)| [*subject, *peer]).collect())
            }
            Rule::Faultless { workload, subjects, .. }
            | Rule::Spread { workload, subjects, .. }
            | Rule::Queued { workload, subjects, .. } => (*workload, subjects.to_vec()),
            Rule::PressureEvents { subjects, .. } => ("memory-10", subjects.to_vec()),
            Rule::ConnectionMemory { workload, subject, .. } => (*workload, vec![*subject]),
            Rule::Steadiness { .. } => ("sweep", vec![PERCORE, FLOOR]),
        }
    }
}
