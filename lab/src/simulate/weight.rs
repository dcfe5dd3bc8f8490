//! How much work a node asks for: the answers of `mod_agent`, once more.
//!
//! The laboratory shares no code with the server. So this is the server's law (crates/modules/src/cluster/mod_agent/weight.rs) written
//! again. Tests hold both to one table, `weights.txt` beside the server's: change the three together.

/// How busy a node is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// The share of the scripts' memory that is free, from 0 to 1.
    pub(super) memory: f64,
    /// How many scripts run.
    pub(super) running: u64,
    /// How many requests wait for their script.
    pub(super) waiting: u64,
    /// The share of the workers that have nothing to do, from 0 to 1; 1 where requests need no worker.
    pub(super) workers: f64,
    /// The share of the last ten seconds during which something waited for a processor, from 0 to 1.
    pub(super) processors: f64,
}

/// What is left of the weight where nothing is free, without a queue.
const LEAST: f64 = 0.1;

/// How much of a second's share enters the weight: one second of five.
const FRESH: f64 = 0.2;

/// The least change that a node tells: this part of the last weight.
const STEP: u8 = 20;

/// The part of the work of an idle node that this one should get, from 0 to 1.
pub(super) fn share(load: Load) -> f64 {
    let free = [load.memory, load.workers, 1.0 - load.processors / 2.0].into_iter().fold(1.0, f64::min);
    let at_work = if load.waiting == 0 { 1.0 } else { load.running as f64 / (load.running + load.waiting) as f64 };
    (LEAST + free * (1.0 - LEAST)) * at_work
}

/// What a node tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    exact: f64,
    /// In percent: 1 to 100.
    pub(super) percent: u8,
}

impl Weight {
    /// The first time.
    pub(super) fn first(share: f64) -> Self {
        Self { exact: share, percent: percent(share) }
    }

    /// A second later.
    pub(super) fn next(self, share: f64) -> Self {
        let exact = self.exact + FRESH * (share - self.exact);
        let fresh = percent(exact);
        let matters = fresh == 1 || fresh == 100 || self.percent.abs_diff(fresh) >= self.percent.div_ceil(STEP);
        Self { exact, percent: if matters { fresh } else { self.percent } }
    }
}

fn percent(share: f64) -> u8 {
    (100.0 * share).round().clamp(1.0, 100.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the server tells, a second for each line.
    const TOLD: &str = include_str!("../../../crates/modules/src/cluster/mod_agent/weights.txt");

    #[test]
    fn weights_are_those_of_the_server() {
        let mut told: Option<Weight> = None;
        for line in TOLD.lines().filter(|line| !line.starts_with('#')) {
            let [memory, running, waiting, workers, processors, expected] = line.split(' ').collect::<Vec<_>>()[..]
            else {
                panic!("{line}")
            };
            let (share_of, count) = (|text: &str| text.parse::<f64>().unwrap(), |text: &str| text.parse().unwrap());
            let load = Load {
                memory: share_of(memory),
                running: count(running),
                waiting: count(waiting),
                workers: share_of(workers),
                processors: share_of(processors),
            };
            let next = told.map_or(Weight::first(share(load)), |before| before.next(share(load)));
            assert_eq!(next.percent.to_string(), expected, "{line}");
            told = Some(next);
        }
    }
}
