//! The buckets in which the durations of requests are counted.

/// The bounds between which the durations of requests are counted, in µs; one more bucket is for everything longer.
pub const BOUNDS: [u64; 19] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000, 20_000_000, 50_000_000,
];
/// The number of duration buckets.
pub const BUCKETS: usize = BOUNDS.len() + 1;
