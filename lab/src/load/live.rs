//! A load's report while it runs. Threads hand over each second when it is past, and never wait for a reader.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::timeline::{Interval, QUARTER, Quarters, Timeline};

/// How many of the last seconds are kept separately.
const RECENT: u64 = 120;

/// How long after a second all threads have handed it over: each looks ten times a second.
const LATE: Duration = Duration::from_millis(250);

/// The shared state of working threads and their watcher.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Responses so far.
    pub(crate) responses: AtomicU64,
    /// Failures so far.
    pub(crate) failures: AtomicU64,
    /// Set when the load should stop.
    stop: AtomicBool,
    start: OnceLock<Instant>,
    progress: Mutex<Progress>,
}

/// The seconds that were handed over.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// All of them combined.
    pub(crate) whole: Interval,
    /// All of them, in order.
    pub(crate) timeline: Timeline,
    /// The quarters of the last [`RECENT`] of them, by number.
    recent: BTreeMap<u64, Interval>,
}

impl Live {
    /// One in which everything counts from this moment on.
    pub(super) fn since(start: Instant) -> Self {
        Self { start: OnceLock::from(start), ..Self::default() }
    }

    /// Stops the load.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether the load should stop.
    pub(super) fn is_enough(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// The moment from which everything counts: that of the first call.
    pub(super) fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    /// How long it has been running.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start().elapsed()
    }

    /// The number of the last second, from 0, that all threads have reported; `None` in the first one.
    pub(crate) fn last_second(&self) -> Option<u64> {
        self.elapsed().checked_sub(LATE)?.as_secs().checked_sub(1)
    }

    /// The progress so far. Hold it briefly: a thread that finds it locked reports its second a tenth of a second
    /// later.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a thread's report, unless a reader holds the lock.
    pub(super) fn publish(&self, quarters: &mut Quarters) {
        match self.progress.try_lock() {
            Ok(mut progress) => progress.take(quarters),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(quarters),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

impl Progress {
    /// The results of a second; `None` if there are none, or it is too long ago.
    pub(crate) fn second(&self, number: u64) -> Option<Interval> {
        self.recent.range(number * 4..number * 4 + 4).map(|(_, quarter)| quarter.clone()).reduce(|mut one, other| {
            one.add(&other);
            one
        })
    }

    /// Takes out the last seconds, for another process.
    pub(super) fn hand_on(&mut self) -> Quarters {
        std::mem::take(&mut self.recent).into_iter().collect()
    }

    /// Takes a thread's report.
    pub(super) fn take(&mut self, quarters: &mut Quarters) {
        for (quarter, interval) in quarters.take() {
            self.whole.add(&interval);
            self.timeline.at(QUARTER * quarter as u32).add(&interval);
            self.recent.entry(quarter).or_default().add(&interval);
        }
        let last = self.recent.last_key_value().map_or(0, |(quarter, _)| quarter / 4);
        while self.recent.first_key_value().is_some_and(|(quarter, _)| quarter / 4 + RECENT <= last) {
            self.recent.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_tell_of_the_same_seconds_and_wait_for_nobody() {
        let live = Live::default();
        let (mut one, mut other) = (Quarters::default(), Quarters::default());
        for second in 0..200 {
            one.at(Duration::from_secs(second)).responses += 1;
            other.at(Duration::from_secs(second)).responses += 2;
        }
        let reader = live.progress();
        live.publish(&mut one);
        assert!(one.is_due(Duration::from_secs(200)), "it keeps what nobody could take");
        drop(reader);
        live.publish(&mut one);
        live.publish(&mut other);
        let progress = live.progress();
        assert_eq!(progress.whole.responses, 600);
        assert_eq!((progress.timeline.length, progress.timeline.intervals.len()), (Duration::from_millis(500), 399));
        assert_eq!(progress.second(199).map(|second| second.responses), Some(3));
        assert!(progress.second(79).is_none() && progress.second(80).is_some(), "only the last ones are kept");
    }
}
