//! When requests are due: at equal distances, from the start to the end. Pure.

use std::time::{Duration, Instant};

/// A constant rate for some seconds.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Instant,
    per_second: u64,
    taken: u64,
    all: u64,
}

impl Schedule {
    /// `per_second` requests a second for so many seconds; the first is due at `start`.
    pub(super) fn new(start: Instant, per_second: u32, seconds: u32) -> Self {
        let per_second = u64::from(per_second);
        Self { start, per_second, taken: 0, all: per_second * u64::from(seconds) }
    }

    /// Takes the next request if it is due by `now`: the moment at which it was due. Moments are counted from the start,
    /// not from each other, so that no rounding adds up.
    pub(super) fn next(&mut self, now: Instant) -> Option<Instant> {
        let due = self.start + Duration::from_nanos(self.taken * 1_000_000_000 / self.per_second);
        if self.is_over() || due > now {
            return None;
        }
        self.taken += 1;
        Some(due)
    }

    /// Whether every request has been taken.
    pub(super) fn is_over(&self) -> bool {
        self.taken == self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_equal_distances_until_the_end() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 3, 2);
        assert_eq!(schedule.next(start), Some(start));
        assert_eq!(schedule.next(start + Duration::from_millis(333)), None);
        let late = start + Duration::from_secs(60);
        let rest: Vec<u128> = std::iter::from_fn(|| schedule.next(late)).map(|due| (due - start).as_millis()).collect();
        assert_eq!(rest, [333, 666, 1000, 1333, 1666]);
        assert!(schedule.is_over());
    }
}
