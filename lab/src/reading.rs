//! Who used the cores between two moments.

use std::time::Instant;

use crate::error::Result;
use crate::host::Cores;
use crate::procfs;
use crate::results::Busy;
use crate::server::Server;

/// All clocks at one moment, in seconds.
pub(crate) struct Reading {
    when: Instant,
    /// CPU time of the server.
    pub(crate) server: f64,
    generator: f64,
    laboratory: f64,
    busy: f64,
    stolen: f64,
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
            busy: times.busy.as_secs_f64(),
            stolen: times.stolen.as_secs_f64(),
        })
    }

    /// Shares of the time since `before`.
    pub(crate) fn busy_since(&self, before: &Self, cores: Cores) -> Busy {
        let elapsed = (self.when - before.when).as_secs_f64();
        let server = self.server - before.server;
        let generator = self.generator - before.generator;
        let laboratory = self.laboratory - before.laboratory;
        let all = elapsed * cores.both().len() as f64;
        let others = self.busy - before.busy - server - generator - laboratory;
        Busy {
            server: server / elapsed,
            generator: generator / elapsed,
            others: (others / all).max(0.0),
            stolen: (self.stolen - before.stolen) / all,
            idle: (1.0 - (self.busy - before.busy + self.stolen - before.stolen) / all).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn shares_are_of_the_time_that_passed() {
        let start = Instant::now();
        let reading = |seconds: f64, server: f64, generator: f64, busy: f64| Reading {
            when: start + Duration::from_secs_f64(seconds),
            server,
            generator,
            laboratory: 0.0,
            busy,
            stolen: 0.0,
        };
        let cores = Cores { server: 1, generator: 0 };
        let busy = reading(2.0, 1.0, 1.5, 3.0).busy_since(&reading(0.0, 0.0, 0.0, 0.0), cores);
        assert_eq!((busy.server, busy.generator, busy.others, busy.idle), (0.5, 0.75, 0.125, 0.25));
    }
}
