//! Reasons to disbelieve a run. They are printed above the figures, not below.

use std::fmt;

use crate::crowd::DESCRIPTORS_IN_RESERVE;
use crate::results::{Load, Measure, Results, Sample};
use crate::summary::{Summary, place};
use crate::workload::{Kind, Workload};

/// Fewer rounds have no median worth the name.
const ROUNDS_MIN: u32 = 3;
/// Shorter measurements consist of start and end.
const SECONDS_MIN: u32 = 2;
/// Above this share of its core the load generator has nothing in reserve.
const GENERATOR_BUSY_MAX: f64 = 0.95;
/// Below this share of its core the server has something in reserve.
const SERVER_BUSY_MIN: f64 = 0.90;
/// More work of others than this on the two cores disturbs both sides.
const OTHERS_MAX: f64 = 0.05;
/// More stolen time than this means that the machine is not ours.
const STOLEN_MAX: f64 = 0.02;
/// A generator that is late by more than this, in microseconds, was kept from working.
const LATE_MAX_US: f64 = 500.0;
/// Rounds that differ more than this measure something else.
const SPREAD_MAX: f64 = 0.10;

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
    /// So many files may be opened, too few for some numbers of connections.
    FewDescriptors(u64),
    /// There is no swap, which would have been used.
    NoSwap,
    /// The load generator was the limit, not the server.
    GeneratorSaturated(Vec<String>),
    /// Somebody else worked on the two cores: in so many measurements, at worst this share.
    OthersBusy(usize, f64),
    /// The hypervisor took time away.
    Stolen(usize, f64),
    /// Requests failed or connections were lost.
    Errors(Vec<String>),
    /// A fresh request was not answered after the load.
    Hung(Vec<String>),
    /// The generator did not keep its schedule.
    GeneratorLate(Vec<String>),
    /// Rounds differ.
    Spread(Vec<String>),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewRounds(rounds) => write!(f, "only {rounds} round(s): use --rounds {ROUNDS_MIN} or more"),
            Self::Short(seconds) => {
                write!(f, "only {seconds} s for each measurement: use --seconds {SECONDS_MIN} or more")
            }
            Self::OneCore => f.write_str("server and load generator shared one core: latencies and req/s mean little"),
            Self::CoarseClock => {
                f.write_str("no control group was writable, CPU time was read from the process tree: run as root")
            }
            Self::FewDescriptors(allowed) => write!(
                f,
                "a process may open {allowed} files only, so there were a few connections less than it says: raise the \
                 limit (ulimit -Hn 50000)"
            ),
            Self::NoSwap => f.write_str(
                "the machine has no swap: where a server with swap would stand still, the kernel ends processes here",
            ),
            Self::GeneratorSaturated(who) => write!(
                f,
                "the load generator was the limit, so req/s and latencies say little (requests per CPU-second \
                 remain): {}",
                who.join("; ")
            ),
            Self::OthersBusy(count, worst) => write!(
                f,
                "other programs worked on the two cores during {count} measurement(s), up to {:.0} % of their time",
                worst * 100.0
            ),
            Self::Stolen(count, worst) => {
                write!(f, "the hypervisor took time away during {count} measurement(s), up to {:.0} %", worst * 100.0)
            }
            Self::Errors(who) => write!(f, "requests failed or connections were lost: {}", who.join("; ")),
            Self::Hung(who) => write!(f, "no fresh request was answered after the load: {}", who.join("; ")),
            Self::GeneratorLate(who) => write!(
                f,
                "the load generator was late, which latencies contain: one of a hundred requests by more than {}",
                who.join("; ")
            ),
            Self::Spread(who) => {
                write!(f, "rounds differ by more than {:.0} %: {}", SPREAD_MAX * 100.0, who.join("; "))
            }
        }
    }
}

impl Doubt {
    /// The part of it that concerns this workload, or, without one, what concerns the whole run.
    pub(crate) fn concerning(&self, workload: Option<&Workload>) -> Option<Self> {
        let (who, doubt): (_, fn(Vec<String>) -> Self) = match self {
            Self::GeneratorSaturated(who) => (who, Self::GeneratorSaturated),
            Self::Errors(who) => (who, Self::Errors),
            Self::Hung(who) => (who, Self::Hung),
            Self::GeneratorLate(who) => (who, Self::GeneratorLate),
            Self::Spread(who) => (who, Self::Spread),
            general => return workload.is_none().then(|| general.clone()),
        };
        let id = workload?.id;
        let concerns = |place: &&String| place.split([' ', '/']).any(|word| word == id);
        let who: Vec<String> = who.iter().filter(concerns).cloned().collect();
        (!who.is_empty()).then(|| doubt(who))
    }
}

/// All reasons against a run, gravest first.
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
    if results.accounting.contains("coarse") {
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
    doubts.extend(about_machine(&results.samples));
    doubts.extend(about_cells(summary, results.experiment().workloads));
    doubts
}

fn about_machine(samples: &[Sample]) -> Vec<Doubt> {
    let loads = || {
        samples.iter().filter_map(|sample| match &sample.measure {
            Measure::Load(load) => Some(&**load),
            Measure::Memory(_) => None,
        })
    };
    let above = |limit: f64, share: fn(&Load) -> f64| {
        let shares: Vec<f64> = loads().map(share).filter(|share| *share > limit).collect();
        let worst = shares.iter().copied().fold(0.0, f64::max);
        (!shares.is_empty()).then_some((shares.len(), worst))
    };
    let others = above(OTHERS_MAX, |load| load.busy.others).map(|(count, worst)| Doubt::OthersBusy(count, worst));
    let stolen = above(STOLEN_MAX, |load| load.busy.stolen).map(|(count, worst)| Doubt::Stolen(count, worst));
    others.into_iter().chain(stolen).collect()
}

fn about_cells(summary: &Summary<'_>, workloads: &'static [Workload]) -> Vec<Doubt> {
    let (mut saturated, mut errors, mut spread) = (Vec::new(), Vec::new(), Vec::new());
    let (mut hung, mut late) = (Vec::new(), Vec::new());
    for workload in workloads {
        for (entry, connections, cell) in summary.rows(workload) {
            let name = place(workload, entry, connections);
            let generator = cell.median(|load| load.busy.generator).unwrap_or(0.0);
            let server = cell.median(|load| load.busy.server).unwrap_or(1.0);
            // At a fixed rate the generator is always busy, looking for events.
            let is_limited = matches!(workload.kind, Kind::Load { .. });
            if is_limited && generator > GENERATOR_BUSY_MAX && server < SERVER_BUSY_MIN {
                saturated.push(format!("{name} (server {:.0} % busy)", server * 100.0));
            }
            if cell.errors() > 0 {
                errors.push(format!("{name} ({})", cell.errors()));
            }
            if cell.hung() > 0 {
                hung.push(format!("{name} ({})", cell.hung()));
            }
            if let Some(delay) = cell.median(|load| load.late_p99_us as f64).filter(|delay| *delay > LATE_MAX_US) {
                late.push(format!("{:.1} ms in {name}", delay / 1000.0));
            }
            // What a crowd costs is not what is asked of it.
            let is_compared = !matches!(workload.kind, Kind::Crowd(_));
            if let Some(share) = cell.spread(Load::per_cpu_second).filter(|share| is_compared && *share > SPREAD_MAX) {
                spread.push(format!("{name} ({:.0} %)", share * 100.0));
            }
        }
    }
    let some = |who: Vec<String>, doubt: fn(Vec<String>) -> Doubt| (!who.is_empty()).then(|| doubt(who));
    let all = [
        some(hung, Doubt::Hung),
        some(errors, Doubt::Errors),
        some(saturated, Doubt::GeneratorSaturated),
        some(late, Doubt::GeneratorLate),
        some(spread, Doubt::Spread),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::example;

    fn doubts_of(results: &Results) -> Vec<Doubt> {
        doubts(results, &Summary::of(results))
    }

    fn with(change: fn(&mut Load)) -> Results {
        let mut results = example::empty();
        let mut sample = example::load("keepalive", "nginx", 100, 1, 1000);
        if let Measure::Load(load) = &mut sample.measure {
            change(load);
        }
        results.samples.push(sample);
        results
    }

    #[test]
    fn a_quiet_thorough_run_raises_no_doubt() {
        assert_eq!(doubts_of(&with(|_| ())), []);
    }

    #[test]
    fn a_quick_run_does() {
        let mut results = with(|_| ());
        (results.rounds, results.seconds, results.host.cores) = (1, 1, 1);
        results.accounting = crate::accounting::Accounting::ProcessTree.to_string();
        let expected = [Doubt::FewRounds(1), Doubt::Short(1), Doubt::OneCore, Doubt::CoarseClock];
        assert_eq!(doubts_of(&results), expected);
    }

    #[test]
    fn connections_beyond_the_limit_of_open_files_are_told() {
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
    fn errors_and_neighbours_are_told() {
        let errors = doubts_of(&with(|load| load.errors.timeout = 7));
        assert_eq!(errors, [Doubt::Errors(vec!["keepalive nginx (7)".to_owned()])]);
        let neighbours = doubts_of(&with(|load| (load.busy.others, load.busy.stolen) = (0.2, 0.03)));
        assert_eq!(neighbours, [Doubt::OthersBusy(1, 0.2), Doubt::Stolen(1, 0.03)]);
        let hung = doubts_of(&with(|load| load.fresh_us = 1_000_000));
        assert_eq!(hung, [Doubt::Hung(vec!["keepalive nginx (1)".to_owned()])]);
    }

    #[test]
    fn too_little_memory_without_swap_is_told() {
        let mut results = with(|load| load.squeezed = Some(Box::default()));
        assert_eq!(doubts_of(&results), [Doubt::NoSwap]);
        results.host.swap_mib = 4096;
        assert_eq!(doubts_of(&results), []);
    }

    #[test]
    fn rounds_that_differ_are_told() {
        let mut results = with(|_| ());
        results.samples.push(example::load("keepalive", "nginx", 100, 2, 2000));
        assert!(matches!(&doubts_of(&results)[..], [Doubt::Spread(_)]));
    }
}
