//! A load over time, in quarters of a second, and in intervals that grow with its length.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize};

use super::counts::{self, LONGEST};

/// The shortest interval, so that even a load of one second shows a course.
pub(super) const QUARTER: Duration = Duration::from_millis(250);

/// The most intervals; beyond that they become longer.
const INTERVALS: usize = 600;

/// The results of an interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Interval {
    #[serde(rename = "answers")]
    pub(crate) responses: u64,
    pub(crate) failures: u64,
    pub(crate) bytes: u64,
    /// The time from beginning to end, in microseconds, with two digits.
    #[serde(serialize_with = "counts::serialize", deserialize_with = "fill")]
    pub(crate) total: Histogram<u32>,
}

fn fill<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u32>, D::Error> {
    counts::fill(Interval::default().total, from)
}

impl Default for Interval {
    fn default() -> Self {
        // Two digits are valid; it grows with its contents.
        let total = Histogram::new(2).expect("digits of a histogram");
        Self { responses: 0, failures: 0, bytes: 0, total }
    }
}

impl Interval {
    /// Records a response that took this long.
    pub(crate) fn add_response(&mut self, total: Duration, bytes: u64) {
        self.responses += 1;
        self.bytes += bytes;
        // The histogram grows as needed.
        let _ = self.total.record(u64::try_from(total.as_micros()).unwrap_or(u64::MAX).min(LONGEST));
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.responses += other.responses;
        self.failures += other.failures;
        self.bytes += other.bytes;
        // The histogram grows as needed.
        let _ = self.total.add(&other.total);
    }
}

/// An interval in a few figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IntervalSummary {
    #[serde(rename = "answers")]
    pub(crate) responses: u64,
    pub(crate) failures: u64,
    pub(crate) bytes: u64,
    /// Latencies, in microseconds.
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) max_us: u64,
}

impl IntervalSummary {
    /// The figures of an interval.
    pub(crate) fn of(interval: &Interval) -> Self {
        let Interval { responses, failures, bytes, total } = interval;
        Self {
            responses: *responses,
            failures: *failures,
            bytes: *bytes,
            p50_us: total.value_at_quantile(0.5),
            p99_us: total.value_at_quantile(0.99),
            max_us: total.max(),
        }
    }
}

/// A load over time, in at most [`INTERVALS`] intervals of the same length.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) length: Duration,
    pub(crate) intervals: Vec<Interval>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { length: QUARTER, intervals: Vec::new() }
    }
}

impl Timeline {
    /// The interval of this moment, counted from the beginning.
    pub(crate) fn at(&mut self, since: Duration) -> &mut Interval {
        while since.as_nanos() >= self.length.as_nanos() * INTERVALS as u128 {
            self.halve();
        }
        let index = (since.as_nanos() / self.length.as_nanos()) as usize;
        if self.intervals.len() <= index {
            self.intervals.resize_with(index + 1, Interval::default);
        }
        &mut self.intervals[index]
    }

    /// The same with at most this many intervals.
    pub(crate) fn within(mut self, most: usize) -> Self {
        while self.intervals.len() > most.max(1) {
            self.halve();
        }
        self
    }

    /// Merges pairs of intervals.
    fn halve(&mut self) {
        let halved = self.intervals.chunks(2).map(|pair| {
            let mut one = pair[0].clone();
            pair[1..].iter().for_each(|other| one.add(other));
            one
        });
        self.intervals = halved.collect();
        self.length *= 2;
    }
}

/// One thread's results not handed over yet, by quarters of a second since the beginning. The last one is still open.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Quarters(Vec<(u64, Interval)>);

impl Quarters {
    /// The quarter of this moment, counted from the beginning.
    pub(super) fn at(&mut self, since: Duration) -> &mut Interval {
        let quarter = since.as_secs() * 4 + u64::from(since.subsec_millis() / 250);
        if self.0.last().is_none_or(|(last, _)| *last != quarter) {
            self.0.push((quarter, Interval::default()));
        }
        let last = self.0.len() - 1;
        &mut self.0[last].1
    }

    /// Whether a second is over.
    pub(super) fn is_due(&self, since: Duration) -> bool {
        self.0.first().is_some_and(|(quarter, _)| quarter / 4 < since.as_secs())
    }

    /// Takes out everything, with the numbers of the quarters.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (u64, Interval)> {
        self.0.drain(..)
    }
}

impl FromIterator<(u64, Interval)> for Quarters {
    fn from_iter<I: IntoIterator<Item = (u64, Interval)>>(quarters: I) -> Self {
        Self(quarters.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_reported_in_intervals_that_grow() {
        let mut timeline = Timeline::default();
        for second in 0..1500 {
            timeline.at(Duration::from_secs(second)).responses += 1;
        }
        assert_eq!((timeline.length, timeline.intervals.len()), (Duration::from_secs(4), 375));
        assert!(timeline.intervals.iter().all(|one| one.responses == 4));
        let fewer = timeline.within(100);
        assert_eq!((fewer.length, fewer.intervals.len()), (Duration::from_secs(16), 94));
    }

    #[test]
    fn a_second_is_handed_over_when_it_is_past() {
        let mut quarters = Quarters::default();
        let at = Duration::from_millis;
        assert!(!quarters.is_due(at(5000)), "there is nothing");
        for moment in [100, 900, 2100] {
            quarters.at(at(moment)).responses += 1;
        }
        assert!(quarters.is_due(at(2200)));
        let told: Vec<_> = quarters.take().map(|(quarter, interval)| (quarter, interval.responses)).collect();
        assert_eq!(told, [(0, 1), (3, 1), (8, 1)]);
        assert!(!quarters.is_due(at(2300)));
        quarters.at(at(2400)).responses += 1;
        assert!(!quarters.is_due(at(2900)) && quarters.is_due(at(3000)));
    }
}
