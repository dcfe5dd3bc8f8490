//! What happened to the requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hdrhistogram::Histogram;

use super::request::{Kind, Nanos, Request, SECOND};

/// The longest latency that is told apart: an hour.
const LONGEST: Nanos = 3600 * SECOND;

/// How long a client waits after a failure until it asks again.
const MOMENT: Nanos = SECOND / 10;

/// Counts and latencies of a whole fleet.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) arrived: u64,
    /// Requests without an answer within the clients' patience, or whose node died.
    pub(super) lost: u64,
    /// Requests that were answered with a 503.
    pub(super) refused: u64,
    /// Connections that were refused, and tried with another node.
    pub(super) redispatched: u64,
    pub(super) scripts: Latencies,
    pub(super) files: Latencies,
    /// Requests that wait for memory now, and the most that did.
    pub(super) waiting: u64,
    pub(super) most_waiting: u64,
    /// Requests that have arrived and not ended, and the sum of that number over time.
    pub(super) present: u64,
    pub(super) presence: u128,
    changed: Nanos,
    /// When clients ask again.
    pub(super) returns: BinaryHeap<Reverse<Nanos>>,
}

/// The answered requests of one kind.
#[derive(Debug)]
pub(super) struct Latencies {
    pub(super) histogram: Histogram<u64>,
    pub(super) sum: u128,
}

impl Latencies {
    fn new() -> Self {
        // Three digits; both bounds are valid.
        Self { histogram: Histogram::new_with_max(LONGEST, 3).expect("bounds of a histogram"), sum: 0 }
    }

    /// The latency in milliseconds that `share` (0 to 1) of them do not exceed.
    pub(super) fn milliseconds(&self, share: f64) -> f64 {
        self.histogram.value_at_quantile(share) as f64 / 1e6
    }
}

impl Tally {
    /// Nothing yet; so many clients ask at once.
    pub(super) fn new(clients: usize) -> Self {
        Self {
            returns: std::iter::repeat_n(Reverse(0), clients).collect(),
            arrived: 0,
            lost: 0,
            refused: 0,
            redispatched: 0,
            scripts: Latencies::new(),
            files: Latencies::new(),
            waiting: 0,
            most_waiting: 0,
            present: 0,
            presence: 0,
            changed: 0,
        }
    }

    /// Begins to count anew: what is under way counts as if it came now.
    pub(super) fn count_from(&mut self, now: Nanos) {
        self.advance(now);
        let returns = std::mem::take(&mut self.returns);
        let Self { waiting, present, .. } = *self;
        *self =
            Self { returns, waiting, present, arrived: present, most_waiting: waiting, changed: now, ..Self::new(0) };
    }

    /// How many requests were answered.
    pub(super) fn completed(&self) -> u64 {
        self.scripts.histogram.len() + self.files.histogram.len()
    }

    /// Adds up until now how many requests are present.
    pub(super) fn advance(&mut self, now: Nanos) {
        self.presence += u128::from(now - self.changed) * u128::from(self.present);
        self.changed = now;
    }

    pub(super) fn arrives(&mut self, now: Nanos) {
        self.advance(now);
        self.arrived += 1;
        self.present += 1;
    }

    /// The node has its answer; the client may have gone.
    pub(super) fn answers(&mut self, request: &Request, now: Nanos, patience: Nanos) {
        let latency = now - request.born;
        if latency > patience {
            return self.loses(request, now);
        }
        self.leaves(request, now, 0);
        let latencies = match request.kind {
            Kind::Script => &mut self.scripts,
            Kind::File => &mut self.files,
        };
        latencies.histogram.saturating_record(latency);
        latencies.sum += u128::from(latency);
    }

    pub(super) fn refuses(&mut self, request: &Request, now: Nanos) {
        self.leaves(request, now, MOMENT);
        self.refused += 1;
    }

    pub(super) fn loses(&mut self, request: &Request, now: Nanos) {
        self.leaves(request, now, MOMENT);
        self.lost += 1;
    }

    /// A request begins to wait for memory.
    pub(super) fn queues(&mut self) {
        self.waiting += 1;
        self.most_waiting = self.most_waiting.max(self.waiting);
    }

    fn leaves(&mut self, request: &Request, now: Nanos, rest: Nanos) {
        self.advance(now);
        self.present -= 1;
        if request.again {
            self.returns.push(Reverse(now + rest));
        }
    }
}
