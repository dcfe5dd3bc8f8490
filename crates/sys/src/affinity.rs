//! Processors.

/// How many processors this process may use (its affinity mask), at least 1.
pub fn cpus() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| (set.count() as usize).max(1))
}
