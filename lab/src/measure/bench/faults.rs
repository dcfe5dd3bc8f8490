//! Requests at a fixed rate, while one origin after the other fails.

use std::time::{Duration, Instant};

use super::probe::probe;
use super::{Bench, load_run};
use crate::experiments::site::Site;
use crate::experiments::workload::{Fault, Faults, SMALL};
use crate::machine::error::{Error, Result};
use crate::measure::generator::LoadRun;
use crate::measure::origins::{Condition, Origins};
use crate::measure::results::Load;
use crate::measure::server::Server;

/// From the fault of one origin to that of the next.
const PERIOD: Duration = Duration::from_secs(1);

/// When an origin fails, and when it is back, since the beginning of its period.
const FAILS: Duration = Duration::from_millis(250);
const IS_BACK: Duration = Duration::from_millis(750);

/// How long an origin stands still before it is killed: long enough to have requests then.
const COLLECTS: Duration = Duration::from_millis(50);

impl Bench {
    /// Makes origins fail from the moment at which it counts.
    pub(super) fn faults(&self, server: &Server, site: &Site, faults: &Faults, seconds: u32) -> Result<Load> {
        probe(site, None, &SMALL, false)?;
        let origins = server.origins().ok_or_else(|| Error::new("there is nothing behind it that could fail"))?;
        // The generator shares its core with the origins, so it sleeps until a request is due.
        let load_run = LoadRun {
            per_second: Some(faults.per_second),
            spins: false,
            ..load_run(site, SMALL.name, faults.connections, seconds)
        };
        let mut disturbance = Disturbance { origins, fault: faults.fault, began: None, failing: None };
        self.measure_while(server, site, load_run, &mut || disturbance.look())
    }
}

/// The origins' faults over time.
struct Disturbance<'a> {
    origins: &'a Origins,
    fault: Fault,
    began: Option<Instant>,
    failing: Option<Failing>,
}

/// The origin that is not well.
struct Failing {
    number: usize,
    since: Instant,
    is_gone: bool,
}

impl Disturbance<'_> {
    /// Does what is due.
    fn look(&mut self) -> Result<()> {
        let began = *self.began.get_or_insert_with(Instant::now);
        let due = due(began.elapsed(), self.origins.count());
        if let Some(Failing { number, .. }) = self.failing.take_if(|failing| Some(failing.number) != due) {
            self.origins.put(number, Condition::Well)?;
        }
        match (&mut self.failing, due) {
            (None, Some(number)) => {
                self.origins.put(number, Condition::Halted)?;
                self.failing = Some(Failing { number, since: Instant::now(), is_gone: false });
            }
            (Some(failing), _)
                if self.fault == Fault::Killed && !failing.is_gone && failing.since.elapsed() >= COLLECTS =>
            {
                self.origins.put(failing.number, Condition::Gone)?;
                failing.is_gone = true;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Drop for Disturbance<'_> {
    /// What follows the measurement finds all of them well.
    fn drop(&mut self) {
        if let Some(Failing { number, .. }) = self.failing {
            let _ = self.origins.put(number, Condition::Well);
        }
    }
}

/// The origin that is not well at that time, of so many.
fn due(elapsed: Duration, count: usize) -> Option<usize> {
    let turn = elapsed.as_secs_f64() / PERIOD.as_secs_f64();
    let fails = (FAILS..IS_BACK).contains(&PERIOD.mul_f64(turn.fract()));
    fails.then_some(turn as usize % count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_fails_and_comes_back() {
        let found = [0, 260, 740, 760, 1310, 2500, 3310].map(|time| due(Duration::from_millis(time), 3));
        assert_eq!(found, [None, Some(0), Some(0), None, Some(1), Some(2), Some(0)]);
    }
}
