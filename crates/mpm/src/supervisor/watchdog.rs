//! Checks whether workers make progress, and reports those that do not. The binary knows better what each of them waits
//! for ([`ParentCallbacks::stalled`](crate::ParentCallbacks)).

use std::collections::HashMap;
use std::time::Duration;

use runtime::scoreboard::Board;
use sys::process::Pid;
use sys::signal::Signal;
use sys::time::monotonic;

use super::family::Family;
use crate::callbacks::Stall;

/// How long a child may take to answer that it is there.
const ANSWER: Duration = Duration::from_secs(5);

/// What the parent knows of the children. Times are on the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    children: HashMap<(usize, Pid), Watched>,
    /// For all children together.
    all: Watched,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    /// The last picture of the workers, and how long it has not changed.
    observation: Observation,
    since: Duration,
    /// Already reported as stalled.
    told: bool,
    /// When the child was last asked whether it is there, and whether its silence was reported.
    asked: Option<Duration>,
    told_deaf: bool,
}

/// A picture of the workers of a child, or of all children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Observation {
    idle: usize,
    /// Changes with everything that any of them does; `None`: none is busy.
    mark: Option<u64>,
}

impl Observation {
    fn join(self, other: Observation) -> Observation {
        let mark = match (self.mark, other.mark) {
            (Some(one), Some(other)) => Some(one.wrapping_mul(31).wrapping_add(other)),
            (one, other) => one.or(other),
        };
        Observation { idle: self.idle + other.idle, mark }
    }
}

impl Watched {
    /// Takes a new picture. Returns how long nothing has happened though all are busy, if that is news.
    fn observe(&mut self, observation: Observation, now: Duration, after: Duration) -> Option<Duration> {
        if observation != self.observation {
            (self.observation, self.since) = (observation, now);
        }
        let quiet = now.saturating_sub(self.since);
        let stalled = observation.idle == 0 && observation.mark.is_some() && quiet >= after;
        let news = stalled && !self.told;
        self.told = stalled;
        news.then_some(quiet)
    }

    /// Finds out whether the child has answered, and asks again from time to time (`ask`). Returns how long it has not
    /// answered, if that is too long and news.
    fn listen(
        &mut self,
        answered_at: Duration,
        now: Duration,
        after: Duration,
        ask: impl FnOnce(),
    ) -> Option<Duration> {
        let asked = self.asked.unwrap_or_default();
        let waited = now.saturating_sub(asked);
        if self.asked.is_none() || answered_at >= asked {
            self.told_deaf = false;
            if waited >= after {
                self.asked = Some(now);
                ask();
            }
            return None;
        }
        let news = waited >= after.min(ANSWER) && !self.told_deaf;
        self.told_deaf |= news;
        news.then_some(waited)
    }
}

impl Watchdog {
    /// Called once a second. Returns those that have made no progress for as long as `after`, and were not reported
    /// yet; with `alone` each child is one worker, and all of them are looked at together.
    pub(super) fn observe(&mut self, board: &Board, family: &Family, alone: bool, after: Duration) -> Vec<Stall> {
        let now = monotonic();
        let children: Vec<(usize, Pid)> = family.iter().map(|member| (member.slot, member.pid)).collect();
        let mut stalls = Vec::new();
        let mut all = Observation::default();
        self.children.retain(|child, _| children.contains(child));
        for child @ (slot, pid) in children {
            let observation = Observation { idle: board.free_workers(slot), mark: board.mark(slot) };
            all = all.join(observation);
            if alone || !board.is_running(slot) {
                continue;
            }
            let answered_at = board.answered_at(slot);
            let watched = self.children.entry(child).or_default();
            let quiet = watched.observe(observation, now, after).map(|since| (since, false));
            let unresponsive =
                watched.listen(answered_at, now, after, || drop(pid.kill(Signal::URG))).map(|since| (since, true));
            let stall = |(since, is_unresponsive)| Stall { child: Some(child), since, is_unresponsive };
            stalls.extend(quiet.into_iter().chain(unresponsive).map(stall));
        }
        if alone && let Some(since) = self.all.observe(all, now, after) {
            stalls.push(Stall { child: None, since, is_unresponsive: false });
        }
        stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(3);

    #[test]
    fn all_busy_and_nothing_happens() {
        let mut watched = Watched::default();
        let busy = |mark| Observation { idle: 0, mark: Some(mark) };
        let looks = [
            (busy(1), None),
            (busy(1), None),
            (busy(2), None),
            (busy(2), None),
            (busy(2), None),
            (busy(2), Some(3)),
            // Reported once, until something happens.
            (busy(2), None),
            (busy(3), None),
            (Observation { idle: 1, mark: Some(3) }, None),
            (Observation { idle: 1, mark: Some(3) }, None),
            (Observation { idle: 1, mark: Some(3) }, None),
            (Observation { idle: 1, mark: Some(3) }, None),
            (Observation { idle: 0, mark: None }, None),
        ];
        for (second, (observation, want)) in looks.into_iter().enumerate() {
            let now = Duration::from_secs(100 + second as u64);
            assert_eq!(watched.observe(observation, now, AFTER), want.map(Duration::from_secs), "second {second}");
        }
    }

    #[test]
    fn a_child_that_does_not_answer() {
        let mut watched = Watched::default();
        let mut asked = Vec::new();
        let mut told = Vec::new();
        let mut answered_at = Duration::ZERO;
        for second in 100..120 {
            let now = Duration::from_secs(second);
            told.extend(
                watched.listen(answered_at, now, AFTER, || asked.push(second)).map(|since| (second, since.as_secs())),
            );
            // The child answers until it was asked a third time, and again after a while.
            if asked.len() < 3 || second >= 112 {
                answered_at = now;
            }
        }
        assert_eq!((asked, told), (vec![100, 103, 106, 113, 116, 119], vec![(109, 3)]));
    }
}
