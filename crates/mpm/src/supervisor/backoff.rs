//! Delays new children when they die as soon as they start.

use std::time::Duration;

/// A child that lived for less than this died young.
const YOUNG: Duration = Duration::from_secs(1);
/// The longest pause between two attempts to start a child.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// After this long without a young death, the next one counts as the first again.
const FORGET: Duration = Duration::from_secs(60);

/// Decides when the next child may be started. The first young death delays nothing; from the second on the pause is 1,
/// 2, 4 … 30 seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    deaths: u32,
    last: Duration,
    until: Duration,
    /// The system had no room for a child: the next start shows whether it has room again.
    careful: bool,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { deaths: 0, last: Duration::ZERO, until: Duration::ZERO, careful: false }
    }

    /// The time from which children may be started, on the monotonic clock.
    pub(super) fn until(&self) -> Duration {
        self.until
    }

    /// A child born at `born` has failed. Returns the length of the pause, if one begins now; children that die during
    /// a pause were started before it and bring no news.
    pub(super) fn died(&mut self, born: Duration, now: Duration) -> Option<Duration> {
        if now.saturating_sub(born) >= YOUNG {
            self.deaths = 0;
            return None;
        }
        if now < self.until {
            return None;
        }
        if now.saturating_sub(self.last) > FORGET {
            self.deaths = 0;
        }
        self.last = now;
        self.deaths += 1;
        if self.deaths == 1 {
            return None;
        }
        let delay = Duration::from_secs(1 << (self.deaths - 2).min(5)).min(DELAY_MAX);
        self.until = now + delay;
        Some(delay)
    }

    /// Starts no child for a while, for a reason that is not a child's fault.
    pub(super) fn hold(&mut self, now: Duration, pause: Duration) {
        self.until = self.until.max(now + pause);
    }

    /// The system had no room for a child: one child may start after `pause`, and all others a pause later.
    pub(super) fn shortage(&mut self, now: Duration, pause: Duration) {
        self.hold(now, pause);
        self.careful = true;
    }

    /// A child was started.
    pub(super) fn started(&mut self, now: Duration, pause: Duration) {
        if std::mem::take(&mut self.careful) {
            self.hold(now, pause);
        }
    }

    /// A child could not even be forked: counts as an immediate death, but without a first free one.
    pub(super) fn failed(&mut self, now: Duration) {
        self.deaths = self.deaths.max(1);
        self.died(now, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_children_die_young() {
        let s = Duration::from_secs;
        let mut backoff = Backoff::new();
        let mut now = s(100);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = backoff.died(now, now);
            assert_eq!(
                backoff.died(now, now + Duration::from_millis(1)).is_some(),
                pause.is_none() && pauses.is_empty()
            );
            pauses.push(pause.map_or(0, |pause| pause.as_secs()));
            now = backoff.until().max(now);
        }
        assert_eq!(pauses, [0, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(backoff.died(now - s(5), now), None, "it lived long enough");
        assert_eq!(backoff.died(now, now), None, "the first again");
        assert_eq!(backoff.died(now, now), Some(s(1)));
        let later = now + s(100);
        assert_eq!(backoff.died(later, later), None, "long ago is forgotten");
        backoff.failed(later);
        assert_eq!(backoff.until(), later + s(1));

        let mut backoff = Backoff::new();
        backoff.started(now, s(1));
        assert_eq!(backoff.until(), Duration::ZERO);
        backoff.shortage(now, s(1));
        assert_eq!(backoff.until(), now + s(1));
        backoff.started(now + s(1), s(1));
        assert_eq!(backoff.until(), now + s(2), "one first");
        backoff.started(now + s(2), s(1));
        assert_eq!(backoff.until(), now + s(2), "then all");
    }
}
