//! The single workers on the status page.

use std::fmt::Write;

use http::uri::escape_html;
use runtime::scoreboard::{Process, REQUEST_ROOM, Snapshot, State, Worker};

use super::facts::Facts;
use super::number::{bytes, seconds};

/// The list for browsers without tables (`?notable`).
pub(super) fn list(out: &mut String, facts: &Facts, board: &Snapshot) {
    out.push_str("<hr /><h2>Server Details</h2>\n\n");
    each(board, |process, worker| details(out, facts, process, worker));
}

/// A table with a row for each worker.
pub(super) fn table(out: &mut String, facts: &Facts, board: &Snapshot) {
    out.push_str(TABLE);
    each(board, |process, worker| row(out, facts, process, worker));
    out.push_str(LEGEND);
}

/// Every worker with data to show.
fn each(board: &Snapshot, mut tell: impl FnMut(&Process, &Worker)) {
    for process in &board.processes {
        for worker in &process.workers {
            if worker.accesses[2] > 0 || !matches!(worker.state, State::Ready | State::Dead) {
                tell(process, worker);
            }
        }
    }
}

/// Seconds since a worker was last used.
fn idle_for(facts: &Facts, worker: &Worker) -> u64 {
    if worker.used == 0 { 0 } else { facts.now.saturating_sub(worker.used) / 1_000_000 }
}

fn pid(process: &Process, worker: &Worker) -> String {
    if worker.state == State::Dead { "-".into() } else { process.pid.to_string() }
}

fn row(out: &mut String, facts: &Facts, process: &Process, worker: &Worker) {
    let [connection, own, slot] = worker.accesses;
    let letter = worker.state.letter();
    let state = match worker.state {
        State::Ready | State::Dead | State::Graceful | State::IdleCleanup => letter.to_string(),
        _ => format!("<b>{letter}</b>"),
    };
    let cpu = process.cpu.iter().sum::<u64>() as f64 / 1e6;
    let [connection_bytes, own_bytes, slot_bytes] = worker.bytes.map(|bytes| bytes as f64 / 1024.0);
    let _ = write!(
        out,
        "<tr><td><b>{}-{}</b></td><td>{}</td><td>{connection}/{own}/{slot}</td><td>{state}\n</td><td>{cpu:.2}</td>\
         <td>{}</td><td>{}</td><td>{}</td><td>{connection_bytes:.1}</td><td>{:.2}</td><td>{:.2}\n</td><td>{}</td>\
         <td>{}</td><td nowrap>{}</td><td nowrap>{}</td></tr>\n\n",
        process.slot,
        process.generation,
        pid(process, worker),
        idle_for(facts, worker),
        worker.took / 1000,
        worker.duration / 1000,
        own_bytes / 1024.0,
        slot_bytes / 1024.0,
        escape_html(&worker.client),
        escape_html(&worker.protocol.to_ascii_lowercase()),
        escape_html(&worker.vhost),
        escape_html(&request(facts, worker))
    );
}

fn details(out: &mut String, facts: &Facts, process: &Process, worker: &Worker) {
    let [connection, own, slot] = worker.accesses;
    let state = match worker.state {
        State::Ready => "Ready",
        State::Starting => "Starting",
        State::Read => "<b>Read</b>",
        State::Write => "<b>Write</b>",
        State::KeepAlive => "<b>Keepalive</b>",
        State::Log => "<b>Logging</b>",
        State::Dns => "<b>DNS lookup</b>",
        State::Closing => "<b>Closing</b>",
        State::Dead => "Dead",
        State::Graceful => "Graceful",
        State::IdleCleanup => "Dying",
    };
    let [user, system, children_user, children_system] = process.cpu.map(|micros| seconds(micros / 10_000));
    let _ = write!(
        out,
        "<b>Server {}-{}</b> ({}): {connection}|{own}|{slot} [{state}] \
         u{user} s{system} cu{children_user} cs{children_system}\n {} {} {}({}|{}|{})\n \
         <i>{} {{{}}}</i> <i>({})</i> <b>[{}]</b><br />\n\n",
        process.slot,
        process.generation,
        pid(process, worker),
        idle_for(facts, worker),
        worker.took / 1000,
        worker.duration / 1000,
        bytes(worker.bytes[0]),
        bytes(worker.bytes[1]),
        bytes(worker.bytes[2]),
        escape_html(&worker.client),
        escape_html(&request(facts, worker)),
        escape_html(&worker.protocol.to_ascii_lowercase()),
        escape_html(&worker.vhost)
    );
}

/// The number of bytes of a request line that are shown.
const REQUEST: usize = 63;

/// The beginning or the end of the request line, always in printable ASCII.
fn request(facts: &Facts, worker: &Worker) -> String {
    let count = worker.request.chars().count();
    let skip = if facts.tail { count.saturating_sub(REQUEST) } else { 0 };
    printable(worker.request.chars().skip(skip).take(REQUEST))
}

/// The known part of the request line, marked if it is incomplete.
pub(super) fn line(worker: &Worker) -> String {
    let end = if worker.request.len() < REQUEST_ROOM { "" } else { "…" };
    printable(worker.request.chars()) + end
}

fn printable(text: impl Iterator<Item = char>) -> String {
    let mut out = String::new();
    for c in text {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            _ => http::text::to_bytes(c.encode_utf8(&mut [0; 4])).iter().for_each(|byte| {
                let _ = write!(out, "\\x{byte:02x}");
            }),
        }
    }
    out
}

const TABLE: &str = "\n\n<table border=\"0\"><tr><th>Srv</th><th>PID</th><th>Acc</th><th>M</th><th>CPU
</th><th>SS</th><th>Req</th><th>Dur</th><th>Conn</th><th>Child</th><th>Slot</th><th>Client</th><th>Protocol</th>\
<th>VHost</th><th>Request</th></tr>\n\n";

const LEGEND: &str = "</table>
 <hr /> <table>
 <tr><th>Srv</th><td>Child Server number - generation</td></tr>
 <tr><th>PID</th><td>OS process ID</td></tr>
 <tr><th>Acc</th><td>Number of accesses this connection / this child / this slot</td></tr>
 <tr><th>M</th><td>Mode of operation</td></tr>
<tr><th>CPU</th><td>CPU usage, number of seconds</td></tr>
<tr><th>SS</th><td>Seconds since beginning of most recent request</td></tr>
 <tr><th>Req</th><td>Milliseconds required to process most recent request</td></tr>
 <tr><th>Dur</th><td>Sum of milliseconds required to process all requests</td></tr>
 <tr><th>Conn</th><td>Kilobytes transferred this connection</td></tr>
 <tr><th>Child</th><td>Megabytes transferred this child</td></tr>
 <tr><th>Slot</th><td>Total megabytes transferred this slot</td></tr>
 </table>
";

/// A letter for every row.
pub(super) fn rows(board: &Snapshot) -> String {
    board.processes.iter().flat_map(|process| &process.workers).map(|worker| worker.state.letter()).collect()
}
