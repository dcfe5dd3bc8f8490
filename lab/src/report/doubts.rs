//! Reasons to doubt a run. They are printed above the figures, not below.

use std::fmt;

use crate::experiments::workload::{LoadShape, Protocol, Workload};
use crate::load::Handshakes;
use crate::machine::accounting::CpuTimeSource;
use crate::machine::descriptors::DESCRIPTORS_IN_RESERVE;
use crate::measure::reading::{OTHERS_MAX, STOLEN_MAX};
use crate::measure::results::{Averages, Load, Measure, Results, Sample};
use crate::report::summary::{Cell, Summary, title};

/// Fewer rounds have no meaningful median.
const ROUNDS_MIN: u32 = 3;
/// The start and the end would dominate shorter measurements.
const SECONDS_MIN: u32 = 2;
/// Above this share of its core the load generator has nothing in reserve.
const GENERATOR_BUSY_MAX: f64 = 0.95;
/// Below this share of its core the server has something in reserve.
const SERVER_BUSY_MIN: f64 = 0.90;
/// A generator that is late by more than this, in microseconds, was disturbed.
const LATE_MAX_US: f64 = 500.0;
/// Swap space in KiB that may be in use: more was left by earlier programs, and has to be read back.
const SWAP_USED_MAX: u64 = 1024;
/// With fewer responses than this, a 99th percentile means nothing.
const RESPONSES_MIN: u64 = 100;
/// Ticks that see less than this share of the counted work see too little of it,
const TICKS_MIN: f64 = 0.75;
/// if they miss at least this share of a core.
const TICKS_MISSED_MIN: f64 = 0.05;
/// More full handshakes than this share are too many if sessions should be resumed.
const FULL_MAX: f64 = 0.05;
/// Rounds that differ by more than this measure something else.
const SPREAD_MAX: f64 = 0.10;

/// A finding's place: the workload and the subject, with a figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    workload: &'static str,
    what: String,
}

/// A reason to doubt a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Doubt {
    /// It concerns the whole run.
    OfRun(RunDoubt),
    /// It concerns some cells, with their figures.
    OfCells(CellDoubt, Vec<Found>),
}

/// A reason to doubt everything in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunDoubt {
    /// Too few rounds.
    FewRounds(u32),
    /// Too short measurements.
    Short(u32),
    /// Server and load generator had to share a core.
    OneCore,
    /// CPU time was read from the process tree.
    CoarseClock,
    /// The limit of open files is too low for some numbers of connections.
    FewDescriptors(u64),
    /// There is no swap space, which would have been used.
    NoSwap,
}

/// A reason to doubt a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellDoubt {
    /// The load generator was the limit, not the server.
    GeneratorSaturated,
    /// Other programs worked on the two cores.
    OthersBusy,
    /// The hypervisor took time.
    Stolen,
    /// Memory was swapped out at the beginning.
    SwapInUse,
    /// Too few responses for a percentile.
    FewResponses,
    /// Some rounds are missing.
    RoundsMissing,
    /// Requests failed or connections were lost.
    Errors,
    /// A fresh request was not answered after the load.
    Hung,
    /// The generator did not keep its schedule.
    GeneratorLate,
    /// Handshakes were full that should have resumed earlier sessions.
    NotResumed,
    /// The kernel's ticks saw little of the server's work.
    TicksMissed,
    /// Rounds differ.
    Spread,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfRun(doubt) => doubt.fmt(f),
            Self::OfCells(doubt, places) => write!(f, "{doubt}: {}", by_workload(places)),
        }
    }
}

impl fmt::Display for RunDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewRounds(1) => {
                write!(f, "only one round, so there are no intervals: use --rounds {ROUNDS_MIN} or more")
            }
            Self::FewRounds(rounds) => {
                write!(f, "only {rounds} rounds, so intervals are wide: use --rounds {ROUNDS_MIN} or more")
            }
            Self::Short(seconds) => {
                write!(f, "only {seconds} s for each measurement: use --seconds {SECONDS_MIN} or more")
            }
            Self::OneCore => f.write_str("server and load generator shared one core: latencies and req/s mean little"),
            Self::CoarseClock => {
                f.write_str("no control group was writable, CPU time was read from the process tree: run as root")
            }
            Self::FewDescriptors(allowed) => write!(
                f,
                "a process may open {allowed} files only, so loads had a few connections less than it says, and a server \
                 of one process cannot hold more: raise the limit (ulimit -Hn 50000)"
            ),
            Self::NoSwap => f.write_str(
                "the machine has no swap: where a server with swap would stand still, the kernel ends processes here",
            ),
        }
    }
}

impl fmt::Display for CellDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GeneratorSaturated => {
                "the load generator's core was the limit, so req/s and latencies say little (requests per CPU-second remain)"
            }
            Self::OthersBusy => "other programs used the two cores, up to this share of them",
            Self::Stolen => "the hypervisor took time away, up to this share",
            Self::SwapInUse => "swap was in use before the measurement began (swapoff -a && swapon -a empties it)",
            Self::FewResponses => {
                return write!(f, "fewer than {RESPONSES_MIN} responses in a round, so p99 means nothing");
            }
            Self::RoundsMissing => "rounds are missing",
            Self::Errors => "requests failed or connections were lost",
            Self::Hung => "no fresh request was answered after the load",
            Self::GeneratorLate => {
                "the load generator was late, which latencies contain; one of a hundred requests by more than this"
            }
            Self::NotResumed => "handshakes were full that should have resumed earlier sessions",
            Self::TicksMissed => {
                "the kernel's ticks saw little of the server's work, so do not believe what cores did (%user to %idle), \
                 nor that nobody else worked (CPU-seconds remain)"
            }
            Self::Spread => return write!(f, "rounds differ by more than {:.0} %", SPREAD_MAX * 100.0),
        })
    }
}

impl Doubt {
    /// The part that concerns this workload, or, without one, the whole run.
    pub(crate) fn concerning(&self, workload: Option<&Workload>) -> Option<Self> {
        match (self, workload) {
            (Self::OfRun(_), None) => Some(self.clone()),
            (Self::OfCells(doubt, places), Some(workload)) => {
                let here = places.iter().filter(|found| found.workload == workload.id);
                // The heading names the workload.
                let here: Vec<Found> = here.map(|found| Found { workload: "", ..found.clone() }).collect();
                (!here.is_empty()).then_some(Self::OfCells(*doubt, here))
            }
            (Self::OfRun(_), Some(_)) | (Self::OfCells(..), None) => None,
        }
    }
}

/// All reasons against a run, the most serious first.
pub(crate) fn doubts(results: &Results, summary: &Summary<'_>) -> Vec<Doubt> {
    let about_run = about_run(results).into_iter().map(Doubt::OfRun);
    about_run.chain(about_cells(summary, results.experiment().workloads, results.rounds)).collect()
}

fn about_run(results: &Results) -> Vec<RunDoubt> {
    let mut doubts = Vec::new();
    if results.rounds < ROUNDS_MIN {
        doubts.push(RunDoubt::FewRounds(results.rounds));
    }
    if results.seconds < SECONDS_MIN {
        doubts.push(RunDoubt::Short(results.seconds));
    }
    if results.host.cores == 1 {
        doubts.push(RunDoubt::OneCore);
    }
    if results.accounting == CpuTimeSource::ProcessTree {
        doubts.push(RunDoubt::CoarseClock);
    }
    let allowed = results.host.descriptors;
    let too_few = |sample: &Sample| u64::from(sample.connections) + DESCRIPTORS_IN_RESERVE > allowed;
    if allowed > 0 && results.samples.iter().any(too_few) {
        doubts.push(RunDoubt::FewDescriptors(allowed));
    }
    let is_under_pressure = |sample: &Sample| matches!(&sample.measure, Measure::Load(load) if load.pressure.is_some());
    if results.host.swap_mib == 0 && results.samples.iter().any(is_under_pressure) {
        doubts.push(RunDoubt::NoSwap);
    }
    doubts
}

/// A reason against one cell, as a figure; `None` if there is none. The number is that of the wanted rounds.
type Check = fn(&Workload, &Cell<'_>, u32) -> Option<String>;

/// The checks of every cell, the most serious first.
const CHECKS: [(CellDoubt, Check); 12] = [
    (CellDoubt::Hung, |_, cell, _| counted(cell.hung())),
    (CellDoubt::Errors, |_, cell, _| counted(cell.errors())),
    (CellDoubt::GeneratorSaturated, saturation),
    (CellDoubt::GeneratorLate, lateness),
    (CellDoubt::NotResumed, full_handshakes),
    (CellDoubt::TicksMissed, missed_ticks),
    (CellDoubt::SwapInUse, swap),
    (CellDoubt::OthersBusy, |_, cell, _| shared(cell.worst(|load| load.busy.others), OTHERS_MAX)),
    (CellDoubt::Stolen, |_, cell, _| shared(cell.worst(|load| load.busy.stolen), STOLEN_MAX)),
    (CellDoubt::RoundsMissing, |_, cell, rounds| {
        let taken = cell.loads().count().max(cell.memories().count());
        (taken < rounds as usize).then(|| format!("{taken} of {rounds}"))
    }),
    (CellDoubt::FewResponses, |_, cell, _| {
        let fewest = cell.loads().map(|(_, load)| load.requests).min()?;
        (fewest < RESPONSES_MIN).then(|| fewest.to_string())
    }),
    (CellDoubt::Spread, |workload, cell, _| {
        // These are not about what requests cost.
        let is_compared =
            !matches!(workload.shape, LoadShape::MixedConnections(_) | LoadShape::Reuse(_) | LoadShape::Faults(_));
        shared(cell.spread(Load::per_cpu_second).filter(|_| is_compared), SPREAD_MAX)
    }),
];

fn about_cells(summary: &Summary<'_>, workloads: &'static [Workload], rounds: u32) -> Vec<Doubt> {
    let cells =
        || workloads.iter().flat_map(|workload| summary.rows(workload).into_iter().map(move |row| (workload, row)));
    let all = CHECKS.iter().map(|(doubt, check)| {
        let places = cells().filter_map(|(workload, (entry, connections, cell))| {
            let figure = check(workload, cell, rounds)?;
            let what = match workload.connections().len() {
                1 => format!("{} ({figure})", title(entry)),
                _ => format!("{} at {connections} ({figure})", title(entry)),
            };
            Some(Found { workload: workload.id, what })
        });
        (*doubt, places.collect::<Vec<Found>>())
    });
    all.filter(|(_, places)| !places.is_empty()).map(|(doubt, places)| Doubt::OfCells(doubt, places)).collect()
}

/// Each workload with all its findings.
fn by_workload(places: &[Found]) -> String {
    let of = |part: &[Found]| {
        let all: Vec<&str> = part.iter().map(|found| found.what.as_str()).collect();
        let heading = part.first().filter(|first| !first.workload.is_empty());
        heading.map_or(String::new(), |first| format!("{}: ", first.workload)) + &all.join("; ")
    };
    places.chunk_by(|one, other| one.workload == other.workload).map(of).collect::<Vec<_>>().join(". ")
}

fn counted(times: u64) -> Option<String> {
    (times > 0).then(|| times.to_string())
}

fn shared(share: Option<f64>, limit: f64) -> Option<String> {
    share.filter(|share| *share > limit).map(|share| format!("{:.0} %", share * 100.0))
}

/// Whether the load generator was the limit of a cell, so that its server could have answered more.
pub(crate) fn is_saturated(workload: &Workload, cell: &Cell<'_>) -> bool {
    saturation(workload, cell, 0).is_some()
}

fn saturation(workload: &Workload, cell: &Cell<'_>, _: u32) -> Option<String> {
    let generator = cell.median(|load| load.busy.generator + load.busy.origins)?;
    let server = cell.median(|load| load.busy.server)?;
    // At a fixed rate the generator is always busy, looking for events.
    let is_limited = matches!(workload.shape, LoadShape::Load { .. });
    let says = || format!("server {:.0} % busy", server * 100.0);
    (is_limited && generator > GENERATOR_BUSY_MAX && server < SERVER_BUSY_MIN).then(says)
}

fn lateness(_: &Workload, cell: &Cell<'_>, _: u32) -> Option<String> {
    let delay = cell.median(|load| load.late_p99_us as f64)?;
    (delay > LATE_MAX_US).then(|| format!("{:.1} ms", delay / 1000.0))
}

/// The first handshake of each connection has to be full.
fn full_handshakes(workload: &Workload, cell: &Cell<'_>, _: u32) -> Option<String> {
    let first: u64 = workload.connections().iter().map(|number| u64::from(*number)).sum();
    let share = |load: &Load| {
        let Handshakes { full, resumed } = load.handshakes;
        full.saturating_sub(first) as f64 / (full + resumed).max(1) as f64
    };
    let is_meant = matches!(workload.shape, LoadShape::Load { protocol: Protocol::Resumed, .. });
    let most = cell.loads().map(|(_, load)| share(load)).max_by(f64::total_cmp);
    shared(most.filter(|_| is_meant), FULL_MAX)
}

/// Ticks are counted a hundred times a second, for the program running at that moment; one that only runs in between is
/// never seen.
fn missed_ticks(workload: &Workload, cell: &Cell<'_>, _: u32) -> Option<String> {
    let seen = |load: &Load| match (workload.shape.has_all_cores(), load.averages) {
        (false, Some(Averages { core, .. })) => Some(1.0 - (core.idle + core.iowait) / 100.0),
        (true, _) => Some(2.0 * (1.0 - load.busy.idle)),
        (false, None) => None,
    };
    let missed = |load: &Load| {
        let (seen, counted) = (seen(load)?, load.busy.server);
        (seen < counted * TICKS_MIN && counted - seen > TICKS_MISSED_MIN).then_some((seen, counted))
    };
    let found = cell.loads().find_map(|(_, load)| missed(load));
    found.map(|(seen, counted)| format!("{:.0} % of a core seen, {:.0} % counted", seen * 100.0, counted * 100.0))
}

fn swap(_: &Workload, cell: &Cell<'_>, _: u32) -> Option<String> {
    let most = cell.loads().map(|(_, load)| load.swap_before_kib).max()?;
    (most > SWAP_USED_MAX).then(|| format!("{} MB", most / 1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::find_workload;
    use crate::experiments::profile::Profile;
    use crate::measure::results::{CoreUse, example};

    fn doubts_of(results: &Results) -> Vec<Doubt> {
        doubts(results, &Summary::of(results))
    }

    fn with(change: fn(&mut Load)) -> Results {
        let mut results = example::empty();
        for round in 1..=3 {
            let mut sample = example::load("keepalive", "nginx", 100, round, 1000);
            if let Measure::Load(load) = &mut sample.measure {
                change(load);
            }
            results.samples.push(sample);
        }
        results
    }

    fn at_nginx(doubt: CellDoubt, figure: &str) -> Doubt {
        Doubt::OfCells(doubt, vec![Found { workload: "keepalive", what: format!("nginx ({figure})") }])
    }

    #[test]
    fn a_quiet_thorough_run_raises_no_doubt() {
        assert_eq!(doubts_of(&with(|_| ())), []);
    }

    #[test]
    fn a_quick_run_does() {
        let mut results = with(|_| ());
        (results.rounds, results.seconds, results.host.cores) = (1, 1, 1);
        assert!(RunDoubt::FewRounds(1).to_string().contains("no intervals"));
        results.accounting = CpuTimeSource::ProcessTree;
        let expected = [RunDoubt::FewRounds(1), RunDoubt::Short(1), RunDoubt::OneCore, RunDoubt::CoarseClock];
        assert_eq!(doubts_of(&results), expected.map(Doubt::OfRun));
    }

    #[test]
    fn connections_beyond_the_limit_of_open_files_are_reported() {
        let mut results = with(|_| ());
        results.host.descriptors = 164;
        assert_eq!(doubts_of(&results), []);
        results.host.descriptors = 163;
        assert_eq!(doubts_of(&results), [Doubt::OfRun(RunDoubt::FewDescriptors(163))]);
    }

    #[test]
    fn a_saturated_generator_matters_only_when_the_server_waits() {
        let both_busy = with(|load| load.busy.generator = 1.0);
        assert_eq!(doubts_of(&both_busy), []);
        let server_waits = with(|load| (load.busy.generator, load.busy.server) = (1.0, 0.5));
        assert!(
            matches!(&doubts_of(&server_waits)[..], [Doubt::OfCells(CellDoubt::GeneratorSaturated, places)] if places.len() == 1)
        );
    }

    #[test]
    fn each_kind_names_its_places() {
        type Change = fn(&mut Load);
        let expected: [(Change, Doubt); 9] = [
            (|load| load.errors.timeout = 7, at_nginx(CellDoubt::Errors, "21")),
            (|load| load.busy.others = 0.2, at_nginx(CellDoubt::OthersBusy, "20 %")),
            (|load| load.busy.stolen = 0.03, at_nginx(CellDoubt::Stolen, "3 %")),
            (|load| load.fresh_us = 1_000_000, at_nginx(CellDoubt::Hung, "3")),
            (|load| load.late_p99_us = 700, at_nginx(CellDoubt::GeneratorLate, "0.7 ms")),
            (|load| load.swap_before_kib = 300 * 1024, at_nginx(CellDoubt::SwapInUse, "300 MB")),
            (
                |load| {
                    let core = CoreUse { user: 1.0, idle: 99.0, ..CoreUse::default() };
                    load.averages = Some(Averages { core, ..Averages::default() });
                    load.busy.server = 0.14;
                },
                at_nginx(CellDoubt::TicksMissed, "1 % of a core seen, 14 % counted"),
            ),
            (|load| load.requests = 99, at_nginx(CellDoubt::FewResponses, "99")),
            (
                |load| (load.busy.generator, load.busy.server) = (1.0, 0.5),
                at_nginx(CellDoubt::GeneratorSaturated, "server 50 % busy"),
            ),
        ];
        for (change, doubt) in expected {
            assert_eq!(doubts_of(&with(change)), std::slice::from_ref(&doubt));
            let keepalive = find_workload("keepalive");
            let (here, elsewhere) = (doubt.concerning(keepalive), doubt.concerning(None));
            assert_eq!(elsewhere, None);
            assert_eq!(here.unwrap().to_string(), doubt.to_string().replace("keepalive: ", ""));
        }
    }

    #[test]
    fn a_round_that_is_missing_is_reported() {
        let mut results = with(|_| ());
        results.samples.pop();
        assert_eq!(doubts_of(&results), [at_nginx(CellDoubt::RoundsMissing, "2 of 3")]);
    }

    #[test]
    fn sessions_that_should_be_resumed_and_are_not_are_reported() {
        let doubts = |workload: &str, full| {
            let mut results = Results { experiment: "tls".to_owned(), ..example::empty() };
            for round in 1..=3 {
                let mut sample = example::load(workload, "nginx", 100, round, 1000);
                sample.profile = Profile::Tls;
                if let Measure::Load(load) = &mut sample.measure {
                    load.handshakes = Handshakes { full, resumed: 1000 - full };
                }
                results.samples.push(sample);
            }
            doubts_of(&results)
        };
        assert_eq!(doubts("tls-resumed", 140), []);
        let places = vec![Found { workload: "tls-resumed", what: "nginx (20 %)".to_owned() }];
        assert_eq!(doubts("tls-resumed", 300), [Doubt::OfCells(CellDoubt::NotResumed, places)]);
        assert_eq!(doubts("tls-full", 1000), []);
    }

    #[test]
    fn too_little_memory_without_swap_is_reported() {
        let mut results = with(|load| load.pressure = Some(Box::default()));
        assert_eq!(doubts_of(&results), [Doubt::OfRun(RunDoubt::NoSwap)]);
        results.host.swap_mib = 4096;
        assert_eq!(doubts_of(&results), []);
    }

    #[test]
    fn rounds_that_differ_are_reported() {
        let mut results = with(|_| ());
        results.samples[1] = example::load("keepalive", "nginx", 100, 2, 2000);
        assert!(matches!(&doubts_of(&results)[..], [Doubt::OfCells(CellDoubt::Spread, _)]));
    }
}
