//! What clients saw over time, as rates: for plots and for stored results.

use serde::{Deserialize, Serialize};

/// The clients' view of one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// Its end, in seconds since the measurement began.
    pub(crate) until: f64,
    /// Responses per second.
    #[serde(rename = "answers")]
    pub(crate) responses: f64,
    /// Failures per second.
    pub(crate) failures: f64,
    /// The latency that half of the responses had at most, in microseconds.
    pub(crate) p50_us: u64,
    /// The latency that 99 of 100 responses had at most, in microseconds.
    pub(crate) p99_us: u64,
}
