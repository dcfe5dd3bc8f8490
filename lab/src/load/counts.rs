//! Histograms in messages between processes: the values that occurred and how often, which is all a histogram contains.

use hdrhistogram::{Counter, Histogram};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// The longest time that is distinguished from longer ones, in microseconds: more than any time limit.
pub(super) const LONGEST: u64 = 3_600_000_000;

pub(super) fn serialize<C, S>(all: &Histogram<C>, to: S) -> Result<S::Ok, S::Error>
where
    C: Counter + serde::Serialize,
    S: Serializer,
{
    to.collect_seq(all.iter_recorded().map(|one| (one.value_iterated_to(), one.count_at_value())))
}

/// Fills an empty one.
pub(super) fn fill<'de, C, D>(mut all: Histogram<C>, from: D) -> Result<Histogram<C>, D::Error>
where
    C: Counter + Deserialize<'de>,
    D: Deserializer<'de>,
{
    for (value, count) in Vec::<(u64, C)>::deserialize(from)? {
        all.record_n(value, count).map_err(D::Error::custom)?;
    }
    Ok(all)
}
