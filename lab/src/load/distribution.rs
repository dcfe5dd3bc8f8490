//! How long something took, in all: a histogram of durations.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize};

use super::counts::{self, LONGEST};

/// Durations in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Distribution(
    #[serde(serialize_with = "counts::serialize", deserialize_with = "fill")] pub(crate) Histogram<u64>,
);

fn fill<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    counts::fill(Distribution::new().0, from)
}

impl Distribution {
    pub(super) fn new() -> Self {
        // Three digits; both bounds are valid.
        Self(Histogram::new_with_max(LONGEST, 3).expect("bounds of a histogram"))
    }

    pub(crate) fn record(&mut self, duration: Duration) {
        self.0.saturating_record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// Minimum, mean, standard deviation, median and maximum in microseconds; zeros if there are no values.
    pub(crate) fn figures(&self) -> [f64; 5] {
        if self.0.is_empty() {
            return [0.0; 5];
        }
        let all = &self.0;
        [all.min() as f64, all.mean(), all.stdev(), all.value_at_quantile(0.5) as f64, all.max() as f64]
    }

    /// The value in milliseconds that `share` (0 to 1) of them do not exceed.
    pub(crate) fn milliseconds(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1000.0
    }
}
