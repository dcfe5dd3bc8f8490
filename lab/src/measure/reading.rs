//! The use of the cores between two moments.

use std::time::{Duration, Instant};

use crate::machine::error::Result;
use crate::machine::host::Cores;
use crate::machine::procfs::{self, CoreTime};
use crate::measure::results::{Averages, Busy, CoreUse};
use crate::measure::server::Server;

/// More work by others than this on the two cores disturbs both sides.
pub(crate) const OTHERS_MAX: f64 = 0.05;
/// More stolen time than this means that the machine is not ours.
pub(crate) const STOLEN_MAX: f64 = 0.02;

/// All clocks at one moment, in seconds.
pub(crate) struct Reading {
    when: Instant,
    /// CPU time of the server.
    pub(crate) server: f64,
    generator: f64,
    laboratory: f64,
    origins: f64,
    busy: f64,
    stolen: f64,
    /// The clocks of the whole machine, and of the server's core.
    machine: CoreTime,
    core: CoreTime,
    /// Swap space in use, in KiB.
    pub(crate) swap_used_kib: u64,
}

impl Reading {
    /// Reads all of them.
    pub(crate) fn take(server: &Server, cores: Cores) -> Result<Self> {
        let times = procfs::core_time(&cores.both())?;
        Ok(Self {
            when: Instant::now(),
            server: server.cpu()?.as_secs_f64(),
            generator: procfs::reaped_children().as_secs_f64(),
            laboratory: procfs::own_time().as_secs_f64(),
            origins: server.origins().map_or(0.0, |origins| origins.cpu().as_secs_f64()),
            busy: times.busy().as_secs_f64(),
            stolen: times.stolen.as_secs_f64(),
            machine: procfs::machine_time()?,
            core: procfs::core_time(&[cores.server])?,
            swap_used_kib: procfs::swap_used_kib(),
        })
    }

    /// Shares of the time since `before`.
    pub(crate) fn busy_since(&self, before: &Self, cores: Cores) -> Busy {
        let elapsed = (self.when - before.when).as_secs_f64();
        let server = self.server - before.server;
        let generator = self.generator - before.generator;
        let laboratory = self.laboratory - before.laboratory;
        // Those that were killed meanwhile count as the generator's: the laboratory has waited for both.
        let origins = (self.origins - before.origins).max(0.0);
        let all = elapsed * cores.both().len() as f64;
        let others = self.busy - before.busy - server - generator - laboratory - origins;
        Busy {
            server: server / elapsed,
            generator: generator / elapsed,
            origins: origins / elapsed,
            others: (others / all).max(0.0),
            stolen: (self.stolen - before.stolen) / all,
            idle: (1.0 - (self.busy - before.busy + self.stolen - before.stolen) / all).max(0.0),
        }
    }
}

impl Reading {
    /// The averages of the machine and the server's core since `before`.
    pub(crate) fn averages_since(&self, before: &Self) -> Averages {
        Averages { machine: averages(&before.machine, &self.machine), core: averages(&before.core, &self.core) }
    }
}

fn averages(before: &CoreTime, after: &CoreTime) -> CoreUse {
    // The kernel sometimes takes idle time back.
    let spent = [
        after.user.saturating_sub(before.user),
        after.nice.saturating_sub(before.nice),
        after.system.saturating_sub(before.system),
        after.iowait.saturating_sub(before.iowait),
        after.stolen.saturating_sub(before.stolen),
        after.idle.saturating_sub(before.idle),
    ];
    let all = spent.iter().sum::<Duration>().as_secs_f64().max(f64::MIN_POSITIVE);
    let [user, nice, system, iowait, steal, idle] = spent.map(|spent| spent.as_secs_f64() / all * 100.0);
    CoreUse { user, nice, system, iowait, steal, idle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_that_passed() {
        let start = Instant::now();
        let reading = |seconds: f64, server: f64, generator: f64, busy: f64| Reading {
            when: start + Duration::from_secs_f64(seconds),
            server,
            generator,
            laboratory: 0.0,
            origins: 0.0,
            busy,
            stolen: 0.0,
            machine: CoreTime {
                user: Duration::from_secs_f64(busy),
                idle: Duration::from_secs(1),
                ..CoreTime::default()
            },
            core: CoreTime::default(),
            swap_used_kib: 0,
        };
        let cores = Cores { server: 1, generator: 0 };
        let (before, after) = (reading(0.0, 0.0, 0.0, 0.0), reading(2.0, 1.0, 1.5, 3.0));
        let busy = after.busy_since(&before, cores);
        assert_eq!((busy.server, busy.generator, busy.others, busy.idle), (0.5, 0.75, 0.125, 0.25));
        let later = Reading { machine: CoreTime { idle: Duration::from_secs(2), ..after.machine }, ..after };
        let averages = later.averages_since(&before);
        assert_eq!((averages.machine.user, averages.machine.idle, averages.core.user), (75.0, 25.0, 0.0));
    }
}
