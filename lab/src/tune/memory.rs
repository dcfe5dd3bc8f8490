//! The memory limit on candidates. Arithmetic only.

use serde::Serialize;

use super::space::Candidate;
use crate::tune::advise::memory::{AvailableMemory, UsedMemory};

/// The available memory, and the needs of children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Memory {
    /// The memory for server and scripts, in KiB.
    pub(super) usable_kib: u64,
    /// Proportional memory of a child under load, and its number of threads.
    pub(super) child_kib: u64,
    pub(super) threads: u64,
    /// The memory of a busy worker's scripts.
    pub(super) script_kib: u64,
}

impl Memory {
    /// From measurements of children with `threads` threads each, under the load of so many clients.
    pub(super) fn of(room: AvailableMemory, used: UsedMemory, threads: u64, clients: u64) -> Self {
        let count = used.count.max(1);
        let threads = threads.max(1);
        Self {
            usable_kib: room.usable(used.children + used.scripts),
            child_kib: used.children.div_ceil(count).max(1),
            threads,
            script_kib: used.scripts.div_ceil((count * threads).min(clients).max(1)),
        }
    }

    /// The need of some settings, in KiB. A child with fewer threads is not assumed to be smaller, one with more is
    /// assumed to grow with them.
    pub(super) fn need(self, candidate: Candidate, clients: u64) -> u64 {
        let Candidate { children, threads, .. } = candidate;
        let child = self.child_kib * threads.max(self.threads).div_ceil(self.threads);
        children * child + (children * threads).min(clients) * self.script_kib
    }

    /// How many workers in such children fit.
    pub(super) fn bound(self, threads: u64) -> u64 {
        let threads = threads.max(1);
        let child = self.child_kib * threads.max(self.threads).div_ceil(self.threads) + threads * self.script_kib;
        self.usable_kib / child * threads
    }

    /// Candidates that fit, and candidates that could make the machine swap.
    pub(super) fn divide(self, all: Vec<Candidate>, clients: u64) -> (Vec<Candidate>, Vec<Candidate>) {
        all.into_iter().partition(|candidate| self.need(*candidate, clients) <= self.usable_kib)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::space::Mpm;

    fn event(children: u64, threads: u64, factor: Option<u64>) -> Candidate {
        Candidate { mpm: Mpm::Event, children, threads, factor }
    }

    #[test]
    fn nothing_is_tried_that_could_swap() {
        let room = AvailableMemory { all: 1_000_000, left: 500_000, is_group: false };
        let used = UsedMemory { children: 40_000, count: 4, scripts: 0 };
        let memory = Memory::of(room, used, 25, 100);
        assert_eq!((memory.usable_kib, memory.child_kib, memory.bound(25)), (440_000, 10_000, 44 * 25));
        // Half as many threads do not reliably save anything; twice as many may need twice as much.
        let cases = [
            (event(44, 1, None), true),
            (event(45, 1, None), false),
            (event(22, 50, None), true),
            (event(22, 51, None), false),
        ];
        for (candidate, fits) in cases {
            assert_eq!(memory.divide(vec![candidate], 100).0.len() == 1, fits, "{candidate}");
        }
        let scripts = Memory::of(room, UsedMemory { scripts: 100_000, ..used }, 25, 10);
        assert_eq!((scripts.script_kib, scripts.usable_kib), (10_000, 540_000));
        assert!(scripts.need(event(1, 25, None), 100) > scripts.need(event(1, 25, None), 10));
    }
}
