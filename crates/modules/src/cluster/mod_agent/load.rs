//! How much work a server can take, from how busy it is: a pure function.

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

/// The difference from which on a new weight is worth telling, in percent.
const STEP: u8 = 5;

/// The share of the work that should come here, in percent of what an idle server gets: 1 to 100.
///
/// The scarcest of memory, workers and processors counts; a queue of scripts takes off its own share. Waiting for a processor takes
/// off half at most: a machine whose processors are never idle still does its work.
pub(super) fn weight(load: Load) -> u8 {
    let scarcest = load.memory.min(load.workers).min(1.0 - load.processors / 2.0);
    let queue = match load.waiting {
        0 => 1.0,
        waiting => load.running as f64 / (load.running + waiting) as f64,
    };
    (100.0 * scarcest * queue).round().clamp(1.0, 100.0) as u8
}

/// The weight to tell, after the last one that was told: small changes are not worth a balancer's attention.
pub(super) fn settled(told: u8, weight: u8) -> u8 {
    if told.abs_diff(weight) >= STEP || matches!(weight, 1 | 100) { weight } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Load = Load { memory: 1.0, running: 0, waiting: 0, workers: 1.0, processors: 0.0 };

    #[test]
    fn the_scarcest_counts() {
        for (load, expected) in [
            (IDLE, 100),
            (Load { memory: 0.4, workers: 0.6, ..IDLE }, 40),
            (Load { memory: 0.6, workers: 0.3, ..IDLE }, 30),
            (Load { processors: 1.0, ..IDLE }, 50),
            (Load { memory: 0.5, running: 5, waiting: 15, ..IDLE }, 13),
            (Load { memory: 0.0, running: 5, waiting: 1, ..IDLE }, 1),
            (Load { waiting: 3, ..IDLE }, 1),
        ] {
            assert_eq!(weight(load), expected, "{load:?}");
        }
    }

    #[test]
    fn small_changes_are_not_told() {
        for (told, weight, expected) in
            [(100, 97, 100), (100, 95, 95), (50, 46, 50), (50, 55, 55), (97, 100, 100), (3, 1, 1)]
        {
            assert_eq!(settled(told, weight), expected, "{told}, {weight}");
        }
    }
}
