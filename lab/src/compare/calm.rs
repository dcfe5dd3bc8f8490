//! Waits for a quiet machine during measurements, and divides the cores.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::machine::error::Result;
use crate::machine::interrupt;
use crate::machine::procfs::{self, CoreTime};
use crate::measure::reading::{OTHERS_MAX, STOLEN_MAX};

/// The division of cores.
pub(crate) struct Cores {
    pub(crate) generator: Vec<usize>,
    pub(crate) server: Vec<usize>,
    /// Whether the two sides share no core.
    pub(crate) is_apart: bool,
}

impl Cores {
    /// The first ones for the generator, a core for each thread, and the rest for the server; if that leaves none, all
    /// for both.
    pub(crate) fn divide(all: &[usize], threads: usize) -> Self {
        match all.split_at_checked(threads) {
            Some((generator, server)) if !server.is_empty() => {
                Self { generator: generator.to_vec(), server: server.to_vec(), is_apart: true }
            }
            _ => Self { generator: all.to_vec(), server: all.to_vec(), is_apart: false },
        }
    }
}

/// How quiet the machine was, and how long measurements may still wait for quiet.
#[derive(Debug, Default)]
pub(crate) struct Calm {
    patience: Cell<Duration>,
    measurements: Cell<u32>,
    disturbed: Cell<u32>,
}

impl Calm {
    /// Allows measurements to wait this long, all together.
    pub(crate) fn grant(&self, patience: Duration) {
        self.patience.set(patience);
    }

    /// How many measurements began while other programs used the cores, and how many there were.
    pub(crate) fn disturbed(&self) -> (u32, u32) {
        (self.disturbed.get(), self.measurements.get())
    }

    /// Waits until the cores are idle, within the time allowed: other programs take time from the server and from the
    /// generator, and more of it from a server with few threads.
    pub(crate) fn wait(&self, cores: &[usize]) -> Result<()> {
        self.measurements.set(self.measurements.get() + 1);
        let began = Instant::now();
        while busy_share(cores)? > CALM_MAX {
            interrupt::check()?;
            let left = self.patience.get();
            if left.is_zero() || began.elapsed() > CALM_WAIT {
                self.disturbed.set(self.disturbed.get() + 1);
                break;
            }
            self.patience.set(left.saturating_sub(CALM_WINDOW));
        }
        Ok(())
    }
}

/// How long to observe the cores, and up to which share of busy time they count as idle.
const CALM_WINDOW: Duration = Duration::from_millis(150);
const CALM_MAX: f64 = 0.15;

/// How long one measurement may wait for that; the others want their share of the time.
const CALM_WAIT: Duration = Duration::from_secs(3);

/// The share of time in which the cores are busy right now.
fn busy_share(cores: &[usize]) -> Result<f64> {
    let (before, began) = (procfs::core_time(cores)?, Instant::now());
    std::thread::sleep(CALM_WINDOW);
    let busy = procfs::core_time(cores)?.busy().saturating_sub(before.busy());
    Ok(busy.as_secs_f64() / began.elapsed().as_secs_f64() / cores.len().max(1) as f64)
}

/// The clocks of the machine and of this program at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    machine: CoreTime,
    own: Duration,
}

impl Clocks {
    pub(super) fn read() -> Result<Self> {
        Ok(Self { machine: procfs::machine_time()?, own: procfs::own_time() + procfs::reaped_children() })
    }

    /// Doubts about a load since `before`, in which the server took this much processor time; nothing about other
    /// programs if they cannot be observed.
    pub(super) fn doubts_since(&self, before: &Self, server: Option<Duration>) -> Vec<String> {
        let (now, then) = (&self.machine, &before.machine);
        let busy = now.busy().saturating_sub(then.busy());
        let stolen = now.stolen.saturating_sub(then.stolen);
        let idle = (now.idle + now.iowait).saturating_sub(then.idle + then.iowait);
        let all = (busy + stolen + idle).as_secs_f64();
        let others = server.map(|server| busy.saturating_sub(server + self.own.saturating_sub(before.own)));
        let told = |time: Duration, most: f64| {
            let share = time.as_secs_f64() / all;
            // The machine counts in hundredths of a second, which are too coarse for a short load.
            (share > most && time > TICKS_MIN).then_some(share * 100.0)
        };
        let others = others.and_then(|others| told(others, OTHERS_MAX));
        let others = others.map(|share| format!("other programs used {share:.0} % of the cores' time"));
        let stolen =
            told(stolen, STOLEN_MAX).map(|share| format!("the hypervisor took {share:.0} % of the cores' time"));
        others.into_iter().chain(stolen).collect()
    }
}

/// Less time than this proves nothing.
const TICKS_MIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_cores_of_its_own_where_there_are_enough() {
        let told = |all: &[usize], threads| {
            let Cores { generator, server, is_apart } = Cores::divide(all, threads);
            (generator, server, is_apart)
        };
        assert_eq!(told(&[0, 1, 2, 3], 1), (vec![0], vec![1, 2, 3], true));
        assert_eq!(told(&[4, 6], 2), (vec![4, 6], vec![4, 6], false));
    }

    #[test]
    fn other_programs_take_the_rest() {
        let seconds = Duration::from_secs;
        let clocks = |busy, stolen, idle, own| Clocks {
            machine: CoreTime {
                user: seconds(busy),
                stolen: seconds(stolen),
                idle: seconds(idle),
                ..CoreTime::default()
            },
            own: seconds(own),
        };
        let before = clocks(100, 10, 100, 5);
        let told = |after: Clocks, server| after.doubts_since(&before, server).join("; ");
        assert_eq!(told(clocks(110, 10, 110, 10), Some(seconds(5))), "");
        assert_eq!(told(clocks(110, 10, 110, 8), Some(seconds(5))), "other programs used 10 % of the cores' time");
        assert_eq!(told(clocks(110, 11, 109, 8), None), "the hypervisor took 5 % of the cores' time");
        assert_eq!(told(before, Some(seconds(0))), "");
    }
}
