//! A measurement over time: server and generator on one time line, and the memory.

use std::time::{Duration, Instant};

use crate::machine::host::Cores;
use crate::machine::procfs;
use crate::measure::results::MachineSample;
use crate::measure::server::Server;

/// The first interval between samples; a shorter one would cost more than it shows.
const INTERVAL: Duration = Duration::from_millis(200);

/// More samples than a plot can show: at this number every second one is dropped, and the interval doubles.
const MOMENTS_MAX: usize = 200;

/// Samples the machine during a load.
pub(crate) struct Monitor<'a> {
    server: &'a Server,
    cores: Cores,
    began: Instant,
    interval: Duration,
    swapped: u64,
    last: Option<Clocks>,
    pub(crate) moments: Vec<MachineSample>,
}

/// CPU seconds so far, at one moment.
struct Clocks {
    when: Instant,
    server: f64,
    generator_core: f64,
}

impl<'a> Monitor<'a> {
    /// Begins.
    pub(crate) fn new(server: &'a Server, cores: Cores) -> Self {
        let (began, swapped) = (Instant::now(), procfs::swapped_out());
        let last = Clocks::read(server, cores);
        Self { server, cores, began, interval: INTERVAL, swapped, last, moments: Vec::new() }
    }

    /// Takes a sample, if it is time. Unreadable values leave a gap.
    pub(crate) fn look(&mut self) {
        let is_early = |last: &Clocks| last.when.elapsed() < self.interval;
        if self.last.as_ref().is_some_and(is_early) {
            return;
        }
        let now = Clocks::read(self.server, self.cores);
        if let (Some(last), Some(now)) = (&self.last, &now) {
            let elapsed = (now.when - last.when).as_secs_f64();
            self.moments.push(MachineSample {
                at: (now.when - self.began).as_secs_f64(),
                server: (now.server - last.server) / elapsed,
                generator_core: (now.generator_core - last.generator_core) / elapsed,
                memory: 1.0 - procfs::memory_left(),
                swapped_pages: procfs::swapped_out().saturating_sub(self.swapped),
            });
        }
        self.last = now;
        if self.moments.len() > MOMENTS_MAX {
            let mut index = 0;
            self.moments.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.interval *= 2;
        }
    }
}

impl Clocks {
    fn read(server: &Server, cores: Cores) -> Option<Self> {
        Some(Self {
            when: Instant::now(),
            server: server.cpu().ok()?.as_secs_f64(),
            generator_core: procfs::core_time(&[cores.generator]).ok()?.busy().as_secs_f64(),
        })
    }
}
