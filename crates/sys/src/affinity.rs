//! Processors.

use std::sync::OnceLock;

/// How many processors this process may use (its affinity mask), at least 1.
pub fn cpus() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| (set.count() as usize).max(1))
}

/// The time of how many processors this process may use, at least 1: like [`cpus`], and no more than the quota of its
/// control group. Determined once, as that reads files.
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
