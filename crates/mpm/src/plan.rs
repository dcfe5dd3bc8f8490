//! The plan of processes and threads: the numbers of the directives made to fit each other, with Apache's messages
//! about the changes (Apache manual, mpm_common). Pure.

pub(crate) mod explain;

use conf::{Level, Notice, Setting, SettingsMap};

use crate::defaults;
use crate::recycle_policy::{self, Each, Range};
use crate::settings::MpmSettings;

/// The processes of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The most children at once.
    pub children: usize,
    /// Workers of each child: the requests it serves at once, or as many of them as the status page lists.
    pub workers: usize,
    /// Children at the start.
    pub start: usize,
    /// How many workers to keep idle.
    pub spare: Spare,
    /// Fixed by the first start.
    pub limits: HardLimits,
    /// The ranges from which each child's replacement limits are drawn.
    pub recycling: Each<Option<Range>>,
    /// How many connections more than it has workers a child may have open for each idle worker
    /// (`AsyncRequestWorkerFactor`), in sixteenths.
    pub async_factor: usize,
    /// The configured size limit of a worker's stack, in bytes.
    pub stack: Option<usize>,
}

impl Plan {
    /// Plans at least one child for each bucket of listening sockets: no other child would accept from it.
    pub(crate) fn for_buckets(mut self, buckets: usize) -> Plan {
        for number in [&mut self.children, &mut self.start, &mut self.limits.servers] {
            *number = (*number).max(buckets);
        }
        self
    }
}

/// How many processes and threads the scoreboard is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardLimits {
    /// `ServerLimit`.
    pub servers: usize,
    /// `ThreadLimit`: the most workers of a child; 1 where there are no threads.
    pub threads: usize,
}

/// The numbers that the first start fixes for all generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The scoreboard was made for them.
    pub limits: HardLimits,
    /// How many buckets of listening sockets there are.
    pub buckets: usize,
}

/// How many workers to keep idle, over all children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// Children come and go to keep the idle workers between these two numbers.
    Between(usize, usize),
    /// As many as happen to be idle.
    FixedChildren,
}

/// When the check runs, which decides its wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the first start, or for `-t`.
    Start,
    /// At a restart; the limits of the first start stay.
    Restart(HardLimits),
}

impl When {
    /// The limits of the first start, for a restart.
    fn first_limits(self) -> Option<HardLimits> {
        match self {
            When::Start => None,
            When::Restart(limits) => Some(limits),
        }
    }
}

/// A message of the check: its AH number at the start (a restart uses the next one), its text at the start, and its
/// text at a restart.
struct Message(u32, String, String);

/// Collects messages under a module's name.
struct Check {
    module: &'static str,
    when: When,
    notices: Vec<Notice>,
}

impl Check {
    fn warning(&self, text: String) -> Notice {
        Notice::new(self.module, Level::Warn, text)
    }

    fn note(&mut self, Message(number, start, restart): Message) {
        let notice = match self.when {
            When::Start => self.warning(format!("AH{number:05}: WARNING: {start}")).bare(),
            When::Restart(_) => self.warning(format!("AH{:05}: {restart}", number + 1)),
        };
        self.notices.push(notice);
    }

    /// `NAME of N not allowed, increasing to 1`; `advice` follows at the start.
    fn at_least_one(&mut self, number: u32, name: &str, value: i64, advice: &str) -> i64 {
        if value >= 1 {
            return value;
        }
        let text = format!("{name} of {value} not allowed, increasing to 1");
        self.note(Message(number, format!("{text}{advice}."), text));
        1
    }

    /// A limit for the whole run: at least 1, at most what the system can do, and the same as at the first start.
    /// `numbers` are the AH numbers of "above", "below" and "changed".
    fn limit(&mut self, numbers: [u32; 3], name: &str, unit: &str, value: i64, first: Option<usize>) -> usize {
        let fits = if value > NUMBERED_MAX {
            let text = format!("{name} of {value} exceeds the system's limit of {NUMBERED_MAX}");
            let start = format!("{text} {unit}, decreasing to {NUMBERED_MAX}.");
            self.note(Message(numbers[0], start, format!("{text}, decreasing to match")));
            NUMBERED_MAX
        } else {
            self.at_least_one(numbers[1], name, value, "")
        };
        let fits = usize::try_from(fits).unwrap_or(1);
        match first {
            Some(first) if first != fits => {
                let text =
                    format!("changing {name} to {fits} from original value of {first} not allowed during restart");
                let text = format!("AH{:05}: {text}", numbers[2]);
                self.notices.push(self.warning(text));
                first
            }
            _ => fits,
        }
    }
}

/// How many processes and threads Linux can number (`PID_MAX_LIMIT`, proc(5)). Apache has compiled-in limits here.
const NUMBERED_MAX: i64 = 4_194_304;

const RAISE: &str = "To increase, please see the ServerLimit directive.";
const FAILURE: &str = " to avoid almost certain server failure. Please read the documentation";

/// prefork: every child is one worker.
pub(crate) fn prefork(module: &'static str, slots: &SettingsMap, when: When) -> (Plan, Vec<Notice>) {
    let s = slots.get::<MpmSettings>();
    let mut check = Check { module, when, notices: Vec::new() };
    let first = when.first_limits().map(|first| first.servers);
    let server_limit = check.limit(
        [175, 177, 179],
        "ServerLimit",
        "servers",
        s.server_limit.value_or(defaults::prefork::SERVER_LIMIT),
        first,
    );
    let wanted = s.max_request_workers.value_or(defaults::prefork::MAX_REQUEST_WORKERS);
    let children = if wanted > server_limit as i64 {
        let text = format!("MaxRequestWorkers of {wanted} exceeds ServerLimit value of {server_limit}");
        let start = format!("{text} servers, decreasing MaxRequestWorkers to {server_limit}. {RAISE}");
        check.note(Message(180, start, format!("{text}, decreasing to match")));
        server_limit
    } else {
        to_size(check.at_least_one(182, "MaxRequestWorkers", wanted, ""))
    };
    let start = to_size(check.at_least_one(
        184,
        "StartServers",
        s.start_servers.value_or(defaults::prefork::START_SERVERS),
        "",
    ));
    let min = to_size(check.at_least_one(
        186,
        "MinSpareServers",
        s.min_spare_servers.value_or(defaults::prefork::MIN_SPARE_SERVERS),
        FAILURE,
    ));
    let max = to_size(s.max_spare_servers.value_or(defaults::prefork::MAX_SPARE_SERVERS)).max(min + 1);
    let plan = Plan {
        children,
        workers: 1,
        start: start.min(children),
        spare: Spare::Between(min, max),
        limits: HardLimits { servers: server_limit, threads: 1 },
        recycling: recycle_policy::ranges(slots),
        async_factor: async_factor(s),
        stack: stack(s),
    };
    let spares = [
        ("StartServers", &s.start_servers, start > children),
        ("MinSpareServers", &s.min_spare_servers, min > children),
        ("MaxSpareServers", &s.max_spare_servers, changed(&s.max_spare_servers, max)),
    ];
    note_numbers(&mut check, &spares, &plan, None);
    (plan, check.notices)
}

/// Whether a number was configured and differs now.
fn changed(setting: &Setting<i64>, now: usize) -> bool {
    setting.get().is_some_and(|value| *value != now as i64)
}

/// The differences between worker and event.
#[derive(Debug)]
pub(crate) struct Threaded {
    /// The number of the first message, "ServerLimit above the compiled limit"; the others follow in order.
    first_number: u32,
    /// Connections that only wait need no worker.
    parks: bool,
}

pub(crate) const WORKER: Threaded = Threaded { first_number: 300, parks: false };
pub(crate) const EVENT: Threaded = Threaded { first_number: 497, parks: true };

/// worker and event: every child has the same number of workers.
pub(crate) fn threaded(kind: &Threaded, module: &'static str, slots: &SettingsMap, when: When) -> (Plan, Vec<Notice>) {
    let s = slots.get::<MpmSettings>();
    let mut check = Check { module, when, notices: Vec::new() };
    let first = when.first_limits();
    let n = |offset: u32| kind.first_number + offset;
    let servers = first.map(|first| first.servers);
    let server_limit = check.limit(
        [n(0), n(2), n(4)],
        "ServerLimit",
        "servers",
        s.server_limit.value_or(defaults::SERVER_LIMIT),
        servers,
    );
    let threads = first.map(|first| first.threads);
    let thread_limit = check.limit(
        [n(5), n(7), n(9)],
        "ThreadLimit",
        "threads",
        s.thread_limit.value_or(defaults::THREAD_LIMIT),
        threads,
    );

    let workers = s.threads_per_child.value_or(defaults::THREADS_PER_CHILD);
    let workers = if workers > thread_limit as i64 {
        let text = format!("ThreadsPerChild of {workers} exceeds ThreadLimit of {thread_limit}");
        let advice = "To increase, please see the ThreadLimit directive.";
        let start = format!("{text} threads, decreasing to {thread_limit}. {advice}");
        check.note(Message(n(10), start, format!("{text}, decreasing to match")));
        thread_limit
    } else {
        to_size(check.at_least_one(n(12), "ThreadsPerChild", workers, ""))
    };
    let children = children(
        &mut check,
        n(14),
        s.max_request_workers.value_or(defaults::MAX_REQUEST_WORKERS),
        workers,
        server_limit,
    );
    let start =
        to_size(check.at_least_one(n(20), "StartServers", s.start_servers.value_or(defaults::START_SERVERS), ""));
    let min = to_size(check.at_least_one(
        n(22),
        "MinSpareThreads",
        s.min_spare_threads.value_or(defaults::MIN_SPARE_THREADS),
        FAILURE,
    ));
    let max = to_size(s.max_spare_threads.value_or(defaults::MAX_SPARE_THREADS)).max(min + workers + 1);
    let plan = Plan {
        children,
        workers,
        start: start.min(children),
        spare: Spare::Between(min, max),
        limits: HardLimits { servers: server_limit, threads: thread_limit },
        recycling: recycle_policy::ranges(slots),
        async_factor: async_factor(s),
        stack: stack(s),
    };
    let all = children * workers;
    let spares = [
        ("StartServers", &s.start_servers, start > children),
        ("MinSpareThreads", &s.min_spare_threads, min > all),
        ("MaxSpareThreads", &s.max_spare_threads, changed(&s.max_spare_threads, max)),
    ];
    let parked = if kind.parks { workers * plan.async_factor / 16 } else { 0 };
    note_numbers(&mut check, &spares, &plan, Some(workers + parked));
    (plan, check.notices)
}

/// Reports numbers that were asked for and cannot be had, and what runs instead, in one line. Apache changes these
/// numbers silently; Apache's own messages stay in lines of their own. `connections` is the limit of a child, if it has
/// threads.
fn note_numbers(check: &mut Check, asked: &[(&str, &Setting<i64>, bool)], plan: &Plan, connections: Option<usize>) {
    let asked: Vec<String> = asked
        .iter()
        .filter(|(_, _, changed)| *changed)
        .filter_map(|(name, setting, _)| setting.get().map(|value| format!("{name} {value}")))
        .collect();
    if asked.is_empty() {
        return;
    }
    let Plan { children, workers, start, .. } = *plan;
    let plural = |count: usize, more: &'static str| if count == 1 { "" } else { more };
    let mut text = format!("{}: the server runs {children} child{}", asked.join(", "), plural(children, "ren"));
    if start < children {
        text += &format!(" at most, {start} at the start");
    }
    if let Some(connections) = connections {
        text += &format!(", with {workers} worker{}", plural(workers, "s"));
        if connections > workers {
            text += &format!(" and at most {connections} connections");
        }
        text += plural(children, " each");
    }
    if let Spare::Between(min, max) = plan.spare {
        text += &format!("; from {min} to {max} workers are kept idle, if there are that many");
    }
    check.notices.push(Notice::new(check.module, Level::Notice, text));
}

/// `MaxRequestWorkers` as a number of children.
fn children(check: &mut Check, number: u32, wanted: i64, workers: usize, server_limit: usize) -> usize {
    if wanted < workers as i64 {
        let text = format!("MaxRequestWorkers of {wanted} is less than ThreadsPerChild of {workers}, increasing to");
        let advice = "MaxRequestWorkers must be at least as large as the number of threads in a single server.";
        check.note(Message(number, format!("{text} {workers}. {advice}"), format!("{text} match")));
        return 1;
    }
    let wanted = to_size(wanted);
    let children = wanted / workers;
    let total = children * workers;
    if total != wanted {
        let text = format!(
            "MaxRequestWorkers of {wanted} is not an integer multiple of ThreadsPerChild of {workers}, decreasing to \
             nearest multiple {total}"
        );
        let start = format!("{text}, for a maximum of {children} servers.");
        check.note(Message(number + 2, start, text));
    }
    if children > server_limit {
        let fits = server_limit * workers;
        let text = format!("MaxRequestWorkers of {total} would require {children} servers and");
        let rest = format!("exceed ServerLimit of {server_limit}, decreasing to {fits}");
        check.note(Message(number + 4, format!("{text} would {rest}. {RAISE}"), format!("{text} {rest}")));
        return server_limit;
    }
    children
}

/// percore: a child for each processor, whatever the directives of the other modules say. `rows` is how many requests
/// of a child the status page can list.
pub(crate) fn percore(slots: &SettingsMap, processors: usize, rows: usize) -> Plan {
    Plan {
        children: processors,
        workers: rows,
        start: processors,
        spare: Spare::FixedChildren,
        limits: HardLimits { servers: processors, threads: rows },
        recycling: recycle_policy::ranges(slots),
        async_factor: 0,
        stack: None,
    }
}

fn to_size(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// Values below 1 act as 1.
fn async_factor(s: &MpmSettings) -> usize {
    /// More connections per worker than a process has descriptors.
    const MOST: f64 = 1_048_576.0;
    (s.async_factor().clamp(1.0, MOST) * 16.0) as usize
}

/// 0 means the system's default.
fn stack(s: &MpmSettings) -> Option<usize> {
    s.thread_stack_size.get().map(|size| to_size(*size)).filter(|size| *size > 0)
}

#[cfg(test)]
mod tests;
