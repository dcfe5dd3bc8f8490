//! Reports in the error log what the workers do, when none is free or none makes progress.

use std::collections::BTreeMap;
use std::time::Duration;

use gateway::gate;
use mpm::Stall;
use runtime::scoreboard::{self, Described, Process, State, Worker};
use sys::process::{Pid, threads};

use crate::running::Running;

/// The number of children and workers to list individually, and the number of kinds of requests to list together.
const CHILDREN_TOLD: usize = 4;
const WORKERS_TOLD: usize = 16;
const KINDS_TOLD: usize = 5;

/// Reports workers that make no progress, and what each of them waits for.
pub(crate) fn stalled(stalls: &[Stall]) {
    let processes = processes();
    let mut left = WORKERS_TOLD;
    for stall in stalls.iter().take(CHILDREN_TOLD) {
        let seconds = stall.since.as_secs();
        let who = match (stall.child, stall.is_unresponsive) {
            (Some((_, pid)), true) => {
                format!("child {pid} has not answered for {seconds} s: its event loop is stuck")
            }
            (Some((_, pid)), false) => {
                format!("no worker of child {pid} has started or finished a request for {seconds} s, and all are busy")
            }
            (None, _) => format!("no worker has started or finished a request for {seconds} s, and all are busy"),
        };
        let kernel = stall.child.map_or_else(String::new, |(_, pid)| format!("; its threads: {}", threads_of(pid)));
        runtime::log!("core", Warn, "{who}{kernel}{} (StallTimeout)", scripts());
        let slot = stall.child.map(|(slot, _)| slot);
        let busy = busy(processes.iter().filter(|process| slot.is_none_or(|slot| process.slot == slot)));
        for (process, index, worker) in busy.iter().take(left) {
            let (slot, pid, doing) = (process.slot, process.pid, doing(worker.state));
            let what = match worker.state {
                // The row still describes the previous request.
                State::Read => String::new(),
                _ => format!(" for {} s: {}", age(process, worker).as_secs(), request(worker)),
            };
            runtime::log!("core", Warn, "worker {slot}-{index} of child {pid} {doing}{what}");
        }
        if busy.len() > left {
            runtime::log!("core", Warn, "and {} more workers; all of them: {}", busy.len() - left, kinds(&busy));
        }
        left = left.saturating_sub(busy.len());
    }
    if stalls.len() > CHILDREN_TOLD {
        let more = stalls.len() - CHILDREN_TOLD;
        runtime::log!(
            "core",
            Warn,
            "{more} more children make no progress; all busy workers: {}",
            kinds(&busy(&processes))
        );
    }
}

/// Reports what the workers do when none is free.
pub(crate) fn limit_reached(running: &Running) {
    let processes = processes();
    let busy = busy(&processes);
    let reading: u64 = processes.iter().map(|process| process.reading).sum();
    if busy.is_empty() && reading == 0 {
        return;
    }
    let (name, count) = (running.mpm.name(), busy.len());
    let heads = match reading {
        0 => String::new(),
        _ => format!("; {reading} connections have sent a part of a request"),
    };
    let with = if busy.is_empty() { String::new() } else { format!(", with {}", kinds(&busy)) };
    runtime::log!("core", Error, "busy workers of {name}: {count}{with}{heads}{}", scripts());
}

/// A worker with its process, and its number in the process.
type Busy<'a> = (&'a Process, usize, &'a Worker);

fn busy<'a>(processes: impl IntoIterator<Item = &'a Process>) -> Vec<Busy<'a>> {
    let of = |process: &'a Process| process.workers.iter().enumerate().map(move |(i, worker)| (process, i, worker));
    processes.into_iter().flat_map(of).filter(|(.., worker)| worker.state.is_busy()).collect()
}

/// The request of a worker, without the query, which may contain secrets that do not belong in the error log.
fn request(worker: &Worker) -> String {
    let Worker { client, vhost, request, .. } = worker;
    if request.is_empty() {
        return "whose request is not known (ExtendedStatus Off)".into();
    }
    let (path, rest) = request.split_once('?').map_or((&**request, None), |(path, rest)| (path, Some(rest)));
    let protocol = rest.and_then(|rest| rest.rsplit_once(' ')).map_or("", |(_, protocol)| protocol);
    let query = if rest.is_some() { "?... " } else { "" };
    format!("{path}{query}{protocol} for {client} at {vhost}")
}

fn processes() -> Vec<Process> {
    scoreboard::snapshot(Described::All).processes
}

/// The time that a worker has been busy: since its last request began or ended, or since its child started if there was
/// none.
fn age(process: &Process, worker: &Worker) -> Duration {
    scoreboard::since(worker.began.max(worker.used).max(process.started))
}

/// The state of a worker, in words.
fn doing(state: State) -> &'static str {
    match state {
        State::Read => "reads a request",
        State::Write => "makes or sends a response",
        State::KeepAlive => "waits for the next request",
        State::Dns => "looks up a name",
        State::Closing => "closes a connection",
        State::Log => "writes logs",
        State::Graceful => "finishes a connection",
        State::Dead | State::Starting | State::Ready | State::IdleCleanup => "is idle",
    }
}

/// Groups requests of the same kind: the state, the method and the path.
fn kinds(workers: &[Busy<'_>]) -> String {
    let mut kinds: BTreeMap<(&str, String), (usize, Duration)> = BTreeMap::new();
    for (process, _, worker) in workers {
        let request = worker.request.split_once('?').map_or(&*worker.request, |(path, _)| path);
        let words: Vec<&str> = request.split(' ').take(2).collect();
        let request = if worker.state == State::Read { String::new() } else { words.join(" ") };
        let (count, longest) = kinds.entry((doing(worker.state), request)).or_default();
        *count += 1;
        *longest = age(process, worker).max(*longest);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let more = kinds.len().saturating_sub(KINDS_TOLD);
    let told =
        kinds.into_iter().take(KINDS_TOLD).map(|((doing, request), (count, longest))| match request.is_empty() {
            true => format!("{count} x a connection ({doing})"),
            false => format!("{count} x {request} ({doing}, for up to {} s)", longest.as_secs()),
        });
    let more = (more > 0).then(|| format!("{more} other kinds"));
    told.chain(more).collect::<Vec<_>>().join(", ")
}

/// The running and waiting scripts, as the end of a line.
fn scripts() -> String {
    let mut scripts = gate::scripts();
    scripts.retain(|script| script.running + script.waiting > 0);
    scripts.sort_by_key(|script| std::cmp::Reverse(script.running + script.waiting));
    let told: Vec<String> = scripts
        .iter()
        .take(KINDS_TOLD)
        .map(|script| format!("{} ({} run, {} wait)", script.name, script.running, script.waiting))
        .collect();
    if told.is_empty() { String::new() } else { format!("; scripts: {}", told.join(", ")) }
}

/// The wait channels of a child's threads: `24 sleep in futex, 1 sleeps in epoll_wait`.
fn threads_of(pid: Pid) -> String {
    let mut groups: BTreeMap<(String, Option<&str>), usize> = BTreeMap::new();
    for thread in threads(pid) {
        let state = match thread.state {
            'R' => "running".to_string(),
            'S' => "sleeping".to_string(),
            'D' => "waiting for a device".to_string(),
            'T' | 't' => "stopped".to_string(),
            other => format!("in state {other}"),
        };
        *groups.entry((state, thread.call)).or_default() += 1;
    }
    let told = groups.into_iter().map(|((state, call), count)| match call {
        Some(call) => format!("{count} {state} in {call}"),
        None => format!("{count} {state}"),
    });
    told.collect::<Vec<_>>().join(", ")
}
