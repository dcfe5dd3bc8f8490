//! The results of a load in a form for other programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::load::distribution::Distribution;
use crate::load::rates::Rates;
use crate::load::record::Handshakes;
use crate::load::scenario::tally::{StepTally, Tally};
use crate::load::timeline::IntervalSummary;
use crate::load::tls::{Agreed, Trust};
use crate::load::{Plan, Record};
use crate::machine::error::{Context as _, Result};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The time in which all this happened.
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    #[serde(rename = "answers")]
    pub(crate) responses: u64,
    pub(crate) good: u64,
    pub(crate) per_second: f64,
    /// Responses by the first digit of their status.
    pub(crate) status: BTreeMap<String, u64>,
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) bytes: Bytes,
    pub(crate) connections: u64,
    pub(crate) reopened: u64,
    /// TLS: complete handshakes, and the parameters of the first one.
    pub(crate) handshakes: Handshakes,
    pub(crate) tls: Option<Agreed>,
    /// Whether certificates were verified; `None` if there are none.
    pub(crate) verified: Option<bool>,
    pub(crate) latency: Times,
    /// Time to establish a connection, and from there to complete its handshake.
    pub(crate) connect: Times,
    pub(crate) handshake: Times,
    pub(crate) first_byte: Times,
    /// How late requests were sent.
    pub(crate) lag: Times,
    /// The share of its time in which the busiest thread worked.
    pub(crate) busy: f64,
    /// The length of an interval, in seconds, and the results in each.
    pub(crate) interval: f64,
    pub(crate) timeline: Vec<IntervalSummary>,
    /// What became of the sessions of a scenario, and of each of its steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<Sessions>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sessions {
    complete: u64,
    failed: u64,
    /// How long the complete ones took.
    duration: Times,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Step {
    name: String,
    requests: u64,
    failures: u64,
    first_failure: Option<String>,
    latency: Times,
}

impl Sessions {
    fn of(tally: &Tally) -> Self {
        let step = |step: &StepTally| Step {
            name: step.name.clone(),
            requests: step.requests,
            failures: step.failures,
            first_failure: step.complaint.clone(),
            latency: times(&step.total),
        };
        Self {
            complete: tally.complete.0.len(),
            failed: tally.failed.0.len(),
            duration: times(&tally.complete),
            steps: tally.steps.iter().map(step).collect(),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bytes {
    pub(crate) head: u64,
    pub(crate) body: u64,
    pub(crate) framing: u64,
    pub(crate) sent: u64,
}

/// Microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) min_us: u64,
    pub(crate) mean_us: f64,
    pub(crate) deviation_us: f64,
    pub(crate) max_us: u64,
    pub(crate) percentiles_us: BTreeMap<String, u64>,
}

/// Responses over time, in intervals of `length` seconds. A last interval of less than half that length is left out.
pub(crate) fn intervals(moments: &[IntervalSummary], length: f64, seconds: f64) -> Vec<Rates> {
    let interval = |(index, moment): (usize, &IntervalSummary)| {
        let from = index as f64 * length;
        let until = seconds.min(from + length);
        let lasts = until - from;
        (lasts >= length / 2.0).then(|| Rates {
            until,
            responses: moment.responses as f64 / lasts,
            failures: moment.failures as f64 / lasts,
            p50_us: moment.p50_us,
            p99_us: moment.p99_us,
        })
    };
    moments.iter().enumerate().filter_map(interval).collect()
}

/// The percentiles shown.
pub(super) const SHARES: [(&str, f64); 9] = [
    ("50", 0.5),
    ("66", 0.66),
    ("75", 0.75),
    ("90", 0.9),
    ("95", 0.95),
    ("99", 0.99),
    ("99.9", 0.999),
    ("99.99", 0.9999),
    ("100", 1.0),
];

/// Further ones, for drawing the distribution.
const LOWER_SHARES: [(&str, f64); 4] = [("1", 0.01), ("5", 0.05), ("10", 0.1), ("25", 0.25)];

/// The distribution of some times, for drawing it: percentages in order, each with the most microseconds.
pub(super) fn shares(distribution: &Distribution) -> Box<[(f64, u64)]> {
    let all = LOWER_SHARES.iter().chain(&SHARES);
    all.map(|(_, share)| (share * 100.0, distribution.0.value_at_quantile(*share))).collect()
}

fn times(distribution: &Distribution) -> Times {
    let all = &distribution.0;
    Times {
        min_us: if all.is_empty() { 0 } else { all.min() },
        mean_us: all.mean(),
        deviation_us: all.stdev(),
        max_us: all.max(),
        percentiles_us: SHARES
            .iter()
            .chain(&LOWER_SHARES)
            .map(|(name, share)| ((*name).to_owned(), all.value_at_quantile(*share)))
            .collect(),
    }
}

/// One line of JSON.
pub(super) fn written(plan: &Plan, record: &Record) -> Result<String> {
    let classes = record.classes.iter().enumerate().filter(|(_, count)| **count > 0);
    let failures = record.failures.kinds().into_iter();
    let results = Results {
        seconds: record.elapsed.as_secs_f64(),
        requests: record.asked(),
        responses: record.responses,
        good: record.good,
        per_second: record.rate(),
        status: classes.map(|(class, count)| (format!("{class}xx"), *count)).collect(),
        failures: failures.filter(|(_, count)| *count > 0).map(|(kind, count)| (kind.to_owned(), count)).collect(),
        bytes: Bytes { head: record.head, body: record.body, framing: record.framing, sent: record.sent_bytes },
        connections: record.connections,
        reopened: record.reopened,
        handshakes: record.handshakes,
        tls: record.agreed.clone(),
        verified: plan.tls.as_ref().map(|tls| tls.trust != Trust::Any),
        latency: times(&record.total),
        connect: times(&record.connect),
        handshake: times(&record.handshake),
        first_byte: times(&record.wait),
        lag: times(&record.lag),
        busy: record.busy,
        interval: record.timeline.length.as_secs_f64(),
        timeline: record.timeline.intervals.iter().map(IntervalSummary::of).collect(),
        sessions: record.tally.as_deref().map(Sessions::of),
    };
    serde_json::to_string(&results).context(|| "write the results as JSON".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::timeline::Timeline;

    #[test]
    fn intervals_are_reported_by_the_second() {
        let mut timeline = Timeline::default();
        for (at_ms, times) in [(0, 10), (300, 20), (510, 3)] {
            (0..times)
                .for_each(|_| timeline.at(Duration::from_millis(at_ms)).add_response(Duration::from_millis(2), 1));
        }
        let moments: Vec<IntervalSummary> = timeline.intervals.iter().map(IntervalSummary::of).collect();
        // The last interval has ten milliseconds, which prove nothing.
        let told = intervals(&moments, timeline.length.as_secs_f64(), 0.51);
        let figures: Vec<(f64, f64)> = told.iter().map(|interval| (interval.until, interval.responses)).collect();
        assert_eq!(figures, [(0.25, 40.0), (0.5, 80.0)]);
        assert!((1990..2010).contains(&told[0].p99_us));
    }
}
