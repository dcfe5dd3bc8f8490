//! How much work a node asks for: the answers of `mod_agent`, once more.
//!
//! The laboratory shares no code with the server. So this is the server's function (`mod_agent/load.rs`) written again, with a test
//! of the same cases: when the server's changes, change both.

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

/// The least change that a node tells, in percent.
const STEP: u8 = 5;

/// The share of the work of an idle node that this one should get, in percent: 1 to 100.
pub(super) fn weight(load: Load) -> u8 {
    let free = [load.memory, load.workers, 1.0 - load.processors / 2.0].into_iter().fold(1.0, f64::min);
    let at_work = if load.waiting == 0 { 1.0 } else { load.running as f64 / (load.running + load.waiting) as f64 };
    (100.0 * free * at_work).round().clamp(1.0, 100.0) as u8
}

/// The weight to tell after `told`, if the node's weight is now this.
pub(super) fn settled(told: u8, weight: u8) -> u8 {
    let matters = weight == 1 || weight == 100 || told.abs_diff(weight) >= STEP;
    if matters { weight } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Load = Load { memory: 1.0, running: 0, waiting: 0, workers: 1.0, processors: 0.0 };

    /// The cases of the server's own test.
    #[test]
    fn weights_are_those_of_the_server() {
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
        for (told, weight, expected) in
            [(100, 97, 100), (100, 95, 95), (50, 46, 50), (50, 55, 55), (97, 100, 100), (3, 1, 1)]
        {
            assert_eq!(settled(told, weight), expected, "{told}, {weight}");
        }
    }
}
