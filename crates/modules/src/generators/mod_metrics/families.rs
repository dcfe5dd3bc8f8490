//! The metrics: the scoreboard and the gate as families.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use gateway::backend::stats::PoolStats;
use gateway::gate::GateStatus;
use runtime::scoreboard::{self, BOUNDS, ChildState, Duty, Handshake, Process, Snapshot, State};

use super::proxy;
use super::text::MetricType::{Counter, Gauge, Histogram, Info};
use super::text::{Family, MetricType, Sample};
use crate::proxy::mod_proxy::{Balancer, Counted, Member};
use crate::ssl::mod_ssl::Expiry;

/// All of them, in the order of the page.
pub(super) fn of(
    board: &Snapshot,
    gate: Option<&GateStatus>,
    pools: &[PoolStats],
    balancers: &[Arc<Balancer>],
    servers: &[Counted],
    certificates: &[Expiry],
    mpm: String,
) -> Vec<Family> {
    let mut all = server(board, mpm);
    all.extend(requests(board));
    all.extend(processes(board));
    all.extend(gate.into_iter().flat_map(scripts));
    if !pools.is_empty() {
        all.extend(backends(pools));
    }
    if !balancers.is_empty() {
        all.extend(members(balancers));
    }
    if !servers.is_empty() {
        all.extend(proxy::servers(servers));
    }
    if !certificates.is_empty() {
        all.extend(tls(board, certificates));
    }
    all
}

fn server(board: &Snapshot, mpm: String) -> Vec<Family> {
    let identity = server::identity::get();
    let texts = [
        ("version", identity.map(|identity| identity.version.clone())),
        ("built", identity.map(|identity| identity.built.clone())),
        ("mpm", Some(mpm)),
    ];
    let labels = texts.into_iter().map(|(name, text)| (name, text.unwrap_or_default())).collect();
    let build = vec![Sample { suffix: "_info", labels, value: "1".into() }];
    let now = u64::try_from(sys::time::realtime().as_micros()).unwrap_or(u64::MAX);
    let uptime = now.saturating_sub(board.restarted);
    // For living children, and for ended ones, which include their scripts.
    let cpu = |own: usize, scripts: usize, ended: u64| {
        ended + sum(board, |process| if process.pid == 0 { 0 } else { process.cpu[own] + process.cpu[scripts] })
    };
    let [user, system] = [cpu(0, 2, board.ended_user), cpu(1, 3, board.ended_system)];
    vec![
        family(Info, "build", "", "The program, and the multi-processing module that it runs.", build),
        one(
            Gauge,
            "start_time_seconds",
            "seconds",
            "When the server started, in seconds since 1970.",
            seconds(board.started),
        ),
        one(Gauge, "uptime_seconds", "seconds", "Time since the last start or restart.", seconds(uptime)),
        one(
            Gauge,
            "ready",
            "",
            "Whether load balancers may send new clients.",
            u8::from(scoreboard::duty() == Duty::Ready).to_string(),
        ),
        one(Counter, "restarts", "", "Restarts since the start.", board.generation.to_string()),
        one(
            Counter,
            "log_lines_lost",
            "",
            "Log lines that could not be written.",
            server::log::lines_lost().to_string(),
        ),
        family(
            Counter,
            "cpu_seconds",
            "seconds",
            "CPU time of all children and of scripts that ended.",
            labelled("_total", "mode", [("user", seconds(user)), ("system", seconds(system))]),
        ),
    ]
}

/// The version of the configuration: nodes that should have the same show the same.
pub(super) fn configuration(version: &str) -> Family {
    let labels = vec![("version", version.to_string())];
    let help = "The version of the configuration in effect: a digest of all that it was read from.";
    family(Info, "configuration", "", help, vec![Sample { suffix: "_info", labels, value: "1".into() }])
}

fn requests(board: &Snapshot) -> Vec<Family> {
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().enumerate();
    let classes = classes.map(|(index, name)| (name, sum(board, |process| process.classes[index]).to_string()));
    let mut below = 0;
    let mut durations: Vec<Sample> = (0..=BOUNDS.len())
        .map(|index| {
            below += sum(board, |process| process.durations[index]);
            let bound = BOUNDS.get(index).map_or("+Inf".into(), |micros| bound(*micros));
            Sample { suffix: "_bucket", labels: vec![("le", bound)], value: below.to_string() }
        })
        .collect();
    let plain = |suffix, value| Sample { suffix, labels: Vec::new(), value };
    durations.push(plain("_count", below.to_string()));
    durations.push(plain("_sum", seconds(sum(board, |process| process.duration))));
    let sent = sum(board, |process| process.bytes.saturating_sub(process.received));
    let received = sum(board, |process| process.received);
    let count = sum(board, |process| process.accesses);
    vec![
        one(Counter, "requests", "", "Requests that were answered.", count.to_string()),
        one(
            Counter,
            "requests_repeated",
            "",
            "Of these, requests that asked what an earlier one asked, and got its response without the phases.",
            sum(board, |process| process.repeated).to_string(),
        ),
        one(
            Counter,
            "requests_prepared",
            "",
            "Of these, requests for a server behind this one about which the phases had decided the same before.",
            sum(board, |process| process.prepared).to_string(),
        ),
        family(Counter, "responses", "", "Answers by the class of their status.", labelled("_total", "class", classes)),
        family(
            Histogram,
            "request_duration_seconds",
            "seconds",
            "Time from the head of a request to the last byte of its response.",
            durations,
        ),
        one(Counter, "sent_bytes", "bytes", "Bytes of responses, heads included.", sent.to_string()),
        one(Counter, "received_bytes", "bytes", "Bytes of requests, heads included.", received.to_string()),
    ]
}

/// Reads a number from a process's part of the scoreboard.
type Count = fn(&Process) -> u64;

fn processes(board: &Snapshot) -> Vec<Family> {
    let workers = |state| board.processes.iter().flat_map(|p| &p.workers).filter(|w| w.state == state).count();
    let states = State::ALL.into_iter().filter(|state| *state != State::Dead);
    let states = states.map(|state| (name_of(state), workers(state).to_string()));
    // Without a limit there is no number for it, and the rows do not cover everything that is served.
    let unlisted = sum(board, |process| process.unlisted.unwrap_or(0)).to_string();
    let states = states.chain(board.limit.is_none().then_some(("unlisted", unlisted)));
    let limit = board
        .limit
        .map(|limit| one(Gauge, "workers_limit", "", "How many workers may be busy at once.", limit.to_string()));
    let stages: [(&str, Count); 5] = [
        ("reading", |process| process.reading),
        ("waiting", |process| process.released),
        ("writing", |process| process.writing),
        ("keepalive", |process| process.keep_alive),
        ("closing", |process| process.closing),
    ];
    let mut serving = sum(board, |process| process.connections);
    let mut stages: Vec<(&str, String)> = stages
        .into_iter()
        .map(|(name, of)| {
            let count = sum(board, of);
            serving = serving.saturating_sub(count);
            (name, count.to_string())
        })
        .collect();
    stages.push(("serving", serving.to_string()));
    let children = [ChildState::Starting, ChildState::Running, ChildState::Quiescing]
        .map(|life| (life.name(), board.processes.iter().filter(|process| process.life == life).count().to_string()));
    let workers = "Rows of the scoreboard by what they do, and requests that are served without one.";
    let mut all = vec![family(Gauge, "workers", "", workers, labelled("", "state", states))];
    all.extend(limit);
    all.extend([
        family(
            Gauge,
            "connections",
            "",
            "Open connections by stage; those in no other stage are serving.",
            labelled("", "stage", stages),
        ),
        family(Gauge, "children", "", "Child processes by state.", labelled("", "life", children)),
        one(
            Gauge,
            "http2_connections",
            "",
            "Open connections that speak HTTP/2.",
            sum(board, |process| process.http2).to_string(),
        ),
        one(
            Gauge,
            "http2_streams",
            "",
            "Streams of HTTP/2 whose requests are being served.",
            sum(board, |process| process.streams).to_string(),
        ),
    ]);
    all
}

fn scripts(gate: &GateStatus) -> Vec<Family> {
    let mut all = vec![
        one(
            Counter,
            "script_runs",
            "",
            "Runs of scripts that have ended or could not be started.",
            gate.runs.to_string(),
        ),
        one(
            Counter,
            "script_failures",
            "",
            "Runs of scripts that did not end well or could not be started.",
            gate.failures.to_string(),
        ),
        one(Counter, "script_refusals", "", "Requests that were refused a run.", gate.refused.to_string()),
        one(Gauge, "scripts_running", "", "Scripts that run.", gate.running.to_string()),
        one(Gauge, "scripts_waiting", "", "Requests that wait until a script may run.", gate.waiting.to_string()),
        one(
            Gauge,
            "script_memory_reserved_bytes",
            "bytes",
            "Memory that running scripts have or are expected to need.",
            gate.reserved.to_string(),
        ),
    ];
    // Without a limit there is no number for it.
    all.extend(gate.limit.map(|limit| {
        let help = "Memory that all scripts together may have.";
        one(Gauge, "script_memory_limit_bytes", "bytes", help, limit.to_string())
    }));
    let help = "Memory that the machine, or the control group of the server, has left.";
    all.push(one(Gauge, "memory_available_bytes", "bytes", help, gate.available.to_string()));
    let help = "Memory of the machine, or of the control group of the server.";
    all.push(one(Gauge, "memory_limit_bytes", "bytes", help, gate.total.to_string()));
    all
}

/// Pools of backends: a line for each of them.
fn backends(pools: &[PoolStats]) -> Vec<Family> {
    let each = |kind: MetricType, name, unit, help, of: fn(&PoolStats) -> String| {
        let suffix = if kind == Counter { "_total" } else { "" };
        let line = |pool: &PoolStats| Sample { suffix, labels: vec![("pool", pool.name.clone())], value: of(pool) };
        family(kind, name, unit, help, pools.iter().map(line).collect())
    };
    let ended = pools.iter().flat_map(|pool| {
        pool.ended.iter().map(|(reason, number)| Sample {
            suffix: "_total",
            labels: vec![("pool", pool.name.clone()), ("reason", (*reason).into())],
            value: number.to_string(),
        })
    });
    vec![
        each(Gauge, "backends", "", "Backends of a pool.", |pool| pool.size.to_string()),
        each(Gauge, "backends_busy", "", "Requests that backends serve now.", |pool| pool.busy.to_string()),
        each(Gauge, "backends_limit", "", "The most backends that a pool may have.", |pool| pool.max.to_string()),
        each(Gauge, "backend_requests_waiting", "", "Requests that wait for a backend.", |pool| {
            pool.waiting.to_string()
        }),
        each(Counter, "backend_requests", "", "Requests that backends have served.", |pool| pool.served.to_string()),
        each(Counter, "backend_refusals", "", "Requests that got no backend.", |pool| pool.refused.to_string()),
        each(Counter, "backend_wait_seconds", "seconds", "Time that requests have waited for a backend.", |pool| {
            pool.waited.to_string()
        }),
        each(Counter, "backend_service_seconds", "seconds", "Time that backends have served requests.", |pool| {
            pool.worked.to_string()
        }),
        each(Gauge, "backend_memory_bytes", "bytes", "Memory of a pool when it was last measured.", |pool| {
            pool.memory.to_string()
        }),
        each(Counter, "backend_starts", "", "Backends that were started.", |pool| pool.started.to_string()),
        family(Counter, "backend_ends", "", "Backends that have ended, by reason.", ended.collect()),
    ]
}

/// The members of balancers: a line for each of them. Those of one name in several virtual hosts have one line together.
fn members(balancers: &[Arc<Balancer>]) -> Vec<Family> {
    let each = |kind: MetricType, name, unit, help, of: fn(&Member) -> u64| {
        let suffix = if kind == Counter { "_total" } else { "" };
        let mut values: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (balancer, member) in balancers.iter().flat_map(|one| one.members().map(move |member| (one, member))) {
            *values.entry((&balancer.name, &member.url)).or_default() += of(member);
        }
        let sample = |((balancer, member), value): ((&str, &str), u64)| Sample {
            suffix,
            labels: vec![("balancer", balancer.to_string()), ("member", member.to_string())],
            value: value.to_string(),
        };
        family(kind, name, unit, help, values.into_iter().map(sample).collect())
    };
    vec![
        each(Gauge, "balancer_members_usable", "", "Whether requests may go to a member.", |member| {
            member.status().is_usable().into()
        }),
        each(Gauge, "balancer_requests_busy", "", "Requests that are on their way to a member now.", |member| {
            member.tally.busy()
        }),
        each(Counter, "balancer_requests", "", "Requests for which a member was elected.", |member| {
            member.elected().load(Relaxed)
        }),
        each(Counter, "balancer_sent_bytes", "bytes", "Bytes of requests that were sent to a member.", |member| {
            member.sent().load(Relaxed)
        }),
        each(Counter, "balancer_received_bytes", "bytes", "Bytes of responses that a member has sent.", |member| {
            member.received().load(Relaxed)
        }),
    ]
}

/// Handshakes, and the expiry of certificates: a line for each of them.
fn tls(board: &Snapshot, certificates: &[Expiry]) -> Vec<Family> {
    let outcome = |(place, outcome): (usize, Handshake)| Sample {
        suffix: "_total",
        labels: outcome.labels().map(|(name, value)| (name, value.into())).to_vec(),
        value: sum(board, |process| process.handshakes[place]).to_string(),
    };
    let outcomes = Handshake::all().into_iter().enumerate().map(outcome).collect();
    let failures = sum(board, |process| process.handshakes[Handshake::COUNT]).to_string();
    // Virtual hosts may share name and port: the certificate that expires first stands for all.
    let mut ends = BTreeMap::new();
    for one in certificates {
        let end = ends.entry((&one.host, one.index)).or_insert(one.end);
        *end = one.end.min(*end);
    }
    let expiry = |((host, index), end): ((&String, usize), i64)| Sample {
        suffix: "",
        labels: vec![("host", host.clone()), ("index", index.to_string())],
        value: end.to_string(),
    };
    vec![
        family(
            Counter,
            "tls_handshakes",
            "",
            "TLS handshakes that were completed, by version, protocol, and whether they resumed a session.",
            outcomes,
        ),
        one(Counter, "tls_handshake_failures", "", "TLS handshakes that were begun but not completed.", failures),
        family(
            Gauge,
            "certificate_expiry_timestamp_seconds",
            "seconds",
            "When a certificate of a virtual host expires, in seconds since 1970.",
            ends.into_iter().map(expiry).collect(),
        ),
    ]
}

fn name_of(state: State) -> &'static str {
    match state {
        State::Dead => "dead",
        State::Starting => "starting",
        State::Ready => "ready",
        State::Read => "reading",
        State::Write => "writing",
        State::KeepAlive => "keepalive",
        State::Dns => "dns",
        State::Closing => "closing",
        State::Log => "logging",
        State::Graceful => "graceful",
        State::IdleCleanup => "idle_cleanup",
    }
}

fn sum(board: &Snapshot, of: impl Fn(&Process) -> u64) -> u64 {
    board.processes.iter().map(of).sum()
}

/// Microseconds as seconds.
fn seconds(micros: u64) -> String {
    (micros as f64 / 1e6).to_string()
}

/// A bound of a histogram, always in the same form: consumers compare it as a text (OpenMetrics 1.0, "Canonical
/// Numbers").
fn bound(micros: u64) -> String {
    format!("{:?}", micros as f64 / 1e6).replace("e-5", "e-05")
}

fn family(
    kind: MetricType,
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
) -> Family {
    Family { name, kind, unit, help, samples }
}

/// A family that consists of one number without labels.
fn one(kind: MetricType, name: &'static str, unit: &'static str, help: &'static str, value: String) -> Family {
    let suffix = if kind == Counter { "_total" } else { "" };
    family(kind, name, unit, help, vec![Sample { suffix, labels: Vec::new(), value }])
}

/// A line for each value of a label.
fn labelled(
    suffix: &'static str,
    label: &'static str,
    values: impl IntoIterator<Item = (&'static str, String)>,
) -> Vec<Sample> {
    let line = |(name, value): (&'static str, String)| Sample { suffix, labels: vec![(label, name.into())], value };
    values.into_iter().map(line).collect()
}
