//! From observations to settings: arithmetic only.

use serde::Serialize;

use super::memory::AvailableMemory;

/// The observations of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Observations {
    /// The multi-processing module, in lower case; `nginx` for nginx.
    pub(super) mpm: String,
    /// Busy workers (connections of nginx) at the last observation.
    pub(super) busy: u64,
    /// The most that were busy at once.
    pub(super) peak: u64,
    /// Whether there was a moment with no idle worker and no room for another one.
    pub(super) was_full: bool,
    /// How many seconds the server was observed.
    pub(super) seconds: u64,
    /// Proportional memory per worker including its share of scripts, in KiB; `None` if it could not be read.
    pub(super) worker_kib: Option<u64>,
    /// Proportional memory of all workers and scripts, in KiB.
    pub(super) used_kib: u64,
    pub(super) room: Option<AvailableMemory>,
    pub(super) cores: u64,
}

/// The recommendation.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Advice {
    /// How many workers the memory can hold.
    pub(super) memory_bound: Option<u64>,
    pub(super) settings: Vec<Setting>,
    /// Gaps in the observations, and what to do about them.
    pub(super) doubts: Vec<String>,
}

/// A line of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: u64,
    pub(crate) why: String,
}

/// The safety factor above the peak, for a busier day: the rule of the article that `run cgi-mpm` repeats.
const PEAK_FACTOR: u64 = 2;

/// The fewest threads that are worth a child of their own.
const THREADS_MIN: u64 = 8;

/// `ThreadLimit` if it is not configured (Apache: worker.c, event.c).
const THREAD_LIMIT: u64 = 64;

/// The fewest connections per process of nginx that are worth configuring (its default).
const CONNECTIONS_MIN: u64 = 512;

/// The servers with numbers to set: three modules, and nginx.
const MODULES: [&str; 4] = ["prefork", "worker", "event", "nginx"];

/// A remark on limits for which memory is reserved when a server starts.
const AT_START: &str = "counts after a stop and a start, not after a graceful restart";

/// Decides.
pub(super) fn decide(facts: &Observations) -> Advice {
    // The memory of idle workers does not show how much busy ones need.
    let memory_bound = facts.memory_bound().filter(|_| !facts.is_quiet());
    if !MODULES.contains(&facts.mpm.as_str()) {
        let doubt =
            format!("{} has no number of workers to set: it starts as many as the processors can use", facts.mpm);
        return Advice { memory_bound, doubts: vec![doubt], ..Advice::default() };
    }
    let mut advice = Advice { memory_bound, settings: Vec::new(), doubts: facts.doubts() };
    if facts.is_quiet() {
        return advice;
    }
    let wanted = PEAK_FACTOR * facts.peak;
    let max = memory_bound.map_or(wanted, |bound| wanted.min(bound.max(1)));
    let is_short = max < wanted;
    let why = match (memory_bound, is_short) {
        (Some(bound), true) => format!("the memory can hold {bound}; twice the peak would be {wanted}"),
        (Some(bound), false) => format!("twice the peak of {}; the memory can hold {bound}", facts.peak),
        (None, _) => format!("twice the peak of {}; how many the memory can hold is not known", facts.peak),
    };
    if is_short && memory_bound < Some(facts.peak) {
        advice.doubts.push(
            "the memory cannot even hold the current peak: add memory, or find what workers need it for".to_owned(),
        );
    }
    advice.settings = match facts.mpm.as_str() {
        "prefork" => process_settings(max, why),
        "worker" | "event" => threads(max, is_short, facts.cores, why),
        _ => connections(facts),
    };
    advice
}

impl Observations {
    /// How many workers fit into the free memory plus that of the current ones, minus the reserve.
    fn memory_bound(&self) -> Option<u64> {
        let room = self.room?;
        Some(room.usable(self.used_kib) / self.worker_kib?.max(1))
    }

    /// Whether the server answered only the status page.
    fn is_quiet(&self) -> bool {
        self.peak <= 1
    }

    fn doubts(&self) -> Vec<String> {
        let is_nginx = self.mpm == "nginx";
        let told = [
            (
                self.is_quiet(),
                "nothing was served but the status page, so there is no basis for a calculation: use --watch while people use the server, or --peak N".to_owned(),
            ),
            (
                self.was_full,
                "no worker was left at the peak, so more may have been wanted: advise again after this change".to_owned(),
            ),
            (
                !self.is_quiet(),
                format!("it was watched for {} s: its busiest hour may need more (--watch 1h in that hour, or --peak N)", self.seconds),
            ),
            (
                !self.is_quiet() && self.worker_kib.is_some() && self.busy * 2 < self.peak,
                "most workers were idle at the last look at their memory, and they need more while they serve: advise again while they are busy".to_owned(),
            ),
            (
                !is_nginx && self.worker_kib.is_none(),
                "the memory of its processes cannot be read, so the numbers are not limited to what the machine can hold: run this as root on the server's machine".to_owned(),
            ),
        ];
        told.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text).collect()
    }
}

/// The first number is the decision, and the others equal it: nothing is started or ended under load.
fn all_the_same<const N: usize>(first: Setting, others: [&'static str; N]) -> Vec<Setting> {
    let value = first.value;
    let same =
        |name| Setting { name, value, why: "the same, so that nothing is started or ended under load".to_owned() };
    std::iter::once(first).chain(others.map(same)).collect()
}

/// A fixed number of children with one worker each.
pub(crate) fn process_settings(max: u64, why: String) -> Vec<Setting> {
    let mut settings =
        vec![Setting { name: "ServerLimit", value: max, why: format!("room for MaxRequestWorkers; {AT_START}") }];
    let first = Setting { name: "MaxRequestWorkers", value: max, why };
    settings.extend(all_the_same(first, ["StartServers", "MinSpareServers", "MaxSpareServers"]));
    settings
}

/// Few, large children: as many as there are cores, if each gets enough threads.
fn threads(max: u64, is_short: bool, cores: u64, why: String) -> Vec<Setting> {
    let children = (max / THREADS_MIN).clamp(1, cores.max(1));
    let per_child = if is_short { (max / children).max(1) } else { max.div_ceil(children) };
    let children_why = format!("few, large children for {cores} cores");
    thread_settings(children, per_child, children_why, why)
}

/// A fixed number of children with a fixed number of threads; the reasons are for the number of children, and for the
/// total.
pub(crate) fn thread_settings(children: u64, per_child: u64, children_why: String, why: String) -> Vec<Setting> {
    let mut settings = vec![Setting {
        name: "ServerLimit",
        value: children * 2,
        why: format!(
            "twice the children: after a graceful restart the old ones may still have connections; {AT_START}"
        ),
    }];
    if per_child > THREAD_LIMIT {
        settings.push(Setting {
            name: "ThreadLimit",
            value: per_child,
            why: format!("ThreadsPerChild may not be more, and this is {THREAD_LIMIT} where nothing is written"),
        });
    }
    settings.extend([
        Setting { name: "StartServers", value: children, why: children_why },
        Setting { name: "ThreadsPerChild", value: per_child, why: "MaxRequestWorkers, divided among them".to_owned() },
    ]);
    let first = Setting { name: "MaxRequestWorkers", value: per_child * children, why };
    settings.extend(all_the_same(first, ["MinSpareThreads", "MaxSpareThreads"]));
    settings
}

fn connections(facts: &Observations) -> Vec<Setting> {
    let each = (PEAK_FACTOR * facts.peak).div_ceil(facts.cores.max(1)).max(CONNECTIONS_MIN);
    let why =
        format!("twice the peak of {}, at least {CONNECTIONS_MIN}; twice as many where nginx is a proxy", facts.peak);
    nginx_settings(facts.cores, each, "one for each core".to_owned(), why)
}

/// This many nginx processes with this many connections each, and the reasons.
pub(crate) fn nginx_settings(processes: u64, connections: u64, processes_why: String, why: String) -> Vec<Setting> {
    vec![
        Setting { name: "worker_processes", value: processes, why: processes_why },
        Setting { name: "worker_connections", value: connections, why },
    ]
}

/// The lines of a configuration, each below its reason.
pub(crate) fn fragment(mpm: &str, settings: &[Setting]) -> String {
    let is_nginx = mpm == "nginx";
    let line = |setting: &Setting| {
        let Setting { name, value, why } = setting;
        match (is_nginx, *name) {
            (true, "worker_connections") => format!("events {{\n    # {why}\n    {name} {value};\n}}\n"),
            (true, _) => format!("# {why}\n{name} {value};\n"),
            (false, _) => format!("# {why}\n{name} {value}\n"),
        }
    };
    settings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(mpm: &str, peak: u64, memory: Option<(u64, u64, u64)>) -> Observations {
        let room = memory.map(|(all, left, _)| AvailableMemory { all, left, is_group: false });
        Observations {
            mpm: mpm.to_owned(),
            busy: 1,
            peak,
            was_full: false,
            seconds: 10,
            worker_kib: memory.map(|(_, _, worker)| worker),
            used_kib: 0,
            room,
            cores: 4,
        }
    }

    fn described(facts: &Observations) -> String {
        let settings = decide(facts).settings;
        settings.iter().map(|setting| format!("{}={}", setting.name, setting.value)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_follow_from_peak_and_memory() {
        const WIDE: Option<(u64, u64, u64)> = Some((1_000_000, 1_000_000, 100));
        let cases = [
            (
                "prefork",
                40,
                WIDE,
                "ServerLimit=80 MaxRequestWorkers=80 StartServers=80 MinSpareServers=80 MaxSpareServers=80",
            ),
            // 1 000 000 KiB, a tenth stays free, 700 000 are left: 600 000 for workers of 10 000.
            (
                "prefork",
                40,
                Some((1_000_000, 700_000, 10_000)),
                "ServerLimit=60 MaxRequestWorkers=60 StartServers=60 MinSpareServers=60 MaxSpareServers=60",
            ),
            (
                "prefork",
                40,
                Some((1_000_000, 50_000, 10_000)),
                "ServerLimit=1 MaxRequestWorkers=1 StartServers=1 MinSpareServers=1 MaxSpareServers=1",
            ),
            (
                "prefork",
                3,
                None,
                "ServerLimit=6 MaxRequestWorkers=6 StartServers=6 MinSpareServers=6 MaxSpareServers=6",
            ),
            // Too few for several children.
            (
                "event",
                2,
                WIDE,
                "ServerLimit=2 StartServers=1 ThreadsPerChild=4 MaxRequestWorkers=4 MinSpareThreads=4 MaxSpareThreads=4",
            ),
            // Only the status page was requested: no basis for any number.
            ("event", 1, WIDE, ""),
            // 90 workers in four children are 23 each, rounded up; those that fit in memory, down.
            (
                "event",
                45,
                WIDE,
                "ServerLimit=8 StartServers=4 ThreadsPerChild=23 MaxRequestWorkers=92 MinSpareThreads=92 MaxSpareThreads=92",
            ),
            (
                "worker",
                450,
                Some((1_000_000, 190_000, 1_000)),
                "ServerLimit=8 StartServers=4 ThreadsPerChild=22 MaxRequestWorkers=88 MinSpareThreads=88 MaxSpareThreads=88",
            ),
            (
                "event",
                200,
                WIDE,
                "ServerLimit=8 ThreadLimit=100 StartServers=4 ThreadsPerChild=100 MaxRequestWorkers=400 MinSpareThreads=400 MaxSpareThreads=400",
            ),
            ("nginx", 10, None, "worker_processes=4 worker_connections=512"),
            ("nginx", 6001, None, "worker_processes=4 worker_connections=3001"),
            ("percore", 10, None, ""),
        ];
        for (mpm, peak, memory, expected) in cases {
            assert_eq!(described(&facts(mpm, peak, memory)), expected, "{mpm} {peak} {memory:?}");
        }
    }

    #[test]
    fn the_memory_of_present_workers_counts_as_free() {
        let present = Observations { used_kib: 500_000, ..facts("prefork", 40, Some((1_000_000, 200_000, 10_000))) };
        assert_eq!(decide(&present).memory_bound, Some(60));
    }

    #[test]
    fn unseen_figures_are_reported() {
        let doubts = |facts: &Observations| decide(facts).doubts.join("\n");
        let wide = facts("event", 8, Some((1_000_000, 900_000, 100)));
        assert!(!doubts(&wide).contains("root") && doubts(&wide).contains("10 s"));
        assert!(doubts(&facts("event", 8, None)).contains("root"));
        assert!(doubts(&wide).contains("were idle"));
        assert!(!doubts(&Observations { busy: 4, ..wide.clone() }).contains("were idle"));
        assert!(doubts(&Observations { was_full: true, ..wide }).contains("no worker was left"));
        assert!(doubts(&facts("event", 8, Some((1_000, 200, 100)))).contains("cannot even hold the current peak"));
        assert!(doubts(&facts("event", 1, None)).contains("nothing was served"));
        assert!(doubts(&facts("percore", 8, None)).contains("no number of workers"));
    }

    #[test]
    fn a_fragment_is_a_configuration() {
        let event = decide(&facts("event", 45, None)).settings;
        assert!(fragment("event", &event).contains("# few, large children for 4 cores\nStartServers 4\n"));
        let nginx = fragment("nginx", &decide(&facts("nginx", 10, None)).settings);
        assert!(nginx.starts_with("# one for each core\nworker_processes 4;\nevents {\n"), "{nginx}");
        assert!(nginx.ends_with("    worker_connections 512;\n}\n"), "{nginx}");
    }
}
