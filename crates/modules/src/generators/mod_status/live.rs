//! The live page: the script that extends the status page, and the snapshots that it requests.
//!
//! The page is Apache's with one script in its head. The script requests `?live` and shows the result; without it, or
//! if a policy forbids it, the plain page remains. Each answer to `?live` is a single server-sent event: the browser
//! reconnects a second later (HTML, "Server-sent events", `retry`). So no viewer holds a worker, and a child makes only
//! a few snapshots a second, however many viewers there are.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gateway::backend::stats::PoolStats;
use gateway::gate::{GateStatus, ScriptStats};
use runtime::scoreboard::{BOUNDS, BUCKETS, Handshake, Process, Snapshot, State, Watch, Worker};
use serde_json::{Map, Value, json};
use sys::time::Instant;
use upstream::Count;

use super::facts::{Counts, Facts};
use super::workers::rows;
use super::{past, workers};
use crate::proxy::mod_proxy::Counted;
use crate::ssl::mod_ssl::Expiry;

/// The maximum numbers of children, requests, scripts, certificates, and servers behind this one in a snapshot.
const CHILDREN: usize = 256;
const REQUESTS: usize = 100;
const SCRIPTS: usize = 50;
const CERTIFICATES: usize = 50;
const SERVERS: usize = 50;
/// Milliseconds until the browser reconnects.
const RETRY: u32 = 1000;

/// The maximum age of a snapshot that is sent to further viewers.
const FRESH: Duration = Duration::from_millis(200);

/// The element of the head that makes the page live. It is relative, so that it works at any path, and no inline
/// script, so that it works under any policy that allows the server's own scripts.
pub(super) const SCRIPT: &str = "<script src=\"?live.js\"></script>\n";

/// The parts of the script, each of which continues the one before.
const PARTS: &str = concat!(include_str!("chart.js"), include_str!("past.js"), include_str!("live.js"));

/// The media type and the text of a file of the page, by its query.
pub(super) fn file(query: &str) -> Option<(&'static str, &'static str)> {
    match query {
        "live.js" => Some(("text/javascript; charset=utf-8", PARTS)),
        "live.css" => Some(("text/css; charset=utf-8", include_str!("live.css"))),
        "live.svg" => Some(("image/svg+xml", include_str!("live.svg"))),
        _ => None,
    }
}

/// The last event of this child, or a new one if that is too old. All viewers of the page get the same one.
pub(super) fn latest(draw_up: impl FnOnce() -> String) -> Bytes {
    static LAST: Mutex<Option<(Instant, Bytes)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((drawn, text)) if drawn.elapsed() < FRESH => text.clone(),
        _ => {
            let text = Bytes::from(draw_up());
            *last = Some((Instant::now(), text.clone()));
            text
        }
    }
}

/// Removes the viewers of the live page from the snapshot: their requests from the counts, and rows of requests that
/// begin with this line. The totals for other readers still count them.
pub(super) fn leave_out(board: &mut Snapshot, line: &str) {
    for process in &mut board.processes {
        let Watch { durations, sent, received } = process.watch;
        let answered = durations.iter().sum::<u64>();
        let less = |count: &mut u64, by: u64| *count = count.saturating_sub(by);
        less(&mut process.accesses, answered);
        less(&mut process.classes[1], answered);
        process.durations.iter_mut().zip(durations).for_each(|(count, by)| less(count, by));
        less(&mut process.bytes, sent.saturating_add(received));
        less(&mut process.received, received);
        let watches = |worker: &&mut Worker| {
            matches!(worker.state, State::Write | State::Closing | State::Graceful) && worker.request.starts_with(line)
        };
        for worker in process.workers.iter_mut().filter(watches) {
            if worker.state != State::Closing {
                less(&mut process.connections, 1);
                if worker.protocol.starts_with("h2") {
                    less(&mut process.http2, 1);
                    less(&mut process.streams, 1);
                }
            }
            worker.state = State::Ready;
        }
    }
}

/// The server as it is now, as one event.
pub(super) fn event(facts: &Facts, board: &Snapshot) -> String {
    let sum = |of: fn(&Process) -> u64| board.processes.iter().map(of).sum::<u64>();
    let unlisted = sum(|process| process.unlisted.unwrap_or(0));
    let living = || board.processes.iter().filter(|process| process.pid != 0);
    let cpu = living().flat_map(|process| process.cpu).sum::<u64>() + board.ended_user + board.ended_system;
    let durations: [u64; BUCKETS] =
        std::array::from_fn(|index| board.processes.iter().map(|process| process.durations[index]).sum());
    let classes: [u64; 5] =
        std::array::from_fn(|index| board.processes.iter().map(|process| process.classes[index]).sum());
    let visited = runtime::scoreboard::get().map(|board| board.visited()).unwrap_or_default();
    let (count, lines) = runtime::recent::lines();
    let text = json!({
        "now": facts.now / 1000,
        "version": facts.version,
        "mpm": facts.mpm,
        "started": facts.now.saturating_sub(board.started) / 1_000_000,
        "uptime": facts.uptime,
        "generation": board.generation,
        "load": facts.load,
        "accesses": sum(|process| process.accesses),
        "sent": sum(|process| process.bytes.saturating_sub(process.received)),
        "received": sum(|process| process.received),
        "classes": classes,
        "bounds": BOUNDS,
        "durations": durations,
        "cpu": cpu,
        "letters": rows(board),
        "limit": board.limit,
        "unlisted": unlisted,
        "extended": facts.extended,
        "connections": {
            "total": sum(|process| process.connections),
            "reading": sum(|process| process.reading),
            "waiting": sum(|process| process.released),
            "writing": sum(|process| process.writing),
            "keepalive": sum(|process| process.keep_alive),
            "closing": sum(|process| process.closing),
            "http2": sum(|process| process.http2),
            "streams": sum(|process| process.streams),
        },
        "handshakes": handshakes(board),
        "gate": gate(&facts.gate),
        "children": living().take(CHILDREN).map(|process| child(facts, board, process)).collect::<Vec<Value>>(),
        "served": served(board).count() as u64 + unlisted,
        "hosts": past::hosts(visited.hosts),
        "urls": past::urls(visited.urls),
        "lines": past::lines(&lines),
        "lineCount": count,
        "requests": if facts.extended { requests(facts, board) } else { Vec::new() },
        "scripts": scripts(&facts.gate.scripts),
        "certificates": certificates(&facts.certificates),
        "certificateCount": facts.certificates.len(),
        "servers": facts.servers.iter().take(SERVERS).map(server).collect::<Vec<Value>>(),
        "serverCount": facts.servers.len(),
        "pools": facts.pools.iter().take(SCRIPTS).map(pool).collect::<Vec<Value>>(),
    });
    format!("retry: {RETRY}\ndata: {text}\n\n")
}

fn gate(gate: &GateStatus) -> Value {
    json!({
        "running": gate.running,
        "waiting": gate.waiting,
        "refused": gate.refused,
        "reserved": gate.reserved,
        "limit": gate.limit,
        "available": gate.available,
        "total": gate.total,
    })
}

fn child(facts: &Facts, board: &Snapshot, process: &Process) -> Value {
    let counts = Counts::of(process);
    json!({
        "slot": process.slot,
        "pid": process.pid,
        "generation": process.generation,
        "old": process.generation != board.generation,
        "life": process.life.name(),
        "age": facts.now.saturating_sub(process.started) / 1_000_000,
        "connections": process.connections,
        "busy": counts.busy + counts.graceful,
        "workers": board.limit.map(|_| process.workers.len()),
        "requests": process.own_accesses,
        "bytes": process.own_bytes,
        "cpu": process.cpu.iter().sum::<u64>(),
    })
}

/// The rows of requests that are being served.
fn served(board: &Snapshot) -> impl Iterator<Item = (&Process, &Worker)> {
    let serves =
        |worker: &Worker| worker.began > 0 && matches!(worker.state, State::Write | State::Graceful | State::Dns);
    let rows = board.processes.iter().flat_map(|process| process.workers.iter().map(move |worker| (process, worker)));
    rows.filter(move |(_, worker)| serves(worker))
}

/// These requests, longest running first.
fn requests(facts: &Facts, board: &Snapshot) -> Vec<Value> {
    let mut all: Vec<(&Process, &Worker)> = served(board).collect();
    all.sort_by_key(|(_, worker)| worker.began);
    let told = |(process, worker): (&Process, &Worker)| {
        json!({
            "pid": process.pid,
            "state": worker.state.letter(),
            "for": facts.now.saturating_sub(worker.began) / 1000,
            "client": worker.client,
            "host": worker.vhost,
            "request": workers::line(worker),
            "protocol": worker.protocol,
        })
    };
    all.into_iter().take(REQUESTS).map(told).collect()
}

/// Scripts: running and waiting ones first, then by the time used.
fn scripts(scripts: &[ScriptStats]) -> Vec<Value> {
    let mut all: Vec<&ScriptStats> = scripts.iter().collect();
    all.sort_by_key(|script| std::cmp::Reverse((script.running + script.waiting, script.cpu)));
    let told = |script: &ScriptStats| {
        json!({
            "name": script.name,
            "running": script.running,
            "waiting": script.waiting,
            "runs": script.runs,
            "failures": script.failures,
            "refused": script.refused,
            "median": script.median.as_micros() as u64,
            "p99": script.p99.as_micros() as u64,
            "cpu": script.cpu.as_micros() as u64 / script.runs.max(1),
            "expected": script.expected,
            "peak": script.peak,
        })
    };
    all.into_iter().take(SCRIPTS).map(told).collect()
}

/// TLS handshakes: how many were completed and how many failed, and of the completed ones how many had which property.
fn handshakes(board: &Snapshot) -> Value {
    let of = |place: usize| board.processes.iter().map(|process| process.handshakes[place]).sum::<u64>();
    let mut properties: Map<String, Value> = Map::new();
    for (place, outcome) in Handshake::all().into_iter().enumerate() {
        for (_, value) in outcome.labels() {
            let before = properties.get(value).and_then(Value::as_u64).unwrap_or(0);
            properties.insert(value.into(), (before + of(place)).into());
        }
    }
    json!({"completed": (0..Handshake::COUNT).map(of).sum::<u64>(), "failed": of(Handshake::COUNT), "of": properties})
}

/// Certificates, those that expire first come first.
fn certificates(certificates: &[Expiry]) -> Vec<Value> {
    let mut all: Vec<&Expiry> = certificates.iter().collect();
    all.sort_by_key(|one| one.end);
    let told = |one: &Expiry| json!({"host": one.host, "index": one.index, "end": one.end, "days": one.days(), "soon": one.warning().is_some()});
    all.into_iter().take(CERTIFICATES).map(told).collect()
}

fn server(one: &Counted) -> Value {
    let micros = |count, times| one.mean(count, times).map(|time| time.as_micros() as u64);
    json!({
        "name": one.title(),
        "usable": one.status.is_usable(),
        "busy": one.tally.busy(),
        "idle": one.idle(),
        "requests": one.tally.get(Count::Requests),
        "reused": one.share_reused(),
        "connect": micros(Count::Opened, Count::Connecting),
        "begun": micros(Count::Begun, Count::Beginning),
        "total": micros(Count::Ended, Count::Serving),
        "faults": one.faults_text(),
    })
}

fn pool(pool: &PoolStats) -> Value {
    let micros = |seconds: f64| (seconds * 1e6) as u64;
    let (waited, worked) = pool.averages();
    json!({
        "name": pool.name,
        "size": pool.size,
        "busy": pool.busy,
        "max": pool.max,
        "waiting": pool.waiting,
        "served": pool.served,
        "refused": pool.refused,
        "waited": micros(waited),
        "worked": micros(worked),
        "memory": pool.memory,
        "started": pool.started,
        "ended": pool.reasons().map(|(reason, number)| format!("{number} {reason}")).collect::<Vec<_>>().join(", "),
    })
}
