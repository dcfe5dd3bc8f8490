//! The threads of a load: one for each share of its plan.

use std::time::Duration;

use super::live::Live;
use super::plan::{Plan, Share};
use super::record::Record;
use super::scenario::users;
use super::tls_session::TlsSession;
use super::worker;
use crate::machine::error::{Context as _, Error, Result};

/// How often the watcher is called.
pub(super) const WATCH: Duration = Duration::from_millis(100);

/// Lets the cryptography initialise before anything counts, which takes a tenth of a second.
pub(super) fn prepare(plan: &Plan) -> Result<()> {
    let Some(tls) = &plan.tls else { return Ok(()) };
    let opened = TlsSession::open(&tls.client()?);
    opened.map(|_| ()).map_err(|_| Error::new(format!("cannot begin a handshake with {}", tls.name)))
}

/// A thread for each share.
pub(super) fn run(shares: &[Share<'_>], live: &Live, mut watch: impl FnMut(&Live)) -> Result<Record> {
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
pub(super) fn together(records: Vec<Record>) -> Result<Record> {
    let mut records = records.into_iter();
    let mut whole = records.next().ok_or_else(|| Error::new("the plan has nothing to do"))?;
    records.for_each(|record| whole.add(record));
    Ok(whole)
}
