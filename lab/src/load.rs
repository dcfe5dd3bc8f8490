//! The generator: requests over HTTP/1.1 or HTTP/2, plain or encrypted, as fast as a server answers or at a fixed rate.
//!
//! Threads share the work of a [`Plan`], and report to [`Live`] every second. Each has a loop over the events of its
//! connections: a request costs it one call that sends, one that receives, and a part of one that waits for many. The
//! result is a [`Record`].

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod counts;
pub(crate) mod destination;
pub(crate) mod distribution;
pub(crate) mod failure;
pub(crate) mod http2;
pub(crate) mod live;
pub(crate) mod moment;
pub(crate) mod plan;
pub(crate) mod rates;
pub(crate) mod record;
pub(crate) mod request_builder;
pub(crate) mod response;
pub(crate) mod scenario;
pub(crate) mod schedule;
pub(crate) mod status;
pub(crate) mod status_file;
pub(crate) mod subprocesses;
pub(crate) mod threads;
pub(crate) mod timeline;
pub(crate) mod tls;
pub(crate) mod tls_session;
pub(crate) mod url;
pub(crate) mod worker;

pub(crate) use live::Live;
pub(crate) use plan::{Arrival, Pace, Plan};
pub(crate) use record::{Handshakes, Record};

use status_file::StatusFile;
use subprocesses::Division;

use crate::machine::descriptors;
use crate::machine::error::{Error, Result};
use crate::machine::interrupt;

/// Runs a plan, and calls `watch` about ten times a second meanwhile. It ends early, with its results so far, if the
/// user interrupts it; other programs can see it run ([`status_file`]).
///
/// # Errors
/// A thread or another process cannot be started, the kernel provides no events, or this machine allows too few open
/// files.
pub(crate) fn run(plan: &Plan, live: &Live, mut watch: impl FnMut(&Live)) -> Result<Record> {
    interrupt::catch()?;
    threads::prepare(plan)?;
    let division = Division::of(plan, descriptors::raise_limit()?)?;
    let prints = plan.shows.is_some() || plan.scenario.as_ref().is_some_and(|scenario| scenario.prints.is_any());
    if prints && division.processes > 1 {
        return Err(Error::new("requests and responses are printed by one process, and this load needs several")
            .advise("fewer connections at a time, or a higher limit of open files (ulimit -n)"));
    }
    let mut status_file = StatusFile::create(plan);
    let watch = |live: &Live| {
        if interrupt::is_asked() {
            live.stop();
        }
        if let Some(status_file) = &mut status_file {
            status_file.publish(live);
        }
        watch(live);
    };
    let mut whole = match division.processes {
        1 => threads::run(&plan.shares(), live, watch)?,
        _ => threads::together(subprocesses::run(&division, live, watch)?)?,
    };
    whole.timeline = std::mem::take(&mut live.progress().timeline);
    Ok(whole)
}
