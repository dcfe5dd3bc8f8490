//! The schedule of a load. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::plan::{Arrival, Pace, Share};
use crate::load::distribution::Distribution;

/// Moments at the intervals of a pace.
#[derive(Debug)]
pub(super) struct Schedule {
    pace: Pace,
    start: Instant,
    taken: u64,
    count: Option<u64>,
    /// For varying intervals: the next moment, and the state of the random numbers.
    next: Instant,
    random: Random,
}

/// Random numbers (Marsaglia's xorshift64*).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to below 1.
    pub(super) fn next(&mut self) -> f64 {
        self.0 |= 1;
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time between these two.
    pub(super) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.next())
    }
}

impl Schedule {
    /// Makes `count` moments, the first being `start`; `seed` determines the random intervals.
    fn new(pace: Pace, start: Instant, count: Option<u64>, seed: u64) -> Self {
        Self { pace, start, taken: 0, count, next: start, random: Random::new(seed) }
    }

    /// The schedule of a thread of an open loop, or how much a thread of a closed one begins.
    pub(super) fn of(share: &Share<'_>, start: Instant) -> (Option<Self>, Option<u64>) {
        match share.arrival {
            Arrival::Closed => (None, share.count),
            Arrival::Requests(pace) | Arrival::Connections(pace) => {
                let first = start.checked_add(share.delay).unwrap_or(start);
                (Some(Self::new(pace, first, share.count, share.seed())), None)
            }
        }
    }

    /// Whether moments come by themselves; otherwise any client with room makes them.
    fn is_paced(&self) -> bool {
        self.pace != Pace::Constant(Duration::ZERO)
    }

    /// The next moment, if there is one.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.count.is_some_and(|count| self.taken >= count) {
            return None;
        }
        match self.pace {
            // Counted from the start, not from each other, so that rounding errors do not add up.
            Pace::Constant(distance) => {
                let nanoseconds = distance.as_nanos().saturating_mul(self.taken.into());
                Some(self.start + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
            }
            _ => Some(self.next),
        }
    }

    /// Takes the next moment if it has come by `now`.
    fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next().filter(|due| *due <= now)?;
        self.taken += 1;
        self.next = due
            + match self.pace {
                Pace::Constant(distance) => distance,
                Pace::Uniform(least, most) => self.random.between(least, most),
                // The inverse of the distribution function (`1 - chance` is never 0).
                Pace::Exponential(mean) => mean.mul_f64(-(1.0 - self.random.next()).ln()),
            };
        Some(due)
    }

    /// Puts the moments that have come by `now` into `waiting`, and how late they are taken into `lag`. Moments that any
    /// client makes come only while there is `room`.
    pub(super) fn queue(&mut self, now: Instant, room: usize, waiting: &mut VecDeque<Instant>, lag: &mut Distribution) {
        while (self.is_paced() || waiting.len() < room)
            && let Some(due) = self.take(now)
        {
            lag.record(now - due);
            waiting.push_back(if self.is_paced() { due } else { now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(pace: Pace, count: u64) -> Vec<Duration> {
        let start = Instant::now();
        let mut schedule = Schedule::new(pace, start, Some(count), 7);
        let late = start + Duration::from_secs(3600);
        std::iter::from_fn(|| schedule.take(late)).map(|due| due - start).collect()
    }

    #[test]
    fn moments_come_at_equal_distances_until_the_end() {
        let all = moments(Pace::per_second(3.0), 6);
        assert_eq!(all.iter().map(Duration::as_millis).collect::<Vec<_>>(), [0, 333, 666, 999, 1333, 1666]);
        let start = Instant::now();
        let mut schedule = Schedule::new(Pace::per_second(3.0), start, None, 1);
        assert_eq!(schedule.take(start), Some(start));
        assert_eq!(schedule.take(start + Duration::from_millis(333)), None);
        assert_eq!(schedule.next(), Some(start + Duration::from_nanos(333_333_333)));
    }

    #[test]
    fn chance_keeps_to_its_distribution() {
        let mean = |pace| moments(pace, 20_001).last().unwrap().as_secs_f64() / 20_000.0;
        let (least, most) = (Duration::from_millis(10), Duration::from_millis(30));
        assert!((mean(Pace::Uniform(least, most)) - 0.02).abs() < 0.0005);
        assert!((mean(Pace::Exponential(least)) - 0.01).abs() < 0.0005);
        let all = moments(Pace::Uniform(least, most), 1000);
        assert!(all.windows(2).all(|pair| (least..=most).contains(&(pair[1] - pair[0]))));
    }
}
