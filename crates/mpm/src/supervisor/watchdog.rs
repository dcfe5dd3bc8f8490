//! Looks whether workers make progress, and says so where none does. What each of them waits for the binary knows better
//! ([`Hooks::stalled`](crate::Hooks)).

use std::collections::BTreeMap;
use std::time::Duration;

use sys::process::Pid;
use sys::signal::Signal;
use sys::time::realtime;

use super::Supervisor;
use crate::limits::explain::Kind;
use crate::settings::MpmSettings;

/// After so long without any progress something is wrong, where `StallTimeout` does not say otherwise.
const STALL: i64 = 30;
/// How long a child may take to answer whether it is there.
const ANSWER: Duration = Duration::from_secs(5);

/// A child, or all of them where each is one worker, that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The child; `None`: all of them.
    pub child: Option<(usize, Pid)>,
    /// For how long.
    pub since: Duration,
    /// Its event loop does not go on; otherwise all its workers are busy, each with one request.
    pub deaf: bool,
}

/// What is known of the children so far.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    children: BTreeMap<usize, Watched>,
    /// Of all together.
    all: Watched,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    pid: Option<Pid>,
    /// When it was asked last whether it is there, in µs since 1970, and whether it was said that it does not answer.
    asked: u64,
    told_deaf: bool,
    /// It was said that its workers make no progress.
    told: bool,
}

/// Of the workers of a child, or of all children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    idle: usize,
    /// When any of them began or ended a request, in µs since 1970; `None`: none is busy.
    progress: Option<u64>,
}

impl Look {
    /// For how long no worker made progress, though all are busy.
    fn stalled(self, now: u64, after: Duration) -> Option<Duration> {
        let since = Duration::from_micros(now.saturating_sub(self.progress?));
        (self.idle == 0 && since >= after).then_some(since)
    }

    fn join(self, other: Look) -> Look {
        Look { idle: self.idle + other.idle, progress: self.progress.max(other.progress) }
    }
}

impl Watched {
    /// Whether a stall is news.
    fn is_news(&mut self, stalled: bool) -> bool {
        !std::mem::replace(&mut self.told, stalled) && stalled
    }
}

impl Supervisor<'_> {
    /// Once a second.
    pub(super) fn watch(&mut self) {
        let seconds = self.generation.settings.get::<MpmSettings>().stall_timeout.or(STALL);
        let after = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        if after.is_zero() {
            return;
        }
        let now = u64::try_from(realtime().as_micros()).unwrap_or(u64::MAX);
        let children: Vec<(usize, Pid)> = self.family.iter().map(|member| (member.slot, member.pid)).collect();
        let alone = self.generation.mpm.0.kind == Kind::Processes;
        let mut stalls = Vec::new();
        let mut all = Look::default();
        self.watchdog
            .children
            .retain(|slot, watched| children.iter().any(|child| Some(child.1) == watched.pid && child.0 == *slot));
        for (slot, pid) in children {
            let look = Look { idle: self.board.idle_workers(slot), progress: self.board.progress(slot) };
            all = all.join(look);
            if alone {
                continue;
            }
            let heard = self.board.heard(slot);
            let watched =
                self.watchdog.children.entry(slot).or_insert(Watched { pid: Some(pid), ..Watched::default() });
            let stalled = look.stalled(now, after);
            if watched.is_news(stalled.is_some()) {
                stalls.push(Stall { child: Some((slot, pid)), since: stalled.unwrap_or_default(), deaf: false });
            }
            stalls.extend(watched.listen(slot, now, heard, after, self.board.is_running(slot)));
        }
        let stalled = all.stalled(now, after).filter(|_| alone);
        if self.watchdog.all.is_news(stalled.is_some()) {
            stalls.push(Stall { child: None, since: stalled.unwrap_or_default(), deaf: false });
        }
        stalls.iter().for_each(|stall| self.hooks.stalled(stall));
    }
}

impl Watched {
    /// Asks whether the child is there, from time to time, and finds out whether it has answered.
    fn listen(&mut self, slot: usize, now: u64, heard: u64, after: Duration, running: bool) -> Option<Stall> {
        let pid = self.pid.filter(|_| running)?;
        let waited = Duration::from_micros(now.saturating_sub(self.asked));
        if self.asked == 0 || heard >= self.asked {
            self.told_deaf = false;
            if waited >= after {
                self.asked = now;
                let _ = pid.kill(Signal::URG);
            }
            return None;
        }
        if waited < after.min(ANSWER) || std::mem::replace(&mut self.told_deaf, true) {
            return None;
        }
        Some(Stall { child: Some((slot, pid)), since: waited, deaf: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_busy_and_nothing_happens() {
        let after = Duration::from_secs(3);
        let second = 1_000_000;
        for (idle, progress, want) in
            [(0, Some(7), Some(3)), (0, Some(8), None), (1, Some(1), None), (0, None, None), (0, Some(1), Some(9))]
        {
            let look = Look { idle, progress: progress.map(|at| at * second) };
            assert_eq!(look.stalled(10 * second, after), want.map(Duration::from_secs), "{look:?}");
        }
    }

    #[test]
    fn told_once_until_it_goes_on() {
        let mut watched = Watched::default();
        let told: Vec<bool> =
            [false, true, true, false, true].into_iter().map(|stalled| watched.is_news(stalled)).collect();
        assert_eq!(told, [false, true, false, false, true]);
    }
}
