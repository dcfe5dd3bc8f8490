//! The texts of the status page.

use std::fmt::Write;

use seam::scoreboard::{Life, Process, Snapshot, State, Worker};

use super::number::{bytes, date, general, kilobytes, span};
use super::{Counts, Facts};

/// `?auto`: a line for each value.
pub(super) fn short(facts: &Facts, board: &Snapshot) -> String {
    let mut out = String::with_capacity(2048);
    let Facts { name, version, mpm, built, uptime, totals, load: [load1, load5, load15], .. } = facts;
    let (now, restart) = dates(facts, board);
    let (config, generation) = (board.generation + 1, board.generation);
    let _ = write!(
        out,
        "{name}\nServerVersion: {version}\nServerMPM: {mpm}\nServer Built: {built}\nCurrentTime: {now}\n\
         RestartTime: {restart}\nParentServerConfigGeneration: {config}\nParentServerMPMGeneration: {generation}\n\
         ServerUptimeSeconds: {uptime}\nServerUptime:{}\nLoad1: {load1:.2}\nLoad5: {load5:.2}\nLoad15: {load15:.2}\n",
        span(*uptime)
    );
    if facts.extended {
        let [user, system, children_user, children_system] = totals.cpu.map(seconds);
        let _ = write!(
            out,
            "Total Accesses: {}\nTotal kBytes: {}\nTotal Duration: {}\nCPUUser: {user}\nCPUSystem: {system}\n\
             CPUChildrenUser: {children_user}\nCPUChildrenSystem: {children_system}\n",
            totals.accesses, totals.kilobytes, totals.duration
        );
        if let Some(load) = cpu_load(facts) {
            let _ = writeln!(out, "CPULoad: {}", general(load, 6));
        }
        let _ = writeln!(out, "Uptime: {uptime}");
        let rates = Rates::of(facts);
        if let Some((requests, bytes)) = rates.per_second {
            let _ = writeln!(out, "ReqPerSec: {}\nBytesPerSec: {}", general(requests, 6), general(bytes, 6));
        }
        if let Some((bytes, duration)) = rates.per_request {
            let _ = writeln!(out, "BytesPerReq: {}\nDurationPerReq: {}", general(bytes, 6), general(duration, 6));
        }
    }
    let _ = writeln!(
        out,
        "BusyWorkers: {}\nGracefulWorkers: {}\nIdleWorkers: {}",
        totals.busy, totals.graceful, totals.idle
    );
    if facts.is_async {
        let sum = Connections::sum(board);
        let _ = writeln!(
            out,
            "Processes: {}\nStopping: {}\nConnsTotal: {}\nConnsAsyncWaitIO: 0\nConnsAsyncWriting: {}\n\
             ConnsAsyncKeepAlive: {}\nConnsAsyncClosing: {}",
            sum.processes, sum.stopping, sum.total, sum.writing, sum.keep_alive, sum.closing
        );
    }
    let _ = writeln!(out, "Scoreboard: {}", letters(board));
    out
}

/// The page for people.
pub(super) fn html(facts: &Facts, board: &Snapshot, no_table: bool, signature: &str) -> String {
    let mut out = String::with_capacity(8192);
    head(&mut out, facts, board);
    if facts.is_async {
        connections(&mut out, board);
    }
    let letters = letters(board);
    out.push_str("<pre>");
    for (i, letter) in letters.chars().enumerate() {
        out.push(letter);
        if i % LINE == LINE - 1 {
            out.push('\n');
        }
    }
    out.push_str(KEY);
    match (facts.extended, no_table) {
        (false, _) => {
            pids(&mut out, board);
            out.push_str(
                "<hr />To obtain a full report with current status information you need to use the \
                 <code>ExtendedStatus On</code> directive.\n",
            );
        }
        (true, true) => {
            out.push_str("<hr /><h2>Server Details</h2>\n\n");
            each(board, |process, worker| details(&mut out, facts, process, worker));
        }
        (true, false) => {
            out.push_str(TABLE);
            each(board, |process, worker| row(&mut out, facts, process, worker));
            out.push_str(LEGEND);
        }
    }
    if !signature.is_empty() {
        let _ = write!(out, "<hr />\n{}", signature.strip_prefix("<hr>\n").unwrap_or(signature));
    }
    out.push_str("</body></html>\n");
    out
}

/// Letters in a line of the scoreboard.
const LINE: usize = 64;

fn dates(facts: &Facts, board: &Snapshot) -> (String, String) {
    let text = |micros: u64| date(i64::try_from(micros / 1_000_000).unwrap_or(0));
    (text(facts.now), text(board.restarted))
}

/// Hundredths of seconds as seconds.
fn seconds(ticks: u64) -> String {
    general(ticks as f64 / 100.0, 6)
}

/// CPU time used of the time passed, in per cent.
fn cpu_load(facts: &Facts) -> Option<f64> {
    let ticks: u64 = facts.totals.cpu.iter().sum();
    (ticks > 0).then(|| ticks as f64 / 100.0 / facts.uptime as f64 * 100.0)
}

/// Averages. As in Apache, quotients have the precision of its `float`.
struct Rates {
    /// Requests and bytes.
    per_second: Option<(f64, f64)>,
    /// Bytes and milliseconds.
    per_request: Option<(f64, f64)>,
}

impl Rates {
    fn of(facts: &Facts) -> Rates {
        let totals = &facts.totals;
        let quotient = |one: u64, by: u64| f64::from(one as f32 / by as f32);
        let bytes = |by: u64| f64::from(1024.0 * totals.kilobytes as f32 / by as f32);
        let (uptime, accesses) = (facts.uptime, totals.accesses);
        Rates {
            per_second: (uptime > 0).then(|| (quotient(accesses, uptime), bytes(uptime))),
            per_request: (accesses > 0).then(|| (bytes(accesses), quotient(totals.duration, accesses))),
        }
    }
}

fn head(out: &mut String, facts: &Facts, board: &Snapshot) {
    let Facts { name, via, version, mpm, built, totals, load: [load1, load5, load15], .. } = facts;
    let (now, restart) = dates(facts, board);
    let (config, generation) = (board.generation + 1, board.generation);
    let _ = write!(
        out,
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
         <html><head>\n<title>Apache Status</title>\n</head><body>\n\
         <h1>Apache Server Status for {} (via {via})</h1>\n\n\
         <dl><dt>Server Version: {version}</dt>\n<dt>Server MPM: {mpm}</dt>\n<dt>Server Built: {built}\n\
         </dt></dl><hr /><dl>\n<dt>Current Time: {now}</dt>\n<dt>Restart Time: {restart}</dt>\n\
         <dt>Parent Server Config. Generation: {config}</dt>\n<dt>Parent Server MPM Generation: {generation}</dt>\n\
         <dt>Server uptime: {}</dt>\n<dt>Server load: {load1:.2} {load5:.2} {load15:.2}</dt>\n",
        escape(name),
        span(facts.uptime)
    );
    if facts.extended {
        let [user, system, children_user, children_system] = totals.cpu.map(seconds);
        let load = cpu_load(facts).map_or_else(String::new, |load| format!(" - {}% CPU load", general(load, 3)));
        let _ = write!(
            out,
            "<dt>Total accesses: {} - Total Traffic: {} - Total Duration: {}</dt>\n\
             <dt>CPU Usage: u{user} s{system} cu{children_user} cs{children_system}{load}</dt>\n<dt>",
            totals.accesses,
            kilobytes(totals.kilobytes),
            totals.duration
        );
        let rates = Rates::of(facts);
        if let Some((requests, amount)) = rates.per_second {
            let _ = write!(out, "{} requests/sec - {}/second", general(requests, 3), bytes(amount as u64));
        }
        if let Some((amount, duration)) = rates.per_request {
            let between = if rates.per_second.is_some() { " - " } else { "" };
            let _ = write!(out, "{between}{}/request - {} ms/request", bytes(amount as u64), general(duration, 6));
        }
        out.push_str("</dt>\n");
    }
    let _ = write!(
        out,
        "<dt>{} requests currently being processed, {} workers gracefully restarting, {} idle workers</dt>\n</dl>",
        totals.busy, totals.graceful, totals.idle
    );
}

/// The connections of the children, for MPMs in which they may wait without a worker.
#[derive(Default)]
struct Connections {
    processes: usize,
    stopping: usize,
    total: u64,
    writing: u64,
    keep_alive: u64,
    closing: u64,
}

impl Connections {
    fn sum(board: &Snapshot) -> Connections {
        board.processes.iter().filter(|process| process.pid != 0).fold(Connections::default(), |sum, process| {
            Connections {
                processes: sum.processes + 1,
                stopping: sum.stopping + usize::from(process.life == Life::Quiescing),
                total: sum.total + process.connections,
                writing: sum.writing + process.writing,
                keep_alive: sum.keep_alive + process.keep_alive,
                closing: sum.closing + process.closing,
            }
        })
    }
}

fn connections(out: &mut String, board: &Snapshot) {
    out.push_str(
        "\n\n<table rules=\"all\" cellpadding=\"1%\">\n<tr><th rowspan=\"2\">Slot</th><th rowspan=\"2\">PID</th>\
         <th rowspan=\"2\">Stopping</th><th colspan=\"2\">Connections</th>\n<th colspan=\"3\">Threads</th>\
         <th colspan=\"4\">Async connections</th></tr>\n<tr><th>total</th><th>accepting</th><th>busy</th>\
         <th>graceful</th><th>idle</th><th>wait-io</th><th>writing</th><th>keep-alive</th><th>closing</th></tr>\n",
    );
    let mut all = Counts::default();
    for process in board.processes.iter().filter(|process| process.pid != 0) {
        let counts = Counts::of(process);
        all.busy += counts.busy;
        all.graceful += counts.graceful;
        all.idle += counts.idle;
        let stopping = if process.life == Life::Quiescing { "yes" } else { "no" };
        let old = if process.generation == board.generation { "" } else { " (old gen)" };
        let accepting = if process.life == Life::Running { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{stopping}{old}</td><td>{}</td><td>{accepting}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>0</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            process.slot,
            process.pid,
            process.connections,
            counts.busy,
            counts.graceful,
            counts.idle,
            process.writing,
            process.keep_alive,
            process.closing
        );
    }
    let sum = Connections::sum(board);
    let _ = writeln!(
        out,
        "<tr><td>Sum</td><td>{}</td><td>{}</td><td>{}</td><td>&nbsp;</td><td>{}</td><td>{}</td><td>{}</td><td>0</td>\
         <td>{}</td><td>{}</td><td>{}</td></tr>\n</table>",
        sum.processes,
        sum.stopping,
        sum.total,
        all.busy,
        all.graceful,
        all.idle,
        sum.writing,
        sum.keep_alive,
        sum.closing
    );
}

/// A letter for every worker that there is or might be.
fn letters(board: &Snapshot) -> String {
    let rows = board.processes.iter().flat_map(|process| &process.workers);
    let mut letters: String = rows.map(|worker| worker.state.letter()).collect();
    while letters.len() < board.shown {
        letters.push(State::Dead.letter());
    }
    letters
}

fn pids(out: &mut String, board: &Snapshot) {
    out.push_str("PID Key: <br />\n<pre>\n");
    let mut in_line = 0;
    for process in &board.processes {
        for worker in process.workers.iter().filter(|worker| worker.state != State::Dead) {
            let _ = write!(out, "   {} in state: {} ", process.pid, worker.state.letter());
            in_line = (in_line + 1) % 3;
            out.push(if in_line == 0 { '\n' } else { ',' });
        }
    }
    out.push_str("\n</pre>\n");
}

/// Every worker that has something to tell.
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
        escape(&worker.client),
        escape(&worker.protocol.to_ascii_lowercase()),
        escape(&worker.vhost),
        request(facts, worker)
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
        escape(&worker.client),
        request(facts, worker),
        escape(&worker.protocol.to_ascii_lowercase()),
        escape(&worker.vhost)
    );
}

/// Bytes of a request line that are shown.
const REQUEST: usize = 63;

/// The beginning of the request line, or its end; whatever a client put into it, it stays a text.
fn request(facts: &Facts, worker: &Worker) -> String {
    let count = worker.request.chars().count();
    let skip = if facts.tail { count.saturating_sub(REQUEST) } else { 0 };
    let mut out = String::new();
    for c in worker.request.chars().skip(skip).take(REQUEST) {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            _ => http::text::to_bytes(c.encode_utf8(&mut [0; 4])).iter().for_each(|byte| {
                let _ = write!(out, "\\x{byte:02x}");
            }),
        }
    }
    escape(&out)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

const KEY: &str = "</pre>\n<p>Scoreboard Key:<br />
\"<b><code>_</code></b>\" Waiting for Connection, 
\"<b><code>S</code></b>\" Starting up, 
\"<b><code>R</code></b>\" Reading Request,<br />
\"<b><code>W</code></b>\" Sending Reply, 
\"<b><code>K</code></b>\" Keepalive (read), 
\"<b><code>D</code></b>\" DNS Lookup,<br />
\"<b><code>C</code></b>\" Closing connection, 
\"<b><code>L</code></b>\" Logging, 
\"<b><code>G</code></b>\" Gracefully finishing,<br /> 
\"<b><code>I</code></b>\" Idle cleanup of worker, 
\"<b><code>.</code></b>\" Open slot with no current process<br />
</p>
";

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
