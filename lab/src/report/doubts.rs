//! Reasons to doubt a run. They are printed above the figures, not below.

use std::fmt;

use crate::experiments::workload::{LoadShape, Protocol, Workload};
use crate::load::Handshakes;
use crate::machine::accounting::Accounting;
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
/// With fewer answers than this, a 99th percentile means nothing.
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

/// One reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Doubt {
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
    /// The load generator was the limit, not the server.
    GeneratorSaturated(Vec<Found>),
    /// Other programs worked on the two cores.
    OthersBusy(Vec<Found>),
    /// The hypervisor took time.
    Stolen(Vec<Found>),
    /// Memory was swapped out at the beginning.
    SwapInUse(Vec<Found>),
    /// Too few answers for a percentile.
    FewAnswers(Vec<Found>),
    /// Some rounds are missing.
    RoundsMissing(Vec<Found>),
    /// Requests failed or connections were lost.
    Errors(Vec<Found>),
    /// A fresh request was not answered after the load.
    Hung(Vec<Found>),
    /// The generator did not keep its schedule.
    GeneratorLate(Vec<Found>),
    /// Handshakes were full that should have resumed earlier sessions.
    NotResumed(Vec<Found>),
    /// The kernel's ticks saw little of the server's work.
    TicksMissed(Vec<Found>),
    /// Rounds differ.
    Spread(Vec<Found>),
}

impl fmt::Display for Doubt {
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
            Self::GeneratorSaturated(who) => write!(
                f,
                "the load generator was the limit, so req/s and latencies say little (requests per CPU-second \
                 remain): {}",
                told(who)
            ),
            Self::OthersBusy(who) => {
                write!(f, "other programs used the two cores, up to this share of them: {}", told(who))
            }
            Self::Stolen(who) => write!(f, "the hypervisor took time away, up to this share: {}", told(who)),
            Self::SwapInUse(who) => write!(
                f,
                "swap was in use before the measurement began (swapoff -a && swapon -a empties it): {}",
                told(who)
            ),
            Self::FewAnswers(who) => {
                write!(f, "fewer than {RESPONSES_MIN} answers in a round, so p99 means nothing: {}", told(who))
            }
            Self::RoundsMissing(who) => write!(f, "rounds are missing: {}", told(who)),
            Self::Errors(who) => write!(f, "requests failed or connections were lost: {}", told(who)),
            Self::Hung(who) => write!(f, "no fresh request was answered after the load: {}", told(who)),
            Self::GeneratorLate(who) => write!(
                f,
                "the load generator was late, which latencies contain; one of a hundred requests by more than this: {}",
                told(who)
            ),
            Self::NotResumed(who) => {
                write!(f, "handshakes were full that should have resumed earlier sessions: {}", told(who))
            }
            Self::TicksMissed(who) => write!(
                f,
                "the kernel's ticks saw little of the server's work, so do not believe what cores did (%user to %idle), nor that \
                 nobody else worked (CPU-seconds remain): {}",
                told(who)
            ),
            Self::Spread(who) => {
                write!(f, "rounds differ by more than {:.0} %: {}", SPREAD_MAX * 100.0, told(who))
            }
        }
    }
}

impl Doubt {
    /// The part that concerns this workload, or, without one, the whole run.
    pub(crate) fn concerning(&self, workload: Option<&Workload>) -> Option<Self> {
        let (who, doubt): (_, fn(Vec<Found>) -> Self) = match self {
            Self::GeneratorSaturated(who) => (who, Self::GeneratorSaturated),
            Self::Errors(who) => (who, Self::Errors),
            Self::Hung(who) => (who, Self::Hung),
            Self::GeneratorLate(who) => (who, Self::GeneratorLate),
            Self::NotResumed(who) => (who, Self::NotResumed),
            Self::TicksMissed(who) => (who, Self::TicksMissed),
            Self::Spread(who) => (who, Self::Spread),
            Self::OthersBusy(who) => (who, Self::OthersBusy),
            Self::Stolen(who) => (who, Self::Stolen),
            Self::SwapInUse(who) => (who, Self::SwapInUse),
            Self::FewAnswers(who) => (who, Self::FewAnswers),
            Self::RoundsMissing(who) => (who, Self::RoundsMissing),
            general => return workload.is_none().then(|| general.clone()),
        };
        let id = workload?.id;
        // The heading names the workload.
        let here = who.iter().filter(|found| found.workload == id).map(|found| Found { workload: "", ..found.clone() });
        let who: Vec<Found> = here.collect();
        (!who.is_empty()).then(|| doubt(who))
    }
}

/// All reasons against a run, the most serious first.
pub(crate) fn doubts(results: &Results, summary: &Summary<'_>) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if results.rounds < ROUNDS_MIN {
        doubts.push(Doubt::FewRounds(results.rounds));
    }
    if results.seconds < SECONDS_MIN {
        doubts.push(Doubt::Short(results.seconds));
    }
    if results.host.cores == 1 {
        doubts.push(Doubt::OneCore);
    }
    if results.accounting == Accounting::ProcessTree.to_string() {
        doubts.push(Doubt::CoarseClock);
    }
    let allowed = results.host.descriptors;
    let too_few = |sample: &Sample| u64::from(sample.connections) + DESCRIPTORS_IN_RESERVE > allowed;
    if allowed > 0 && results.samples.iter().any(too_few) {
        doubts.push(Doubt::FewDescriptors(allowed));
    }
    let is_squeezed = |sample: &Sample| matches!(&sample.measure, Measure::Load(load) if load.squeezed.is_some());
    if results.host.swap_mib == 0 && results.samples.iter().any(is_squeezed) {
        doubts.push(Doubt::NoSwap);
    }
    doubts.extend(about_cells(summary, results.experiment().workloads, results.rounds));
    doubts
}

/// A reason against one cell, as a figure; `None` if there is none. The number is that of the wanted rounds.
type Check = fn(&Workload, &Cell<'_>, u32) -> Option<String>;

/// Makes a doubt from its places and figures.
type MakeDoubt = fn(Vec<Found>) -> Doubt;

/// The checks of every cell, the most serious first.
const CHECKS: [(MakeDoubt, Check); 12] = [
    (Doubt::Hung, |_, cell, _| counted(cell.hung())),
    (Doubt::Errors, |_, cell, _| counted(cell.errors())),
    (Doubt::GeneratorSaturated, saturation),
    (Doubt::GeneratorLate, lateness),
    (Doubt::NotResumed, full_handshakes),
    (Doubt::TicksMissed, missed_ticks),
    (Doubt::SwapInUse, swap),
    (Doubt::OthersBusy, |_, cell, _| shared(cell.worst(|load| load.busy.others), OTHERS_MAX)),
    (Doubt::Stolen, |_, cell, _| shared(cell.worst(|load| load.busy.stolen), STOLEN_MAX)),
    (Doubt::RoundsMissing, |_, cell, rounds| {
        let taken = cell.loads().count().max(cell.memories().count());
        (taken < rounds as usize).then(|| format!("{taken} of {rounds}"))
    }),
    (Doubt::FewAnswers, |_, cell, _| {
        let fewest = cell.loads().map(|(_, load)| load.requests).min()?;
        (fewest < RESPONSES_MIN).then(|| fewest.to_string())
    }),
    (Doubt::Spread, |workload, cell, _| {
        // A crowd's cost is not what its measurement is about.
        let is_compared = !matches!(workload.shape, LoadShape::Crowd(_));
        shared(cell.spread(Load::per_cpu_second).filter(|_| is_compared), SPREAD_MAX)
    }),
];

fn about_cells(summary: &Summary<'_>, workloads: &'static [Workload], rounds: u32) -> Vec<Doubt> {
    let cells =
        || workloads.iter().flat_map(|workload| summary.rows(workload).into_iter().map(move |row| (workload, row)));
    let all = CHECKS.iter().map(|(doubt, ground)| {
        let who = cells().filter_map(|(workload, (entry, connections, cell))| {
            let figure = ground(workload, cell, rounds)?;
            let what = match workload.connections().len() {
                1 => format!("{} ({figure})", title(entry)),
                _ => format!("{} at {connections} ({figure})", title(entry)),
            };
            Some(Found { workload: workload.id, what })
        });
        (doubt, who.collect::<Vec<Found>>())
    });
    all.filter(|(_, who)| !who.is_empty()).map(|(doubt, who)| doubt(who)).collect()
}

/// Each workload with all its findings.
fn told(who: &[Found]) -> String {
    let of = |part: &[Found]| {
        let all: Vec<&str> = part.iter().map(|found| found.what.as_str()).collect();
        let heading = part.first().filter(|first| !first.workload.is_empty());
        heading.map_or(String::new(), |first| format!("{}: ", first.workload)) + &all.join("; ")
    };
    who.chunk_by(|one, other| one.workload == other.workload).map(of).collect::<Vec<_>>().join(". ")
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
    let generator = cell.median(|load| load.busy.generator)?;
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

    fn at_nginx(figure: &str) -> Vec<Found> {
        vec![Found { workload: "keepalive", what: format!("nginx ({figure})") }]
    }

    #[test]
    fn a_quiet_thorough_run_raises_no_doubt() {
        assert_eq!(doubts_of(&with(|_| ())), []);
    }

    #[test]
    fn a_quick_run_does() {
        let mut results = with(|_| ());
        (results.rounds, results.seconds, results.host.cores) = (1, 1, 1);
        assert!(Doubt::FewRounds(1).to_string().contains("no intervals"));
        results.accounting = crate::machine::accounting::Accounting::ProcessTree.to_string();
        let expected = [Doubt::FewRounds(1), Doubt::Short(1), Doubt::OneCore, Doubt::CoarseClock];
        assert_eq!(doubts_of(&results), expected);
    }

    #[test]
    fn connections_beyond_the_limit_of_open_files_are_reported() {
        let mut results = with(|_| ());
        results.host.descriptors = 164;
        assert_eq!(doubts_of(&results), []);
        results.host.descriptors = 163;
        assert_eq!(doubts_of(&results), [Doubt::FewDescriptors(163)]);
    }

    #[test]
    fn a_saturated_generator_matters_only_when_the_server_waits() {
        let both_busy = with(|load| load.busy.generator = 1.0);
        assert_eq!(doubts_of(&both_busy), []);
        let server_waits = with(|load| (load.busy.generator, load.busy.server) = (1.0, 0.5));
        assert!(matches!(&doubts_of(&server_waits)[..], [Doubt::GeneratorSaturated(who)] if who.len() == 1));
    }

    #[test]
    fn each_kind_is_told_where_it_was() {
        type Change = fn(&mut Load);
        let expected: [(Change, Doubt); 9] = [
            (|load| load.errors.timeout = 7, Doubt::Errors(at_nginx("21"))),
            (|load| load.busy.others = 0.2, Doubt::OthersBusy(at_nginx("20 %"))),
            (|load| load.busy.stolen = 0.03, Doubt::Stolen(at_nginx("3 %"))),
            (|load| load.fresh_us = 1_000_000, Doubt::Hung(at_nginx("3"))),
            (|load| load.late_p99_us = 700, Doubt::GeneratorLate(at_nginx("0.7 ms"))),
            (|load| load.swap_before_kib = 300 * 1024, Doubt::SwapInUse(at_nginx("300 MB"))),
            (
                |load| {
                    let core = CoreUse { user: 1.0, idle: 99.0, ..CoreUse::default() };
                    load.averages = Some(Averages { core, ..Averages::default() });
                    load.busy.server = 0.14;
                },
                Doubt::TicksMissed(at_nginx("1 % of a core seen, 14 % counted")),
            ),
            (|load| load.requests = 99, Doubt::FewAnswers(at_nginx("99"))),
            (
                |load| (load.busy.generator, load.busy.server) = (1.0, 0.5),
                Doubt::GeneratorSaturated(at_nginx("server 50 % busy")),
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
        assert_eq!(doubts_of(&results), [Doubt::RoundsMissing(at_nginx("2 of 3"))]);
    }

    #[test]
    fn sessions_that_do_not_go_on_are_told_where_they_should() {
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
        let who = vec![Found { workload: "tls-resumed", what: "nginx (20 %)".to_owned() }];
        assert_eq!(doubts("tls-resumed", 300), [Doubt::NotResumed(who)]);
        assert_eq!(doubts("tls-full", 1000), []);
    }

    #[test]
    fn too_little_memory_without_swap_is_reported() {
        let mut results = with(|load| load.squeezed = Some(Box::default()));
        assert_eq!(doubts_of(&results), [Doubt::NoSwap]);
        results.host.swap_mib = 4096;
        assert_eq!(doubts_of(&results), []);
    }

    #[test]
    fn rounds_that_differ_are_reported() {
        let mut results = with(|_| ());
        results.samples[1] = example::load("keepalive", "nginx", 100, 2, 2000);
        assert!(matches!(&doubts_of(&results)[..], [Doubt::Spread(_)]));
    }
}
