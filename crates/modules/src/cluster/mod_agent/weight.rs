//! How much work a server can take, from how busy it is: pure functions.
//!
//! `tsubame-lab simulate` plays the same law (lab/src/simulate/weight.rs); tests hold both to `weights.txt`.

use std::time::Duration;

/// How busy a server is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// The share of the scripts' memory that is free, from 0 to 1; 1 where nothing limits scripts.
    pub(super) memory: f64,
    /// How many scripts run.
    pub(super) running: u64,
    /// How many requests wait for their script.
    pub(super) waiting: u64,
    /// The share of the workers that have nothing to do, from 0 to 1; 1 where requests need no worker.
    pub(super) workers: f64,
    /// The share of the last ten seconds during which some process waited for a processor, from 0 to 1.
    pub(super) processors: f64,
}

/// What is left without a queue where nothing is free: so the queues decide among servers that are all full.
const LEAST: f64 = 0.1;

/// How slowly the weight follows: a balancer asks once a second, and many scripts end meanwhile. A weight that followed at once would
/// send all work to the server that was idle a moment ago, and then none. Simulated, a second is too little for equal servers at 90 %
/// load, and with eight a small server has a long queue before its weight is low.
const SLOWNESS: Duration = Duration::from_secs(4);

/// A new weight is worth telling if it differs by this part of the last one.
const STEP: u8 = 20;

/// The part of the work of an idle server that should come here, from 0 to 1.
///
/// The scarcest of memory, workers and processors counts; a queue of scripts takes off its own part. Waiting for a processor takes
/// off half at most: a machine whose processors are never idle still does its work.
pub(super) fn share(load: Load) -> f64 {
    let scarcest = load.memory.min(load.workers).min(1.0 - load.processors / 2.0);
    let queue = match load.waiting {
        0 => 1.0,
        waiting => load.running as f64 / (load.running + waiting) as f64,
    };
    (LEAST + (1.0 - LEAST) * scarcest) * queue
}

/// What balancers are told: a weight that follows the share slowly and in steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    smooth: f64,
    /// In percent of what an idle server gets: 1 to 100.
    pub(super) percent: u8,
}

impl Weight {
    /// The first weight, which has nothing to follow.
    pub(super) fn first(share: f64) -> Self {
        Self { smooth: share, percent: percent(share) }
    }

    /// The next weight, so long after this one.
    pub(super) fn next(self, share: f64, elapsed: Duration) -> Self {
        let freshness = elapsed.as_secs_f64() / (elapsed + SLOWNESS).as_secs_f64();
        let smooth = self.smooth + (share - self.smooth) * freshness;
        let percent = percent(smooth);
        let is_worth_telling =
            percent.abs_diff(self.percent) >= self.percent.div_ceil(STEP) || matches!(percent, 1 | 100);
        Self { smooth, percent: if is_worth_telling { percent } else { self.percent } }
    }
}

fn percent(share: f64) -> u8 {
    (100.0 * share).round().clamp(1.0, 100.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Load = Load { memory: 1.0, running: 0, waiting: 0, workers: 1.0, processors: 0.0 };

    #[test]
    fn the_scarcest_counts() {
        for (load, expected) in [
            (IDLE, 100),
            (Load { memory: 0.4, workers: 0.6, ..IDLE }, 46),
            (Load { memory: 0.6, workers: 0.3, ..IDLE }, 37),
            (Load { processors: 1.0, ..IDLE }, 55),
            (Load { memory: 0.5, running: 5, waiting: 15, ..IDLE }, 14),
            (Load { memory: 0.0, running: 5, ..IDLE }, 10),
            (Load { memory: 0.0, running: 5, waiting: 5, ..IDLE }, 5),
            (Load { waiting: 3, ..IDLE }, 1),
        ] {
            assert_eq!(Weight::first(share(load)).percent, expected, "{load:?}");
        }
    }

    #[test]
    fn the_weight_does_not_depend_on_how_often_balancers_ask() {
        let after = |seconds: u32, times: u32| {
            let each = Duration::from_secs(seconds.into()) / times;
            (0..times).fold(Weight::first(1.0), |weight, _| weight.next(0.0, each)).smooth
        };
        assert!((after(4, 4) - after(4, 40)).abs() < 0.05, "{} {}", after(4, 4), after(4, 40));
        assert!(after(3600, 1) < 0.01, "nobody asked for an hour");
    }

    /// A second for each line.
    #[test]
    fn weights_are_those_of_the_simulation() {
        let mut before: Option<Weight> = None;
        for line in include_str!("weights.txt").lines().filter(|line| !line.starts_with('#')) {
            let numbers: Vec<f64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
            let [memory, running, waiting, workers, processors, expected] = numbers[..] else { panic!("{line}") };
            let load = Load { memory, running: running as u64, waiting: waiting as u64, workers, processors };
            let weight = before
                .map_or_else(|| Weight::first(share(load)), |before| before.next(share(load), Duration::from_secs(1)));
            assert_eq!(f64::from(weight.percent), expected, "{line}");
            before = Some(weight);
        }
    }
}
