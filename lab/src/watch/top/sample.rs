//! Reads the state of the machine and of the server's processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::load::destination::is_here;
use crate::load::status_file::{self, LoadStatus};
use crate::load::url::Url;
use crate::machine::error::Result;
use crate::machine::listener::Listener;
use crate::machine::procfs;
use crate::watch::stat::group::{Id, TOTAL, cores, figures, pressure};
use crate::watch::stat::source::{Source, Texts, numbers};

/// The observations at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sample {
    pub(super) machine: Machine,
    /// `None` if they cannot be seen: the server is not on this machine, not running, or belongs to another user.
    pub(super) processes: Option<Processes>,
    /// Running loads, the oldest first.
    pub(super) loads: Vec<LoadStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Machine {
    pub(super) host: String,
    /// Seconds since it started.
    pub(super) uptime: f64,
    /// Over 1, 5 and 15 minutes.
    pub(super) load: Vec<f64>,
    /// All cores together, then each one.
    pub(super) all: Core,
    pub(super) cores: Vec<Core>,
    pub(super) memory: Memory,
    /// What programs wait for; empty if the kernel does not count that.
    pub(super) pressure: Vec<Pressure>,
}

/// The use of a core, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Core {
    pub(super) user: f64,
    pub(super) system: f64,
    /// Idle except for waiting for disks.
    pub(super) wait: f64,
    /// Time in which the hypervisor ran others.
    pub(super) stolen: f64,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Memory {
    pub(super) total: f64,
    pub(super) used: f64,
    /// File cache, which can be reclaimed.
    pub(super) cached: f64,
    pub(super) free: f64,
    pub(super) swap_total: f64,
    pub(super) swap_used: f64,
}

/// In percent of the last ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Pressure {
    pub(super) of: &'static str,
    /// Some programs had to wait.
    pub(super) some: f64,
    /// All had to; meaningless for processors.
    pub(super) full: Option<f64>,
}

/// The server's processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Processes {
    pub(super) list: Vec<Process>,
    /// Processor time of scripts that have ended since the last sample, in percent of a core.
    pub(super) ended: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) role: &'static str,
    pub(super) title: String,
    pub(super) threads: u64,
    /// In percent of a core.
    pub(super) cpu: f64,
    /// `None` if it may not be read.
    pub(super) pss_kib: Option<u64>,
    pub(super) rss_kib: u64,
}

const SOURCES: [Source; 8] = [
    Source::Stat,
    Source::Memory,
    Source::Swaps,
    Source::Load,
    Source::Uptime,
    Source::Pressure,
    Source::CpuPressure,
    Source::IoPressure,
];

/// The resources with a pressure file.
const PRESSURES: [(&str, Source); 3] =
    [("cpu", Source::CpuPressure), ("memory", Source::Pressure), ("io", Source::IoPressure)];

/// Takes samples, each of the changes since the last one.
pub(super) struct Sampler {
    texts: Texts,
    url: Url,
    /// The server, as long as it is the same one.
    server: Option<Listener>,
    at: Instant,
    ticks: Vec<Vec<f64>>,
    times: Times,
}

/// Total processor time of each process, and of its ended children.
type Times = BTreeMap<u32, (Duration, Duration)>;

impl Sampler {
    /// A sampler for the machine, and the server of a URL.
    ///
    /// # Errors
    /// There is no /proc.
    pub(super) fn new(url: Url) -> Result<Self> {
        let texts = Texts::open(&SOURCES)?;
        Ok(Self { texts, url, server: None, at: Instant::now(), ticks: Vec::new(), times: Times::new() })
    }

    /// The changes since the last call; in the first one, since the machine started.
    ///
    /// # Errors
    /// A file of /proc, which was open, cannot be read.
    pub(super) fn take(&mut self) -> Result<Sample> {
        self.texts.read()?;
        let now = Instant::now();
        let seconds = (now - self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        self.at = now;
        let ticks = ticks(&self.texts);
        let machine = machine(&self.texts, &ticks, &self.ticks);
        self.ticks = ticks;
        Ok(Sample { machine, processes: self.processes(seconds), loads: status_file::read() })
    }

    /// Looks for the server again when none of its processes is left.
    fn processes(&mut self, seconds: f64) -> Option<Processes> {
        let alive = |server: &Listener| Some(server.processes()).filter(|pids| !pids.is_empty());
        let pids = self.server.as_ref().and_then(alive).or_else(|| {
            self.server = self.url.resolve(false).ok().filter(|address| is_here(*address)).and_then(Listener::at);
            self.server.as_ref().and_then(alive)
        })?;
        let roots = self.server.as_ref()?.roots();
        let found: Vec<(u32, procfs::Stat)> =
            pids.into_iter().filter_map(|pid| Some((pid, procfs::stat(pid)?))).collect();
        let times: Times = found.iter().map(|(pid, stat)| (*pid, (stat.living(*pid), stat.reaped))).collect();
        let names: Vec<&str> =
            found.iter().filter(|(pid, _)| roots.contains(pid)).map(|(_, stat)| stat.name.as_str()).collect();
        let process = |(pid, stat): &(u32, procfs::Stat)| {
            let title = Some(procfs::command_line(*pid)).filter(|title| !title.is_empty());
            Process {
                pid: *pid,
                role: role(roots.contains(pid), names.contains(&stat.name.as_str())),
                title: title.unwrap_or_else(|| format!("[{}]", stat.name)),
                threads: stat.threads,
                cpu: percent(grown(&self.times, &times, *pid), seconds),
                pss_kib: procfs::pss_kib(&[*pid]).ok(),
                rss_kib: stat.resident_kib,
            }
        };
        let list = found.iter().map(process).collect();
        let ended = percent(ended(&self.times, &times), seconds);
        self.times = times;
        Some(Processes { list, ended })
    }
}

fn role(is_root: bool, is_server: bool) -> &'static str {
    match (is_root, is_server) {
        (true, _) => "parent",
        (_, true) => "child",
        _ => "script",
    }
}

fn percent(time: Duration, seconds: f64) -> f64 {
    100.0 * time.as_secs_f64() / seconds
}

/// The time that a process has used between two samples; all of it if it is new.
fn grown(before: &Times, now: &Times, pid: u32) -> Duration {
    let own = |times: &Times| times.get(&pid).map(|(own, _)| *own).unwrap_or_default();
    if before.is_empty() { Duration::ZERO } else { own(now).saturating_sub(own(before)) }
}

/// The time used between two samples by children that have ended: their parents' totals, without the time seen before.
fn ended(before: &Times, now: &Times) -> Duration {
    let known = now.iter().filter_map(|(pid, (_, reaped))| Some(reaped.saturating_sub(before.get(pid)?.1)));
    let seen = before.iter().filter(|(pid, _)| !now.contains_key(pid)).map(|(_, (own, reaped))| *own + *reaped);
    known.sum::<Duration>().saturating_sub(seen.sum())
}

/// The total ticks of all cores, then of each one.
fn ticks(texts: &Texts) -> Vec<Vec<f64>> {
    let parts = std::iter::once(TOTAL.to_owned()).chain(cores(texts));
    parts.map(|part| figures(texts, Id::Cpu, &part)).collect()
}

fn machine(texts: &Texts, ticks: &[Vec<f64>], before: &[Vec<f64>]) -> Machine {
    let mut cores = ticks.iter().enumerate().map(|(at, now)| core(now, before.get(at).map_or(&[], Vec::as_slice)));
    let first = |source| numbers(texts.lines(source).next().unwrap_or_default().get(..1).unwrap_or_default());
    let pressure = PRESSURES.into_iter().filter(|(_, source)| !texts.of(*source).is_empty()).map(|(of, source)| {
        let [some, full] = pressure(texts, source);
        Pressure { of, some, full: (of != "cpu").then_some(full) }
    });
    Machine {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        uptime: first(Source::Uptime).first().copied().unwrap_or_default(),
        load: figures(texts, Id::Load, TOTAL),
        all: cores.next().unwrap_or_default(),
        cores: cores.collect(),
        memory: memory(texts),
        pressure: pressure.collect(),
    }
}

/// Shares of the ticks between two samples.
fn core(now: &[f64], before: &[f64]) -> Core {
    let grown = |at: usize| now.get(at).map_or(0.0, |now| (now - before.get(at).unwrap_or(&0.0)).max(0.0));
    let all: f64 = (0..now.len()).map(grown).sum();
    let share = |at| if all > 0.0 { 100.0 * grown(at) / all } else { 0.0 };
    Core { user: share(0), system: share(1), wait: share(3), stolen: share(4) }
}

fn memory(texts: &Texts) -> Memory {
    let (memory, swap) = (figures(texts, Id::Memory, TOTAL), figures(texts, Id::Swap, TOTAL));
    let of = |figures: &[f64], at: usize| figures.get(at).copied().unwrap_or_default();
    let (used, free, cached) = (of(&memory, 0), of(&memory, 1), of(&memory, 2) + of(&memory, 3));
    Memory {
        total: texts.line(Source::Memory, "MemTotal:").first().map_or(0.0, |kib| kib * 1024.0),
        used,
        cached,
        free,
        swap_total: of(&swap, 0) + of(&swap, 1),
        swap_used: of(&swap, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_from_what_its_kernel_says() {
        let texts = Texts::said(&[
            (
                Source::Stat,
                "cpu  80 0 80 240 0 0 0 0 0 0\ncpu0 60 0 20 100 20 0 0 0 0 0\ncpu1 20 0 60 110 0 0 0 10 0 0\n",
            ),
            (Source::Memory, "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached: 200 kB\n"),
            (Source::Swaps, "Filename Type Size Used Priority\n/dev/vdb partition 100 30 -2\n"),
            (Source::Load, "0.50 1.25 2.00 1/234 567\n"),
            (Source::Uptime, "3600.00 1.00\n"),
            (Source::CpuPressure, "some avg10=12.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n"),
            (Source::IoPressure, "some avg10=2.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=1.00 total=1\n"),
        ]);
        let before = [vec![0.0; 5], vec![10.0, 20.0, 50.0, 20.0, 0.0]];
        let machine = machine(&texts, &ticks(&texts), &before);
        assert_eq!(machine.all, Core { user: 20.0, system: 20.0, ..Core::default() });
        let cores = [Core { user: 50.0, ..Core::default() }, Core { user: 10.0, system: 30.0, wait: 0.0, stolen: 5.0 }];
        assert_eq!(machine.cores, cores);
        assert_eq!((machine.uptime, &machine.load[..]), (3600.0, &[0.5, 1.25, 2.0][..]));
        let kib = [650.0, 250.0, 100.0, 100.0, 30.0];
        let Memory { total, used, cached, free, swap_total, swap_used } = machine.memory;
        assert_eq!([used, cached, free, swap_total, swap_used].map(|bytes| bytes / 1024.0), kib);
        assert_eq!(total, 1_024_000.0);
        let told: Vec<_> = machine.pressure.iter().map(|one| (one.of, one.some, one.full)).collect();
        assert_eq!(told, [("cpu", 12.0, None), ("io", 2.0, Some(1.0))]);
    }

    #[test]
    fn time_of_scripts_that_have_ended_is_told_apart() {
        let seconds = Duration::from_secs;
        let before = Times::from([(1, (seconds(5), seconds(10))), (2, (seconds(3), seconds(0)))]);
        // A child that had used 3 s has ended with 4 s, and a script that nobody has seen with 2 s.
        let now = Times::from([(1, (seconds(6), seconds(16))), (3, (seconds(1), seconds(0)))]);
        assert_eq!(ended(&before, &now), seconds(3));
        assert_eq!([1, 3].map(|pid| grown(&before, &now, pid)), [seconds(1); 2]);
        assert_eq!(grown(&Times::new(), &now, 1), seconds(0), "nothing is known at first");
    }

    #[test]
    fn this_process_is_a_server() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&socket.local_addr().unwrap().to_string()).unwrap();
        let mut sampler = Sampler::new(url).unwrap();
        sampler.take().unwrap();
        let sample = sampler.take().unwrap();
        assert!(sample.machine.memory.total > 0.0 && !sample.machine.cores.is_empty());
        let processes = sample.processes.unwrap().list;
        let own = processes.iter().find(|process| process.pid == std::process::id()).unwrap();
        assert_eq!(own.role, "parent");
        assert!(own.rss_kib > 0 && own.pss_kib.is_some() && own.threads > 0);
    }
}
