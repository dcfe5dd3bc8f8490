//! The texts of the status page.

use std::borrow::Cow;
use std::fmt::Write;

use conf::values::strtol;
use http::uri::escape_html;
use runtime::scoreboard::{ChildState, Snapshot, State};

use super::facts::{Counts, Facts};
use super::number::{bytes, date, general, kilobytes, seconds, span};
use super::workers::rows;
use super::{balancers, certificates, live, pools, scripts, workers};

/// The parameters of the query; words count anywhere in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) refresh: Option<i64>,
    pub(super) no_table: bool,
    pub(super) short: bool,
}

impl Wish {
    pub(super) fn of(query: &str) -> Wish {
        let refresh = query.split_once("refresh").map(|(_, rest)| {
            let seconds = rest.strip_prefix('=').map_or(0, strtol);
            if seconds < 1 { 10 } else { seconds }
        });
        Wish { refresh, no_table: query.contains("notable"), short: query.contains("auto") }
    }
}

/// `?auto`: a line for each value.
pub(super) fn short(facts: &Facts, board: &Snapshot) -> String {
    let mut out = String::with_capacity(2048);
    let Facts { name, version, mpm, built, uptime, totals, load: [load1, load5, load15], .. } = facts;
    let (now, restart) = dates(facts, board);
    let (config, generation) = (board.generation + 1, board.generation);
    let version = version_for_tools(version);
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
            "Processes: {}\nStopping: {}\nConnsTotal: {}\nConnsAsyncWaitIO: {}\nConnsAsyncWriting: {}\n\
             ConnsAsyncKeepAlive: {}\nConnsAsyncClosing: {}",
            sum.processes, sum.stopping, sum.total, sum.wait_io, sum.writing, sum.keep_alive, sum.closing
        );
    }
    let _ = writeln!(out, "Scoreboard: {}", letters(board));
    scripts::lines(&mut out, &facts.gate);
    pools::lines(&mut out, &facts.pools);
    balancers::lines(&mut out, &facts.balancers);
    certificates::lines(&mut out, &facts.certificates);
    out
}

/// The page for people.
pub(super) fn html(facts: &Facts, board: &Snapshot, wish: &Wish, signature: &str) -> String {
    let mut out = String::with_capacity(8192);
    // Without tables or with a refresh, the page needs no script.
    let script = if wish.no_table || wish.refresh.is_some() { "" } else { live::SCRIPT };
    head(&mut out, facts, board, script);
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
    match (facts.extended, wish.no_table) {
        (false, _) => {
            pids(&mut out, board);
            out.push_str(
                "<hr />To obtain a full report with current status information you need to use the \
                 <code>ExtendedStatus On</code> directive.\n",
            );
        }
        (true, true) => workers::list(&mut out, facts, board),
        (true, false) => workers::table(&mut out, facts, board),
    }
    scripts::table(&mut out, &facts.gate.scripts);
    pools::table(&mut out, &facts.pools);
    balancers::tables(&mut out, &facts.balancers);
    certificates::table(&mut out, &facts.certificates);
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

/// The first version is Apache's, since tools parse it (apache_exporter makes a figure of it): the version whose
/// configuration and status page these are. The program follows in brackets: `Apache/2.4.71 (Tsubame/0.1.0)`.
pub(super) fn version_for_tools(version: &str) -> Cow<'_, str> {
    let Some((own, apache)) = version.split_once(" Apache/") else { return version.into() };
    let number = apache.split(' ').next().unwrap_or_default();
    format!("Apache/{number} ({own})").into()
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

fn head(out: &mut String, facts: &Facts, board: &Snapshot, script: &str) {
    let Facts { name, via, version, mpm, built, totals, load: [load1, load5, load15], .. } = facts;
    let (now, restart) = dates(facts, board);
    let (config, generation) = (board.generation + 1, board.generation);
    let _ = write!(
        out,
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
         <html><head>\n<title>Apache Status</title>\n{script}</head><body>\n\
         <h1>Apache Server Status for {} (via {via})</h1>\n\n\
         <dl><dt>Server Version: {version}</dt>\n<dt>Server MPM: {mpm}</dt>\n<dt>Server Built: {built}\n\
         </dt></dl><hr /><dl>\n<dt>Current Time: {now}</dt>\n<dt>Restart Time: {restart}</dt>\n\
         <dt>Parent Server Config. Generation: {config}</dt>\n<dt>Parent Server MPM Generation: {generation}</dt>\n\
         <dt>Server uptime: {}</dt>\n<dt>Server load: {load1:.2} {load5:.2} {load15:.2}</dt>\n",
        escape_html(name),
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
    /// Connections that wait for something other than their clients: the rest of a head, or their turn.
    wait_io: u64,
    writing: u64,
    keep_alive: u64,
    closing: u64,
}

impl Connections {
    fn sum(board: &Snapshot) -> Connections {
        board.processes.iter().filter(|process| process.pid != 0).fold(Connections::default(), |sum, process| {
            Connections {
                processes: sum.processes + 1,
                stopping: sum.stopping + usize::from(process.life == ChildState::Quiescing),
                total: sum.total + process.connections,
                wait_io: sum.wait_io + process.reading + process.released,
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
        let stopping = if process.life == ChildState::Quiescing { "yes" } else { "no" };
        let old = if process.generation == board.generation { "" } else { " (old gen)" };
        let accepting = if process.life == ChildState::Running { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{stopping}{old}</td><td>{}</td><td>{accepting}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            process.slot,
            process.pid,
            process.connections,
            counts.busy,
            counts.graceful,
            counts.idle,
            process.reading + process.released,
            process.writing,
            process.keep_alive,
            process.closing
        );
    }
    let sum = Connections::sum(board);
    let _ = writeln!(
        out,
        "<tr><td>Sum</td><td>{}</td><td>{}</td><td>{}</td><td>&nbsp;</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{}</td></tr>\n</table>",
        sum.processes,
        sum.stopping,
        sum.total,
        all.busy,
        all.graceful,
        all.idle,
        sum.wait_io,
        sum.writing,
        sum.keep_alive,
        sum.closing
    );
}

/// A letter for every existing or possible worker. Without a limit, there could always be as many more as are busy.
fn letters(board: &Snapshot) -> String {
    let mut letters = rows(board);
    let busy: usize = board.processes.iter().map(|process| Counts::of(process).busy).sum();
    let shown = if board.limit.is_some() { board.shown } else { board.shown.max(2 * busy) };
    while letters.len() < shown {
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
