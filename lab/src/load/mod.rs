//! The generator: requests over HTTP/1.1 or HTTP/2, plain or encrypted, as fast as a server answers or at a fixed rate.
//!
//! Threads share the work of a [`Plan`], and report to [`Live`] every second. Each has a loop over the events of its
//! connections: a request costs it one call that sends, one that receives, and a part of one that waits for many. The
//! result is a [`Record`].

mod build;
pub(crate) mod bulletin;
mod connection;
pub(crate) mod copies;
pub(crate) mod face;
mod http2;
mod live;
mod plan;
mod record;
mod response;
mod scenario;
mod schedule;
mod session;
pub(crate) mod target;
pub(crate) mod timeline;
pub(crate) mod url;
mod worker;

pub(crate) use build::base64;
pub(crate) use live::Live;
pub(crate) use plan::{Arrival, Pace, Plan};
pub(crate) use record::{Handshakes, Record};

use bulletin::Board;
use copies::Division;
use plan::Share;
use scenario::users;

use crate::error::{Context as _, Error, Result};
use crate::interrupt;
use crate::launch;

/// Runs a plan, and calls `watch` about ten times a second meanwhile. It ends early, with its results so far, if the
/// user interrupts it; other programs can see it run ([`bulletin`]).
///
/// # Errors
/// A thread or another process cannot be started, the kernel provides no events, or this machine allows too few open
/// files.
pub(crate) fn run(plan: &Plan, live: &Live, mut watch: impl FnMut(&Live)) -> Result<Record> {
    interrupt::catch()?;
    prepare(plan)?;
    let division = Division::of(plan, launch::raise_descriptor_limit()?)?;
    let prints = plan.shows.is_some() || plan.scenario.as_ref().is_some_and(|scenario| scenario.prints.is_any());
    if prints && division.processes > 1 {
        return Err(Error::new("requests and answers are printed by one process, and this load needs several")
            .advise("fewer connections at a time, or a higher limit of open files (ulimit -n)"));
    }
    let mut board = Board::put_up(plan);
    let watch = |live: &Live| {
        if interrupt::is_asked() {
            live.stop();
        }
        if let Some(board) = &mut board {
            board.publish(live);
        }
        watch(live);
    };
    let mut whole = match division.processes {
        1 => threads(&plan.shares(), live, watch)?,
        _ => together(copies::run(&division, live, watch)?)?,
    };
    whole.timeline = std::mem::take(&mut live.progress().timeline);
    Ok(whole)
}

/// Lets the cryptography initialise before anything counts, which takes a tenth of a second.
fn prepare(plan: &Plan) -> Result<()> {
    let Some(tls) = &plan.tls else { return Ok(()) };
    let opened = session::Session::open(&tls.client()?);
    opened.map(|_| ()).map_err(|_| Error::new(format!("cannot begin a handshake with {}", tls.name)))
}

/// A thread for each share.
fn threads(shares: &[Share<'_>], live: &Live, mut watch: impl FnMut(&Live)) -> Result<Record> {
    let start = live.start();
    together(std::thread::scope(|scope| {
        let started = shares.iter().map(|share| {
            let work = move || match &share.plan.scenario {
                None => worker::run(share, live, start),
                Some(scenario) => users::run(scenario, share, live, start),
            };
            std::thread::Builder::new().spawn_scoped(scope, work).context(|| "start a thread".to_owned())
        });
        let threads: Vec<_> = started.collect::<Result<_>>().inspect_err(|_| live.stop())?;
        while !threads.iter().all(|thread| thread.is_finished()) {
            watch(live);
            std::thread::park_timeout(WATCH);
        }
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| Error::new("a thread of the generator has panicked"))?);
        joined.collect::<Result<Vec<Record>>>()
    })?)
}

/// All records in one.
fn together(records: Vec<Record>) -> Result<Record> {
    let mut records = records.into_iter();
    let mut whole = records.next().ok_or_else(|| Error::new("the plan has nothing to do"))?;
    records.for_each(|record| whole.add(record));
    Ok(whole)
}

/// How often the watcher is called.
const WATCH: std::time::Duration = std::time::Duration::from_millis(100);
