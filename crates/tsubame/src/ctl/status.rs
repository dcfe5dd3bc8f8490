//! `tsubame ctl status` and `scripts`: show what the server does.

use std::collections::BTreeMap;
use std::time::Duration;

use gateway::backend::stats::{self, PoolStats};
use gateway::gate::{self, ScriptStats};
use runtime::scoreboard::{self, ChildState, Process, Snapshot};
use serde_json::{Value, json};

use super::difference;
use crate::running::ControlContext;
use crate::style::{Page, Style};
use crate::version;

/// The status of the whole server.
pub(super) fn server(context: &ControlContext<'_>, json: bool, style: Style) -> String {
    let Some(board) = scoreboard::get().map(|board| board.snapshot()) else { return "no scoreboard\n".into() };
    let scripts = gate::scripts();
    if json { for_programs(context, &board, &scripts) } else { for_people(context, &board, &scripts, style) }
}

fn alive(board: &Snapshot) -> impl Iterator<Item = &Process> {
    board.processes.iter().filter(|process| process.life != ChildState::Empty)
}

/// The number of workers in each state that occurs, by its letter.
fn states(process: &Process) -> BTreeMap<char, usize> {
    let mut states = BTreeMap::new();
    for worker in &process.workers {
        *states.entry(worker.state.letter()).or_insert(0) += 1;
    }
    states
}

/// The age of a timestamp of a snapshot, in seconds.
fn age(then: u64) -> u64 {
    scoreboard::since(then).as_secs()
}

/// The directory of the bundle that the configuration was read from.
fn origin(context: &ControlContext<'_>) -> Option<String> {
    context.running.bundle.as_ref().map(|directory| directory.display().to_string())
}

fn for_people(context: &ControlContext<'_>, board: &Snapshot, scripts: &[ScriptStats], style: Style) -> String {
    let mut out = Page::default();
    let (name, parent) = (context.running.mpm.name(), context.parent);
    writeln!(out, "{} with {name}, pid {parent}", style.bold(version::full()));
    let server = &context.running.server;
    let file = server.file.as_deref().unwrap_or("embedded");
    writeln!(out, "configuration {} from {}", server.version, origin(context).unwrap_or_else(|| file.to_string()));
    difference::write_drift(&mut out, &context.running.drift(), style);
    let last = age(board.restarted);
    let restarted = match board.generation {
        0 => "not restarted".to_string(),
        1 => format!("restarted {last} s ago"),
        times => format!("restarted {times} times, last {last} s ago"),
    };
    writeln!(out, "up {} s, {restarted}", age(board.started));
    let sum = |of: fn(&Process) -> u64| board.processes.iter().map(of).sum::<u64>();
    writeln!(
        out,
        "{} requests, {} KiB, {} connections open",
        sum(|process| process.accesses),
        sum(|process| process.bytes) / 1024,
        sum(|process| process.connections),
    );
    writeln!(out);
    writeln!(out, "{}", style.bold("  child  generation       life     age  connections   requests  workers"));
    for process in alive(board) {
        let mut workers: String = states(process).iter().map(|(state, count)| format!(" {count}{state}")).collect();
        if let Some(unlisted) = process.unlisted.filter(|unlisted| *unlisted > 0) {
            workers += &format!(" and {unlisted} more requests");
        }
        writeln!(
            out,
            "{:>7}  {:>10}  {:>9}  {:>4} s  {:>11}  {:>9} {workers}",
            process.pid,
            process.generation,
            process.life.name(),
            age(process.started),
            process.connections,
            process.own_accesses,
        );
    }
    let running: u64 = scripts.iter().map(|script| script.running).sum();
    let waiting: u64 = scripts.iter().map(|script| script.waiting).sum();
    let refused: u64 = scripts.iter().map(|script| script.refused).sum();
    writeln!(out);
    writeln!(out, "scripts: {running} run, {waiting} wait for their turn, {refused} were refused so far");
    let pools = stats::pools();
    if !pools.is_empty() {
        writeln!(out);
        writeln!(out, "{}", style.bold("size  busy  most  wait  requests    waited    served   memory  pool"));
        for pool in &pools {
            let (waited, worked) = pool.averages();
            writeln!(
                out,
                "{:>4}  {:>4}  {:>4}  {:>4}  {:>8}  {:>8}  {:>8}  {:>7}  {}",
                pool.size,
                pool.busy,
                pool.max,
                pool.waiting,
                pool.served,
                duration(Duration::from_secs_f64(waited)),
                duration(Duration::from_secs_f64(worked)),
                mebibytes(pool.memory),
                pool.name,
            );
        }
    }
    out.finish()
}

fn for_programs(context: &ControlContext<'_>, board: &Snapshot, scripts: &[ScriptStats]) -> String {
    let child = |process: &Process| {
        let states: serde_json::Map<String, Value> =
            states(process).into_iter().map(|(state, count)| (state.to_string(), count.into())).collect();
        json!({
            "pid": process.pid,
            "slot": process.slot,
            "generation": process.generation,
            "life": process.life.name(),
            "age_seconds": age(process.started),
            "connections": process.connections,
            "writing": process.writing,
            "keep_alive": process.keep_alive,
            "closing": process.closing,
            "accepted": process.accepted,
            "requests": process.own_accesses,
            "bytes": process.own_bytes,
            "workers": states,
            "unlisted": process.unlisted,
        })
    };
    let value = json!({
        "version": version::full(),
        "mpm": context.running.mpm.name(),
        "pid": context.parent.number(),
        "configuration": {
            "version": context.running.server.version,
            "file": context.running.server.file,
            "bundle": origin(context),
            "drift": context.running.drift(),
        },
        "uptime_seconds": age(board.started),
        "generation": board.generation,
        "restarted_seconds_ago": age(board.restarted),
        "requests": board.processes.iter().map(|process| process.accesses).sum::<u64>(),
        "bytes": board.processes.iter().map(|process| process.bytes).sum::<u64>(),
        "children": alive(board).map(child).collect::<Vec<_>>(),
        "scripts": scripts.iter().map(script).collect::<Vec<_>>(),
        "pools": stats::pools().iter().map(pool).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn pool(pool: &PoolStats) -> Value {
    let ended: serde_json::Map<String, Value> =
        pool.ended.iter().map(|(reason, number)| (reason.to_string(), (*number).into())).collect();
    json!({
        "name": pool.name,
        "size": pool.size,
        "busy": pool.busy,
        "max": pool.max,
        "waiting": pool.waiting,
        "requests": pool.served,
        "refused": pool.refused,
        "waited_seconds": pool.waited,
        "served_seconds": pool.worked,
        "longest_wait_seconds": pool.longest_wait,
        "memory_bytes": pool.memory,
        "started": pool.started,
        "ended": ended,
    })
}

/// The statistics of scripts, those with the most CPU time first.
pub(super) fn scripts(json: bool, style: Style) -> String {
    let mut scripts = gate::scripts();
    scripts.sort_by_key(|script| std::cmp::Reverse(script.cpu));
    if json {
        return format!("{:#}\n", json!({ "scripts": scripts.iter().map(script).collect::<Vec<_>>() }));
    }
    if scripts.is_empty() {
        return "no script has been requested\n".into();
    }
    let title = "run  wait     runs  failed  refused  expected     most       p50       p99  script";
    let mut out = Page::default();
    writeln!(out, "{}", style.bold(title));
    for script in &scripts {
        writeln!(
            out,
            "{:>3}  {:>4}  {:>7}  {:>6}  {:>7}  {:>8}  {:>7}  {:>8}  {:>8}  {}",
            script.running,
            script.waiting,
            script.runs,
            script.failures,
            script.refused,
            mebibytes(script.expected),
            mebibytes(script.peak),
            duration(script.median),
            duration(script.p99),
            script.name,
        );
    }
    out.finish()
}

fn mebibytes(bytes: u64) -> String {
    if bytes == 0 { "-".into() } else { format!("{:.1}M", bytes as f64 / f64::from(1 << 20)) }
}

/// Formats a duration in milliseconds or seconds, with one decimal below 100.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (number, unit) = if seconds < 10.0 { (seconds * 1000.0, "ms") } else { (seconds, "s") };
    match number {
        0.0 => "-".into(),
        _ if number < 100.0 => format!("{number:.1}{unit}"),
        _ => format!("{number:.0}{unit}"),
    }
}

fn script(script: &ScriptStats) -> Value {
    let known = |time: Duration| (!time.is_zero()).then_some(time.as_secs_f64());
    json!({
        "file": script.name,
        "running": script.running,
        "waiting": script.waiting,
        "runs": script.runs,
        "failures": script.failures,
        "refused": script.refused,
        "expected_bytes": script.expected,
        "peak_bytes": script.peak,
        "cpu_seconds": script.cpu.as_secs_f64(),
        "queued_seconds": script.queued.as_secs_f64(),
        "median_seconds": known(script.median),
        "p99_seconds": known(script.p99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_few_digits() {
        let cases = [
            (0, "-"),
            (843, "0.8ms"),
            (12_345, "12.3ms"),
            (204_800, "205ms"),
            (9_999_000, "9999ms"),
            (25_012_345, "25.0s"),
            (361_000_000, "361s"),
        ];
        for (micros, want) in cases {
            assert_eq!(duration(Duration::from_micros(micros)), want);
        }
    }
}
