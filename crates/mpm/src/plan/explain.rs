//! Explains the numbers of an MPM: the numbers asked for, the numbers that run, and the arithmetic between them. Pure.

use conf::{Origin, Setting, SettingsMap};

use super::{Plan, Spare};
use crate::defaults::{self, prefork};
use crate::settings::MpmSettings;

/// The numbers asked for, and the numbers that run.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The name of the module (`event`).
    pub mpm: &'static str,
    /// Its directives, in the order in which they depend on each other.
    pub asked: Vec<DirectiveValue>,
    /// The arithmetic, a sentence for each step.
    pub sums: Vec<String>,
    /// The plan that runs.
    pub plan: Plan,
    /// How many connections can be open at once, over all children; `None`: only descriptors limit them.
    pub connections: Option<usize>,
}

/// A number that a directive asks for, and what became of it.
#[derive(Clone, Debug)]
pub struct DirectiveValue {
    /// The name of the directive.
    pub name: &'static str,
    /// The configured number and where it stands; `None`: the default applies.
    pub configured: Option<(i64, Origin)>,
    /// The number asked for, by the configuration or by default; `None`: this module ignores the directive.
    pub wanted: Option<i64>,
    /// The number in effect.
    pub runs: Option<usize>,
}

impl DirectiveValue {
    /// Whether the number in effect differs from the one asked for.
    pub fn is_changed(&self) -> bool {
        match (self.wanted, self.runs) {
            (Some(wanted), Some(runs)) => usize::try_from(wanted).ok() != Some(runs),
            _ => false,
        }
    }
}

/// The kind of a module, for its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessModel {
    /// A child is a worker.
    Processes,
    /// A child has workers, each with a connection.
    Threads,
    /// A child has workers, and connections that wait beside them.
    Async,
    /// A child for each processor.
    PerProcessor,
}

/// Explains a plan that was made from these settings.
pub(crate) fn explain(mpm: &'static str, kind: ProcessModel, slots: &SettingsMap, plan: Plan) -> Explained {
    let s = slots.get::<MpmSettings>();
    let asked = asked(kind, s, &plan);
    let (sums, connections) = match kind {
        ProcessModel::Processes => (processes(&asked, &plan), Some(plan.children)),
        ProcessModel::Threads => (threads(&asked, &plan), Some(plan.children * plan.workers)),
        ProcessModel::Async => {
            let (mut sums, each) = (threads(&asked, &plan), plan.workers + plan.workers * plan.async_factor / 16);
            sums.push(format!(
                "connections: a child lets in ThreadsPerChild {} + idle workers (at most {}) x AsyncRequestWorkerFactor {} \
                 = at most {each}; with {} child{} at most {}. Others wait in the listen queue (ListenBacklog {})",
                plan.workers,
                plan.workers,
                plan.async_factor as f64 / 16.0,
                plan.children,
                plural(plan.children, "ren"),
                each * plan.children,
                s.backlog(),
            ));
            (sums, Some(each * plan.children))
        }
        ProcessModel::PerProcessor => (fixed(&asked, &plan), None),
    };
    Explained { mpm, asked, sums, plan, connections }
}

/// Adds the steps before all other arithmetic: buckets of listening sockets raise numbers, and a running server keeps
/// the limits of its first start.
pub(crate) fn preface(explained: &mut Explained, buckets: usize, runs: bool) {
    if buckets > 1 {
        let each = "each has a child of its own, so there are at least as many children, also at the start";
        explained.sums.insert(0, format!("buckets of listening sockets (ListenCoresBucketsRatio): {buckets}; {each}"));
    }
    let limits: Vec<String> = explained
        .asked
        .iter()
        .filter(|row| runs && LIMITS.contains(&row.name) && row.is_changed())
        .filter_map(|row| Some(format!("{} {}", row.name, row.runs?)))
        .collect();
    if !limits.is_empty() {
        let text = format!("as at the first start: {}; a restart cannot change that", limits.join(", "));
        explained.sums.insert(0, text);
    }
}

/// Fixed by the first start.
const LIMITS: [&str; 2] = ["ServerLimit", "ThreadLimit"];

fn asked(kind: ProcessModel, s: &MpmSettings, plan: &Plan) -> Vec<DirectiveValue> {
    let row = |name, setting: &Setting<i64>, default: i64, runs: usize| DirectiveValue {
        name,
        configured: setting.get().copied().zip(setting.origin().cloned()),
        wanted: (kind != ProcessModel::PerProcessor).then(|| setting.value_or(default)),
        runs: (kind != ProcessModel::PerProcessor).then_some(runs),
    };
    let (min, max) = match plan.spare {
        Spare::Between(min, max) => (min, max),
        Spare::FixedChildren => (0, 0),
    };
    let all = plan.children * plan.workers;
    let threads = [
        row("ServerLimit", &s.server_limit, defaults::SERVER_LIMIT, plan.limits.servers),
        row("ThreadLimit", &s.thread_limit, defaults::THREAD_LIMIT, plan.limits.threads),
        row("ThreadsPerChild", &s.threads_per_child, defaults::THREADS_PER_CHILD, plan.workers),
        row("MaxRequestWorkers", &s.max_request_workers, defaults::MAX_REQUEST_WORKERS, all),
        row("StartServers", &s.start_servers, defaults::START_SERVERS, plan.start),
        row("MinSpareThreads", &s.min_spare_threads, defaults::MIN_SPARE_THREADS, min),
        row("MaxSpareThreads", &s.max_spare_threads, defaults::MAX_SPARE_THREADS, max),
    ];
    let processes = [
        row("ServerLimit", &s.server_limit, prefork::SERVER_LIMIT, plan.limits.servers),
        row("MaxRequestWorkers", &s.max_request_workers, prefork::MAX_REQUEST_WORKERS, plan.children),
        row("StartServers", &s.start_servers, prefork::START_SERVERS, plan.start),
        row("MinSpareServers", &s.min_spare_servers, prefork::MIN_SPARE_SERVERS, min),
        row("MaxSpareServers", &s.max_spare_servers, prefork::MAX_SPARE_SERVERS, max),
    ];
    match kind {
        ProcessModel::Processes => processes.into(),
        ProcessModel::Threads | ProcessModel::Async => threads.into(),
        // The other directives, if configured, are shown as unused.
        ProcessModel::PerProcessor => {
            let [.., min, max] = processes;
            threads.into_iter().chain([min, max]).filter(|row| row.configured.is_some()).collect()
        }
    }
}

fn wanted(asked: &[DirectiveValue], name: &str) -> i64 {
    asked.iter().find(|row| row.name == name).and_then(|row| row.wanted).unwrap_or(0)
}

fn plural(count: usize, more: &'static str) -> &'static str {
    if count == 1 { "" } else { more }
}

fn processes(asked: &[DirectiveValue], plan: &Plan) -> Vec<String> {
    let (most, limit) = (wanted(asked, "MaxRequestWorkers"), plan.limits.servers);
    let children = plan.children;
    let mut sums = vec![
        format!("children: MaxRequestWorkers {most}, at least 1, at most ServerLimit {limit} = {children} at most"),
        format!(
            "workers: a child is one worker, and serves one connection from its first byte to its last = {children}"
        ),
    ];
    sums.push(start(asked, plan));
    sums.extend(spare(asked, plan, "MinSpareServers", "MaxSpareServers", "MinSpareServers + 1"));
    sums.push(format!(
        "connections: as many as children, {children}; an open connection occupies a child. Others wait in the listen \
         queue"
    ));
    sums
}

fn threads(asked: &[DirectiveValue], plan: &Plan) -> Vec<String> {
    let Plan { children, workers, limits, .. } = *plan;
    let most = wanted(asked, "MaxRequestWorkers");
    let each = wanted(asked, "ThreadsPerChild");
    let mut sums = vec![format!(
        "workers of a child: ThreadsPerChild {each}, at least 1, at most ThreadLimit {} = {workers}",
        limits.threads
    )];
    sums.push(match usize::try_from(most).unwrap_or(0) {
        less if less < workers => {
            format!("children: MaxRequestWorkers {most} is less than the workers of one child, which is the least there can be = 1")
        }
        most => format!(
            "children: MaxRequestWorkers {most} / ThreadsPerChild {workers} = {} (rounded down), at most ServerLimit \
             {} = {children} at most",
            most / workers,
            limits.servers
        ),
    });
    sums.push(format!("workers: {children} child{} x {workers} = {}", plural(children, "ren"), children * workers));
    sums.push(start(asked, plan));
    sums.extend(spare(asked, plan, "MinSpareThreads", "MaxSpareThreads", "MinSpareThreads + ThreadsPerChild + 1"));
    if let Spare::Between(min, max) = plan.spare
        && min <= plan.start * workers
        && plan.start * workers > max
    {
        let first = plan.start * workers;
        sums.push(format!(
            "right after the start: {first} idle workers are more than {max}, so a child is ended each second"
        ));
    }
    sums
}

fn start(asked: &[DirectiveValue], plan: &Plan) -> String {
    let (wanted, start, children) = (wanted(asked, "StartServers"), plan.start, plan.children);
    format!(
        "at the start: StartServers {wanted}, at least 1, at most {children} = {start} child{}",
        plural(start, "ren")
    )
}

/// Explains the two directives about idle workers.
fn spare(asked: &[DirectiveValue], plan: &Plan, least: &str, most: &str, sum: &str) -> Vec<String> {
    let Spare::Between(min, max) = plan.spare else { return Vec::new() };
    let all = plan.children * plan.workers;
    let reach = match min {
        min if min > all => format!(": out of reach, as there are {all} workers, so all children are started"),
        min if min == all => ": only while no request is served, so all children are started".to_string(),
        _ => String::new(),
    };
    vec![
        format!("idle workers: at least {least} {min}{reach}"),
        format!("idle workers: at most {most} {}, at least {sum} = {max}", wanted(asked, most)),
    ]
}

fn fixed(asked: &[DirectiveValue], plan: &Plan) -> Vec<String> {
    let children = plan.children;
    let mut sums = vec![
        format!("children: one for each processor that the server may use = {children}"),
        "workers: a child serves all of its connections in one event loop; how many is limited by descriptors alone"
            .into(),
        "scripts: the gate decides how many run at once, by the memory that they need".into(),
    ];
    if !asked.is_empty() {
        let names: Vec<&str> = asked.iter().map(|row| row.name).collect();
        sums.push(format!("not used: {}", names.join(", ")));
    }
    sums
}
