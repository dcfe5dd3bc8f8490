//! The candidates: settings, and their effects. Arithmetic only.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use crate::tune::advise::decision::{Setting, nginx_settings, process_settings, thread_settings};

/// A multi-processing module, or nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mpm {
    Event,
    Worker,
    Prefork,
    Percore,
    #[value(skip)]
    Nginx,
}

impl Mpm {
    /// Its name in configurations.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Worker => "worker",
            Self::Prefork => "prefork",
            Self::Percore => "percore",
            Self::Nginx => "nginx",
        }
    }

    /// The module of this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|mpm| mpm.name() == name)
    }
}

/// A candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Candidate {
    pub(super) mpm: Mpm,
    /// Children, or processes of nginx; 0 if the module decides.
    pub(super) children: u64,
    /// Threads of a child, or connections of a process of nginx.
    pub(super) threads: u64,
    /// `AsyncRequestWorkerFactor`, if it is not left to the server.
    pub(super) factor: Option<u64>,
}

/// The machine and the load for which a space is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpaceLimits {
    pub(super) cores: u64,
    /// Connections at a time.
    pub(super) clients: u64,
    /// The fewest workers to try: this many slow requests stop a site.
    pub(super) least: u64,
}

/// Workers beyond this multiple of the clients would be idle.
const WORKERS_PER_CLIENT: u64 = 4;

/// The fewest connections per process of nginx that are worth configuring (its default).
const CONNECTIONS_MIN: u64 = 512;

/// The most threads of a child to try.
const THREADS_MAX: u64 = 256;

/// The smallest number of clients to assume, however small the load is.
const CLIENTS_MIN: u64 = 64;

/// All candidates for a module.
pub(super) fn space(mpm: Mpm, frame: SpaceLimits) -> Vec<Candidate> {
    let clients = frame.clients.max(CLIENTS_MIN).max(frame.least);
    let powers = |most: u64| (0..64).map(|power| 1 << power).take_while(move |number| *number <= most);
    let candidate = |children, threads, factor| Candidate { mpm, children, threads, factor };
    let mut all: Vec<Candidate> = match mpm {
        Mpm::Percore => vec![candidate(0, 0, None)],
        Mpm::Prefork => powers(clients.next_power_of_two()).map(|children| candidate(children, 1, None)).collect(),
        Mpm::Nginx => {
            let each = (2 * frame.clients).next_power_of_two().max(CONNECTIONS_MIN);
            let numbers = children(frame.cores);
            numbers.into_iter().map(|children| candidate(children, each, None)).collect()
        }
        Mpm::Event | Mpm::Worker => {
            let threads: Vec<u64> = powers(clients.next_power_of_two().min(THREADS_MAX)).collect();
            let grid =
                children(frame.cores).into_iter().flat_map(|number| threads.iter().map(move |each| (number, *each)));
            let grid = grid.filter(|(number, each)| number * each <= WORKERS_PER_CLIENT * clients);
            grid.flat_map(|(number, each)| {
                let open = Some(factor(number, each, frame.clients)).filter(|factor| mpm == Mpm::Event && *factor > 2);
                [Some(candidate(number, each, None)), open.map(|factor| candidate(number, each, Some(factor)))]
            })
            .flatten()
            .collect()
        }
    };
    all.retain(|candidate| candidate.has_workers(frame.least));
    all
}

/// Puts candidates into an order that has nothing to do with their numbers, and is always the same: successive ones
/// differ, and if the time is too short for all, a bit of everything has been tried.
pub(super) fn mix(all: &mut [Candidate]) {
    // Multiples of the golden ratio, whose fractions are spread evenly.
    let place = |at: usize| (at as u32 + 1).wrapping_mul(0x9E37_79B9);
    let mut mixed: Vec<(u32, Candidate)> = all.iter().enumerate().map(|(at, one)| (place(at), *one)).collect();
    mixed.sort_unstable();
    all.iter_mut().zip(mixed).for_each(|(slot, (_, one))| *slot = one);
}

/// From one to four for each core.
fn children(cores: u64) -> Vec<u64> {
    let mut all = vec![1, cores.div_ceil(4), cores.div_ceil(2), cores, 2 * cores, 4 * cores];
    all.sort_unstable();
    all.dedup();
    all
}

/// The `AsyncRequestWorkerFactor` with which this many children let in all clients.
fn factor(children: u64, threads: u64, clients: u64) -> u64 {
    clients.div_ceil(children).saturating_sub(threads).div_ceil(threads)
}

/// The neighbours of settings, closer than in the first space, that were not tried yet.
pub(super) fn neighbours(of: Candidate, tried: &[Candidate], cores: u64) -> Vec<Candidate> {
    if of.children == 0 {
        return Vec::new();
    }
    let Candidate { children, threads, .. } = of;
    let beside = |number: u64| [number - number / 2, number - number / 4, number + number.div_ceil(4), number * 2];
    let mut all: Vec<Candidate> = Vec::new();
    if of.mpm != Mpm::Nginx && of.mpm != Mpm::Prefork {
        all.extend(beside(threads).map(|threads| Candidate { threads, ..of }));
    }
    let numbers = beside(children).into_iter().filter(|number| of.mpm == Mpm::Prefork || *number <= 4 * cores);
    all.extend(numbers.map(|children| Candidate { children, ..of }));
    if let Some(factor) = of.factor {
        all.extend([factor.div_ceil(2), factor * 2].map(|factor| Candidate { factor: Some(factor), ..of }));
    }
    all.retain(|candidate| *candidate != of && !tried.contains(candidate));
    all.sort_unstable();
    all.dedup();
    all
}

impl Candidate {
    /// Whether it has at least this many workers; one without a number always has enough.
    pub(super) fn has_workers(self, least: u64) -> bool {
        matches!(self.mpm, Mpm::Percore | Mpm::Nginx) || self.children * self.threads >= least
    }

    /// Its lines, each with its reason; `why` is the reason for the number of workers.
    pub(super) fn settings(self, why: &str) -> Vec<Setting> {
        let Self { mpm, children, threads, factor } = self;
        let measured = || "answered best under this load, of all that was tried".to_owned();
        let mut settings = match mpm {
            Mpm::Percore => Vec::new(),
            Mpm::Prefork => process_settings(children, format!("{}; {why}", measured())),
            Mpm::Nginx => {
                nginx_settings(children, threads, measured(), "room for twice the connections of the load".to_owned())
            }
            Mpm::Event | Mpm::Worker => thread_settings(children, threads, measured(), why.to_owned()),
        };
        settings.extend(factor.map(|value| {
            Setting {
                name: "AsyncRequestWorkerFactor",
                value,
                why: "how many connections a child lets in for each idle worker: enough for all clients of the load"
                    .to_owned(),
            }
        }));
        settings
    }

    /// The effect of its lines.
    pub(super) fn extent(self) -> EffectiveSettings {
        let settings = self.settings("");
        EffectiveSettings::of(
            self.mpm,
            &settings.iter().map(|one| (one.name.to_ascii_lowercase(), one.value)).collect(),
        )
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mpm, children, threads, factor } = self;
        match mpm {
            Mpm::Percore => write!(f, "percore"),
            Mpm::Prefork => write!(f, "prefork {children}"),
            Mpm::Nginx => write!(f, "nginx {children} × {threads} connections"),
            _ => write!(f, "{} {children} × {threads}", mpm.name()),
        }?;
        factor.map_or(Ok(()), |factor| write!(f, ", factor {factor}"))
    }
}

/// The effect of settings after a server has corrected them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct EffectiveSettings {
    pub(super) mpm: Mpm,
    /// Children at the start of the server, and at most.
    pub(super) first: u64,
    pub(super) children: u64,
    /// Serving threads of each.
    pub(super) threads: u64,
    /// How many connections are let in at a time, if that is limited.
    pub(super) connections: Option<u64>,
}

impl EffectiveSettings {
    /// Corrects settings like Apache (prefork.c, worker.c and event.c of 2.4); they have lower-case names.
    pub(super) fn of(mpm: Mpm, settings: &BTreeMap<String, u64>) -> Self {
        let value = |name: &str, default: u64| settings.get(name).copied().unwrap_or(default);
        match mpm {
            Mpm::Percore => Self { mpm, first: 0, children: 0, threads: 1, connections: None },
            Mpm::Nginx => {
                let children = value("worker_processes", 1);
                let connections = Some(children * value("worker_connections", CONNECTIONS_MIN));
                Self { mpm, first: children, children, threads: 1, connections }
            }
            Mpm::Prefork => {
                let limit = value("serverlimit", 256).max(1);
                let children = value("maxrequestworkers", limit).clamp(1, limit);
                let first = value("startservers", 5).clamp(1, children);
                Self { mpm, first, children, threads: 1, connections: Some(children) }
            }
            Mpm::Event | Mpm::Worker => {
                let threads = value("threadsperchild", 25).clamp(1, value("threadlimit", 64).max(1));
                let limit = value("serverlimit", 16).max(1);
                let children = (value("maxrequestworkers", limit * threads) / threads).clamp(1, limit);
                let first = value("startservers", 3).clamp(1, children);
                let each = match mpm {
                    Mpm::Event => threads + threads * value("asyncrequestworkerfactor", 2),
                    _ => threads,
                };
                Self { mpm, first, children, threads, connections: Some(children * each) }
            }
        }
    }

    /// The most workers.
    pub(super) fn workers(self) -> u64 {
        self.children * self.threads
    }
}

impl fmt::Display for EffectiveSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mpm, first, children, threads, .. } = *self;
        let count = |number: u64, name: &str, many: &str| format!("{number} {}", if number == 1 { name } else { many });
        let processes = match first == children {
            true => count(children, "process", "processes"),
            false => format!("{first} to {}", count(children, "process", "processes")),
        };
        match mpm {
            Mpm::Percore => write!(f, "a process for each core"),
            Mpm::Nginx | Mpm::Prefork => write!(f, "{processes}"),
            _ => write!(
                f,
                "{processes} with {}{}",
                count(threads, "worker", "workers"),
                if children > 1 { " each" } else { "" }
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(children: u64, threads: u64, factor: Option<u64>) -> Candidate {
        Candidate { mpm: Mpm::Event, children, threads, factor }
    }

    #[test]
    fn a_space_follows_from_cores_and_clients() {
        let told = |mpm, cores, clients| {
            let all = space(mpm, SpaceLimits { cores, clients, least: 1 });
            all.iter().map(|one| format!("{}x{}", one.children, one.threads)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told(Mpm::Prefork, 2, 3), "1x1 2x1 4x1 8x1 16x1 32x1 64x1");
        assert_eq!(told(Mpm::Percore, 2, 100), "0x0");
        assert_eq!(told(Mpm::Nginx, 2, 300), "1x1024 2x1024 4x1024 8x1024");
        let worker = told(Mpm::Worker, 1, 100);
        assert!(
            worker.starts_with("1x1 1x2 1x4 1x8 1x16 1x32 1x64 1x128 2x1 ") && worker.ends_with("4x64"),
            "{worker}"
        );
    }

    #[test]
    fn a_site_has_a_least_number_of_workers() {
        for mpm in [Mpm::Event, Mpm::Worker, Mpm::Prefork] {
            for least in [4, 100, 1000] {
                let all = space(mpm, SpaceLimits { cores: 2, clients: 100, least });
                let fewest = all.iter().map(|one| one.extent().workers()).min();
                assert!(
                    fewest.is_some_and(|fewest| (least..2 * least).contains(&fewest)),
                    "{mpm:?} {least}: {fewest:?}"
                );
            }
        }
        assert_eq!(space(Mpm::Percore, SpaceLimits { cores: 2, clients: 100, least: 9 }).len(), 1);
        assert_eq!(space(Mpm::Nginx, SpaceLimits { cores: 1, clients: 100, least: 9 }).len(), 3);
    }

    #[test]
    fn event_is_tried_with_doors_wide_open_too() {
        let all = space(Mpm::Event, SpaceLimits { cores: 1, clients: 100, least: 1 });
        assert!(all.contains(&event(1, 2, None)) && all.contains(&event(1, 2, Some(49))), "{all:?}");
        assert!(all.contains(&event(1, 64, None)) && !all.iter().any(|one| one.threads == 64 && one.factor.is_some()));
        let lets_in = |candidate: &Candidate| candidate.extent().connections >= Some(100);
        assert!(all.iter().filter(|one| one.factor.is_some()).all(lets_in), "{all:?}");
    }

    #[test]
    fn settings_come_to_their_numbers() {
        for mpm in [Mpm::Event, Mpm::Worker, Mpm::Prefork] {
            for candidate in space(mpm, SpaceLimits { cores: 4, clients: 1000, least: 1 }) {
                let extent = candidate.extent();
                let expected = (candidate.children, candidate.children, candidate.threads);
                assert_eq!((extent.first, extent.children, extent.threads), expected, "{candidate}");
            }
        }
    }

    #[test]
    fn settings_come_to_what_apache_makes_of_them() {
        let told = |mpm, settings: &[(&str, u64)]| {
            let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let extent = EffectiveSettings::of(mpm, &settings);
            format!("{extent}; {:?}", extent.connections.unwrap_or(0))
        };
        assert_eq!(told(Mpm::Event, &[]), "3 to 16 processes with 25 workers each; 1200");
        let seed = [("startservers", 4), ("minsparethreads", 4), ("threadsperchild", 2), ("maxrequestworkers", 2)];
        assert_eq!(told(Mpm::Event, &seed), "1 process with 2 workers; 6");
        let singles = [("startservers", 4), ("threadsperchild", 1), ("maxrequestworkers", 4)];
        assert_eq!(told(Mpm::Event, &singles), "4 processes with 1 worker each; 12");
        let addendum = [
            ("asyncrequestworkerfactor", 2),
            ("serverlimit", 32),
            ("maxrequestworkers", 8192),
            ("threadlimit", 256),
            ("startservers", 2048),
            ("threadsperchild", 256),
        ];
        assert_eq!(told(Mpm::Event, &addendum), "32 processes with 256 workers each; 24576");
        assert_eq!(told(Mpm::Worker, &[("threadsperchild", 100)]), "3 to 16 processes with 64 workers each; 1024");
        assert_eq!(told(Mpm::Prefork, &[("maxrequestworkers", 1000)]), "5 to 256 processes; 256");
    }

    #[test]
    fn neighbours_are_close_and_new() {
        let told = |all: Vec<Candidate>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let tried = [event(1, 1, None), event(1, 2, None), event(1, 4, None), event(2, 2, None)];
        assert_eq!(told(neighbours(event(1, 2, None), &tried, 2)), "event 1 × 3");
        assert_eq!(
            told(neighbours(event(2, 16, Some(3)), &tried, 2)),
            "event 1 × 16, factor 3; event 2 × 8, factor 3; event 2 × 12, factor 3; event 2 × 16, factor 2; \
             event 2 × 16, factor 6; event 2 × 20, factor 3; event 2 × 32, factor 3; event 3 × 16, factor 3; event 4 × 16, factor 3"
        );
    }

    #[test]
    fn an_order_is_mixed_and_complete() {
        let all = space(Mpm::Event, SpaceLimits { cores: 2, clients: 100, least: 1 });
        let mut mixed = all.clone();
        mix(&mut mixed);
        let steps = mixed.windows(2).filter(|pair| pair[0] < pair[1] && pair[0].children == pair[1].children);
        assert!(steps.count() < all.len() / 2, "{mixed:?}");
        mixed.sort_unstable();
        let mut sorted = all;
        sorted.sort_unstable();
        assert_eq!(mixed, sorted);
    }
}
