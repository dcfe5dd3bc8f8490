//! The search: the current settings and all candidates that fit into the memory, halved until few are left, then the
//! neighbours of the best.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;

use super::base::Base;
use super::halving::{Score, halve, rungs};
use super::memory::Memory;
use super::space::{Candidate, EffectiveSettings, neighbours};
use super::trial::{Goal, Measurement, Trials};
use crate::machine::error::Result;
use crate::machine::interrupt;
use crate::machine::stats::median;
use crate::screen::progress;

/// A candidate, and its results.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Evaluation {
    /// `None` for the current settings.
    pub(super) setting: Option<Candidate>,
    pub(super) comes_to: EffectiveSettings,
    /// Each twice as long as the one before, then those of the last comparison.
    pub(super) measurements: Vec<Measurement>,
    /// Why there are no more.
    pub(super) failure: Option<String>,
}

/// How often the neighbours of the best are measured, and how many times as long as at first.
const PASSES: usize = 2;
const PASS_TIMES: u32 = 4;

/// The most neighbours of the best.
const NEIGHBOURS: usize = 12;

/// A shorter measurement proves nothing, and a longer one proves no more.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(3);

/// A search in progress.
pub(super) struct Search<'b> {
    pub(super) trials: &'b Trials<'b>,
    pub(super) base: &'b Base,
    pub(super) goal: Goal,
    /// The fewest workers to try.
    pub(super) least: u64,
    pub(super) bar: ProgressBar,
    /// When to stop, even if the search is not complete.
    pub(super) deadline: Instant,
    /// The current settings first.
    pub(super) tried: Vec<Evaluation>,
}

/// How many measurements a search among so many candidates takes.
pub(super) fn steps(count: usize) -> usize {
    rungs(count).iter().map(|(left, _)| left).sum::<usize>() + PASSES * (NEIGHBOURS + 2)
}

/// The length of the shortest measurements if a search among `count` ends in time, and each has an `overhead`.
pub(super) fn shortest(count: usize, budget: Duration, overhead: Duration) -> Duration {
    let units: f64 = rungs(count).iter().map(|(left, times)| *left as f64 * f64::from(*times)).sum();
    let units = units + (PASSES * (NEIGHBOURS + 2)) as f64 * f64::from(PASS_TIMES);
    let rest = budget.as_secs_f64() - overhead.as_secs_f64() * steps(count) as f64;
    Duration::from_secs_f64((rest / units).max(0.0)).clamp(SHORTEST, LONGEST)
}

impl Search<'_> {
    /// Searches; `shortest` is the length of the first measurements. Returns the numbers of the candidates, the best
    /// first.
    pub(super) fn run(&mut self, shortest: Duration, memory: Option<Memory>, cores: u64) -> Vec<usize> {
        let clients = self.trials.load.clients();
        let mut ranking = halve(self.tried.len(), |at, times| self.take(at, shortest * times));
        let is_setting =
            |tried: &[Evaluation], at: usize| tried[at].setting.is_some() && !tried[at].measurements.is_empty();
        let Some(best) = ranking.iter().copied().find(|at| is_setting(&self.tried, *at)) else { return ranking };
        let known: Vec<Candidate> = self.tried.iter().filter_map(|tried| tried.setting).collect();
        let mut around = self.tried[best].setting.map_or(Vec::new(), |best| neighbours(best, &known, cores));
        around.retain(|candidate| memory.is_none_or(|memory| memory.need(*candidate, clients) <= memory.usable_kib));
        around.retain(|candidate| candidate.has_workers(self.least));
        around.truncate(NEIGHBOURS);
        let first = self.tried.len();
        self.tried.extend(around.into_iter().map(Evaluation::new));
        let mut last: Vec<usize> =
            ranking.iter().copied().take(2).chain([best]).chain(first..self.tried.len()).collect();
        last.sort_unstable();
        last.dedup();
        for _ in 0..PASSES {
            last.iter().try_for_each(|at| self.take(*at, shortest * PASS_TIMES).map(|_| ()));
            last.reverse();
        }
        let worth = |at: usize| self.tried[at].latest(self.goal);
        last.sort_by(|one, other| worth(*one).order(worth(*other)));
        ranking.retain(|at| !last.contains(at));
        last.extend(ranking);
        last
    }

    /// Measures one; `None` when the search is over.
    fn take(&mut self, at: usize, time: Duration) -> Option<Score> {
        if interrupt::is_asked() || Instant::now() > self.deadline {
            return None;
        }
        if self.tried[at].failure.is_none() {
            progress::announce(&self.bar, &format!("{}, {:.1} s", self.tried[at].name(), time.as_secs_f64()));
            let outcome = self.measure(at, time);
            // Half a measurement does not count.
            if interrupt::is_asked() {
                return None;
            }
            match outcome {
                Ok(measurement) => self.tried[at].measurements.push(measurement),
                Err(error) => self.tried[at].failure = Some(error.to_string()),
            }
        }
        self.bar.inc(1);
        let tried = &self.tried[at];
        Some(match (&tried.failure, tried.measurements.last()) {
            (None, Some(measurement)) => self.goal.worth(measurement),
            _ => Score::None,
        })
    }

    fn measure(&self, at: usize, time: Duration) -> Result<Measurement> {
        let Evaluation { setting, measurements, .. } = &self.tried[at];
        let file = self.base.write(*setting)?;
        if measurements.is_empty() {
            self.trials.starter.check(&file)?;
        }
        self.trials.measure(&file, time, |_| {})
    }
}

impl Evaluation {
    /// Without results yet.
    pub(super) fn new(candidate: Candidate) -> Self {
        Self { setting: Some(candidate), comes_to: candidate.extent(), measurements: Vec::new(), failure: None }
    }

    /// The current settings.
    pub(super) fn present(extent: EffectiveSettings) -> Self {
        Self { setting: None, comes_to: extent, measurements: Vec::new(), failure: None }
    }

    /// Whether it has been measured.
    pub(super) fn is_known(&self) -> bool {
        self.failure.is_some() || !self.measurements.is_empty()
    }

    /// Its name in lists.
    pub(super) fn name(&self) -> String {
        self.setting.map_or_else(|| "present settings".to_owned(), |setting| setting.to_string())
    }

    /// The measurements that count: those of the last passes, or the last one.
    fn counted(&self) -> &[Measurement] {
        let all = &self.measurements;
        let is_same =
            |one: &&Measurement| all.last().is_some_and(|last| (one.seconds / last.seconds - 1.0).abs() < 0.2);
        &all[all.len() - all.iter().rev().take(PASSES).take_while(is_same).count()..]
    }

    /// The figure that counts.
    pub(super) fn figure(&self, goal: Goal) -> Option<f64> {
        let figures: Option<Vec<f64>> = self.counted().iter().map(|one| goal.of(one)).collect();
        median(&figures?)
    }

    /// Whether something failed recently.
    pub(super) fn is_flawed(&self) -> bool {
        self.failure.is_some() || self.counted().iter().any(Measurement::is_flawed)
    }

    fn latest(&self, goal: Goal) -> Score {
        let sign = if goal.wants_more() { 1.0 } else { -1.0 };
        match (&self.failure, self.figure(goal)) {
            (None, Some(figure)) if self.is_flawed() => Score::Flawed(sign * figure),
            (None, Some(figure)) => Score::Good(sign * figure),
            _ => Score::None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A measurement for tests.
    pub(in super::super) fn measured(seconds: f64, per_second: f64, failures: u64) -> Measurement {
        Measurement {
            seconds,
            responses: (seconds * per_second) as u64,
            per_second,
            per_cpu_second: Some(per_second * 2.0),
            p50_ms: 1.0,
            p99_ms: 2.0,
            memory_mb: Some(9.0),
            failures,
            starved: 0,
            processes: 3,
        }
    }

    #[test]
    fn a_budget_is_divided_among_all_measurements() {
        let seconds = |budget| shortest(32, Duration::from_secs(budget), Duration::from_secs(1)).as_secs_f64();
        assert!((0.8..1.2).contains(&seconds(300)), "{}", seconds(300));
        assert_eq!(seconds(1), 0.2);
        assert_eq!(seconds(100_000), 3.0);
    }

    #[test]
    fn the_latest_measurements_count() {
        let mut tried =
            Evaluation::present(EffectiveSettings::of(super::super::space::Mpm::Event, &Default::default()));
        assert_eq!((tried.figure(Goal::Rate), tried.latest(Goal::Rate)), (None, Score::None));
        tried.measurements = vec![measured(1.0, 900.0, 7), measured(4.0, 100.0, 0), measured(4.0, 300.0, 0)];
        assert_eq!((tried.figure(Goal::Rate), tried.figure(Goal::Cpu)), (Some(200.0), Some(400.0)));
        assert_eq!(tried.latest(Goal::P99), Score::Good(-2.0));
        tried.measurements.push(measured(8.0, 50.0, 1));
        assert_eq!(tried.latest(Goal::Rate), Score::Flawed(50.0));
    }
}
