//! A load in several processes, if one may not have as many descriptors as connections: each does some threads' shares
//! of the plan.
//!
//! A subprocess reads its task, reports that it is ready, and begins when it gets the start time from which everything
//! counts. It reports its progress, and ends early when its input ends: by an order, or with its parent.

use std::io::{BufReader, Read as _};
use std::process::ChildStdin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::live::Live;
use super::moment;
use super::plan::Plan;
use super::record::Record;
use super::threads::{self, WATCH, prepare};
use super::timeline::Quarters;
use crate::machine::error::{Context as _, Error, Result};
use crate::machine::interrupt;
use crate::machine::subprocess::{Subprocess, read_message, write_message};

/// Descriptors that a process needs besides those of its connections and of its threads, one each.
const RESERVE: usize = 16;
/// Descriptors that the parent needs for a subprocess.
const PIPES: usize = 2;

/// A plan that is divided among processes.
#[derive(Clone, Debug)]
pub(super) struct Division {
    plan: Plan,
    /// How many threads each has.
    threads: usize,
    pub(super) processes: usize,
}

impl Division {
    /// As few processes as possible, each of which may open so many files.
    ///
    /// # Errors
    /// There would be more of them than one process can hold pipes for.
    pub(super) fn of(plan: &Plan, descriptors: u64) -> Result<Self> {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let (clients, threads) = (plan.clients, plan.threads.clamp(1, plan.clients.max(1)));
        let fits = |processes: &usize| {
            let each = threads.div_ceil(*processes);
            clients.div_ceil(*processes * each).saturating_mul(each) + each + RESERVE <= descriptors
        };
        let most = (descriptors.saturating_sub(RESERVE) / PIPES).min(clients).max(1);
        let processes = (1..=most).find(fits).ok_or_else(|| {
            let text = format!("only {descriptors} open files are allowed, too few for {clients} connections, even of several processes");
            Error::new(text).advise("ulimit -n 50000 (as root, or after raising the hard limit)")
        })?;
        let each = threads.div_ceil(processes);
        Ok(Self { plan: Plan { threads: processes * each, ..plan.clone() }, threads: each, processes })
    }
}

/// The task of a subprocess: the shares of so many threads, from the first on.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    plan: Plan,
    first: usize,
    threads: usize,
}

/// A moment that means the same in all processes of this machine.
#[derive(Debug, Serialize, Deserialize)]
struct Start(#[serde(with = "moment")] Instant);

/// A subprocess's message.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// Has its task.
    Ready,
    /// Responses and failures since the beginning, and quarters of seconds not reported before.
    Progress { responses: u64, failures: u64, quarters: Quarters },
    /// Done.
    Done(Box<Record>),
}

/// Runs a plan in several processes; otherwise like [`super::run`].
///
/// # Errors
/// A subprocess cannot be started, or fails; then the others are ended, leaving nothing behind.
pub(super) fn run(division: &Division, live: &Live, mut watch: impl FnMut(&Live)) -> Result<Vec<Record>> {
    let mut subprocesses = Vec::new();
    for process in 0..division.processes {
        let (first, threads) = (process * division.threads, division.threads);
        let mut subprocess = Subprocess::start("load-copy")?;
        subprocess.send(&Task { plan: division.plan.clone(), first, threads })?;
        subprocesses.push(subprocess);
    }
    for subprocess in &mut subprocesses {
        subprocess.receive::<Message>()?;
    }
    let start = Start(live.start());
    subprocesses.iter_mut().try_for_each(|subprocess| subprocess.send(&start))?;
    let mut input: Vec<ChildStdin> = subprocesses.iter_mut().filter_map(Subprocess::take_input).collect();
    std::thread::scope(|scope| {
        let started = subprocesses.iter_mut().map(|subprocess| {
            let listen = move || listen(subprocess, live).inspect_err(|_| live.stop());
            std::thread::Builder::new().spawn_scoped(scope, listen).context(|| "start a thread".to_owned())
        });
        // Without an order to go on, subprocesses that have begun end.
        let listeners: Vec<_> = started.collect::<Result<_>>().inspect_err(|_| input.clear())?;
        while !listeners.iter().all(|listener| listener.is_finished()) {
            watch(live);
            if live.is_enough() {
                input.clear();
            }
            std::thread::park_timeout(WATCH);
        }
        let joined = listeners.into_iter().map(|listener| {
            let panicked = |_| Err(Error::new("a thread of the generator has panicked"));
            listener.join().unwrap_or_else(panicked)
        });
        joined.collect()
    })
}

/// Passes on a subprocess's messages, until it is done.
fn listen(subprocess: &mut Subprocess, live: &Live) -> Result<Record> {
    let mut told = [0, 0];
    loop {
        match subprocess.receive()? {
            Message::Ready => {}
            Message::Progress { responses, failures, mut quarters } => {
                live.responses.fetch_add(responses - told[0], Relaxed);
                live.failures.fetch_add(failures - told[1], Relaxed);
                told = [responses, failures];
                live.progress().take(&mut quarters);
            }
            Message::Done(record) => return Ok(*record),
        }
    }
}

/// The work of a subprocess.
///
/// # Errors
/// The task is unreadable, or as with [`super::run`].
pub(crate) fn serve() -> Result<()> {
    // The parent decides about the meaning of an interrupt.
    interrupt::catch()?;
    let mut input = BufReader::new(std::io::stdin());
    // Without an order there is no parent left to report that to.
    let Some(task) = read_message::<Task>(&mut input)? else { return Ok(()) };
    let mut output = std::io::stdout();
    prepare(&task.plan)?;
    let _ = write_message(&mut output, &Message::Ready);
    let Some(Start(start)) = read_message(&mut input)? else { return Ok(()) };
    let live = Arc::new(Live::since(start));
    let stopped = Arc::clone(&live);
    std::thread::spawn(move || {
        let _ = input.read_to_end(&mut Vec::new());
        stopped.stop();
    });
    let shares: Vec<_> = task.plan.shares().into_iter().skip(task.first).take(task.threads).collect();
    let mut progress = |live: &Live| {
        let (responses, failures) = (live.responses.load(Relaxed), live.failures.load(Relaxed));
        write_message(&mut output, &Message::Progress { responses, failures, quarters: live.progress().hand_on() })
    };
    let record = threads::run(&shares, &live, |live| {
        if progress(live).is_err() {
            live.stop();
        }
    })?;
    let _ = progress(&live).and_then(|()| write_message(&mut output, &Message::Done(Box::new(record))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::super::plan::tests::plan;
    use super::super::plan::{Arrival, Pace};
    use super::*;

    #[test]
    fn no_more_processes_than_it_takes() {
        let division = |clients, threads, descriptors| {
            let plan = Plan { clients, threads, ..plan(SocketAddr::from(([127, 0, 0, 1], 1))) };
            Division::of(&plan, descriptors)
                .map(|division| (division.processes, division.threads, division.plan.threads))
        };
        assert_eq!(division(100, 2, 1000).ok(), Some((1, 2, 2)));
        assert_eq!(division(200, 1, 64).ok(), Some((5, 1, 5)));
        assert_eq!(division(200, 8, 64).ok(), Some((5, 2, 10)));
        assert_eq!(division(20_000, 1, 1024).ok().map(|(processes, ..)| processes), Some(20));
        for (clients, descriptors) in [(200, 20), (10_000, 64), (1, 0)] {
            let error = division(clients, 1, descriptors).unwrap_err().to_string();
            assert!(error.contains(&format!("only {descriptors} open files are allowed")), "{error}");
        }
    }

    #[test]
    fn records_arrive_unchanged() {
        let start = Instant::now();
        let mut record = Record::new(start);
        for micros in [0, 7, 1234, 98_765_432] {
            record.total.record(Duration::from_micros(micros));
        }
        record.responses = 3;
        record.classes[2] = 3;
        record.failures.reset = 1;
        record.first = Some((Some("Scripted".to_owned()), 5));
        let mut quarters = Quarters::default();
        quarters.at(Duration::from_secs(9)).total.record(1234).unwrap();
        let mut line = Vec::new();
        write_message(&mut line, &(Start(start), &record, &quarters)).unwrap();
        let (told, subprocess, mut copied): (Start, Record, Quarters) =
            read_message(&mut line.as_slice()).unwrap().unwrap();
        assert!(told.0.max(start) - told.0.min(start) < Duration::from_millis(1));
        assert_eq!(subprocess.total.0, record.total.0);
        assert_eq!(
            (subprocess.responses, subprocess.classes, subprocess.failures),
            (3, record.classes, record.failures)
        );
        assert_eq!(subprocess.first, record.first);
        let (quarter, interval) = copied.take().next().unwrap();
        assert_eq!(
            (quarter, interval.total.len(), interval.total.max()),
            (36, 1, quarters.take().next().unwrap().1.total.max())
        );
        assert!(read_message::<Start>(&mut &b""[..]).unwrap().is_none());
        let task = Task { plan: plan(SocketAddr::from(([127, 0, 0, 1], 1))), first: 2, threads: 3 };
        let task = Task { plan: Plan { arrival: Arrival::Requests(Pace::per_second(3.0)), ..task.plan }, ..task };
        let mut line = Vec::new();
        write_message(&mut line, &task).unwrap();
        let subprocess: Task = read_message(&mut line.as_slice()).unwrap().unwrap();
        assert_eq!(format!("{subprocess:?}"), format!("{task:?}"));
    }
}
