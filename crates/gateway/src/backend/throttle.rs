//! What holds back the starts of a pool's backends: its score, and failures in a row. Pure. Times count from some fixed
//! moment.

use std::time::Duration;

use super::class::Score;

/// The pause after a backend that ended before it served anything: at first, and at most.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// After this many failures in a row, requests do not wait for the next attempt.
const GIVE_UP_AFTER: u32 = 3;

/// The score of a pool ([`Score`]) at its last change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScoreState {
    points: u64,
    at: Duration,
}

impl ScoreState {
    /// The points now: they fall with time.
    pub(super) fn points_at(self, now: Duration, score: Score) -> u64 {
        self.points.saturating_sub(now.saturating_sub(self.at).as_secs().saturating_mul(score.second))
    }

    pub(super) fn add(&mut self, points: u64, now: Duration, score: Score) {
        *self = ScoreState { points: self.points_at(now, score) + points, at: now };
    }

    /// When the points are below the limit.
    pub(super) fn allows_start_at(self, score: Score) -> Duration {
        if self.points < score.limit {
            return Duration::ZERO;
        }
        self.at + Duration::from_secs((self.points - score.limit + 1).div_ceil(score.second.max(1)))
    }
}

/// Backends in a row that ended before they served anything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    count: u32,
    last: Duration,
}

impl Failures {
    pub(super) fn add(&mut self, now: Duration) {
        *self = Failures { count: self.count + 1, last: now };
    }

    /// Whether requests should not wait for the next attempt.
    pub(super) fn are_hopeless(self) -> bool {
        self.count >= GIVE_UP_AFTER
    }

    /// When the pause after the last failure is over.
    pub(super) fn allow_start_at(self) -> Duration {
        match self.count {
            0 => Duration::ZERO,
            count => self.last + BACK_OFF.saturating_mul(1 << (count - 1).min(16)).min(BACK_OFF_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);
    const SCORE: Score = Score { start: 1, end: 2, second: 2, limit: 10 };

    #[test]
    fn the_score_falls_with_time() {
        let mut state = ScoreState::default();
        state.add(10, NOW, SCORE);
        let later = NOW + Duration::from_secs(3);
        assert_eq!([state.points_at(NOW, SCORE), state.points_at(later, SCORE)], [10, 4]);
        assert_eq!(state.allows_start_at(SCORE), NOW + Duration::from_secs(1));
        state.add(5, later, SCORE);
        assert_eq!((state.points_at(later, SCORE), state.allows_start_at(SCORE)), (9, Duration::ZERO));
    }

    #[test]
    fn the_pause_doubles_up_to_a_limit() {
        let mut failures = Failures::default();
        assert_eq!(failures.allow_start_at(), Duration::ZERO);
        let mut fail = |times: u32| {
            (0..times).for_each(|_| failures.add(NOW));
            (failures.are_hopeless(), failures.allow_start_at() - NOW)
        };
        assert_eq!(fail(1), (false, Duration::from_millis(100)));
        assert_eq!(fail(2), (true, Duration::from_millis(400)));
        assert_eq!(fail(57), (true, BACK_OFF_MAX), "however often it has failed");
    }
}
