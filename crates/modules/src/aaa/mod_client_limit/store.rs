//! Limits that several servers share: what a client owes is in a store as well, such as Redis.
//!
//! The table of this server is asked first. What it refuses, the store would refuse too, and never hears of; and when the store is out of
//! reach, the table goes on limiting.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use server::Request;
use server::module::{Debit, ObjectCache, Spends};
use sha2::{Digest, Sha256};

use super::rule::Rule;
use super::settings::ClientLimitServer;
use super::table::Rate;
use crate::complaints::Complaints;
use crate::slots::Slots;

/// The name of this user of a store; what precedes its keys.
pub(super) const USER: &str = "client-limit";

/// The store of the server, if it has one.
fn store(request: &Request) -> Option<std::sync::Arc<dyn ObjectCache>> {
    request.server.main().settings.get::<ClientLimitServer>().store.get()?.shared()
}

/// Whether the server has a store.
pub(super) fn is_there(request: &Request) -> bool {
    request.server.main().settings.get::<ClientLimitServer>().store.is_set()
}

/// The key of a client's account: the same on all servers with the same configuration, and nobody reads in the store who it is.
pub(super) fn key(rule: &Rule, name: &str) -> String {
    let Rate { each, burst } = rule.rate;
    let limit = format!("{}\0{}\0{burst}\0{:?}\0{}\0", rule.place, each.as_micros(), rule.counted, rule.by.text());
    let digest = Sha256::new().chain_update(limit).chain_update(name).finalize();
    let half: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{USER}:{half}")
}

/// How far ahead a client is on each account, as [`ObjectCache::debit`] says. `None`: the server has no store, or the store is out of reach,
/// which is logged now and then.
pub(super) async fn ask(request: &Request, debits: &[Debit]) -> Option<Vec<Duration>> {
    static OUT_OF_REACH: Complaints = Complaints::new();
    if debits.is_empty() {
        return None;
    }
    let store = store(request)?;
    let answer = store.debit(debits).await;
    let text = "ClientLimitStore: this server limits its clients alone meanwhile";
    answer.inspect_err(|error| OUT_OF_REACH.log(request.vhost, "client_limit", "", Some(error), text)).ok()
}

/// What has happened already, or has not happened after all.
pub(super) fn charge(key: String, cost: Duration, is_real: bool) -> Debit {
    let spends = if is_real { Spends::Always } else { Spends::Returns };
    Debit { key, each: cost, room: Duration::ZERO, spends, is_final: false }
}

/// Tells the store, while no request waits for it. If the store is out of reach, or there is too much to do, it is not told.
pub(super) fn tell(request: &Request, debits: Vec<Debit>) {
    /// How many are under way at once: a slow store leaves room for other errands.
    static TELLING: Slots = Slots::new(8);
    let Some(store) = store(request).filter(|_| !debits.is_empty()) else { return };
    let Some(slot) = TELLING.take() else {
        FAILURES.fetch_add(1, Relaxed);
        return;
    };
    let has_begun = server::begin_errand(async move {
        let _slot = slot;
        // The next request that asks the store complains about it.
        if store.debit(&debits).await.is_err() {
            FAILURES.fetch_add(1, Relaxed);
        }
    });
    if !has_begun {
        FAILURES.fetch_add(1, Relaxed);
    }
}

/// How often this process could not tell the store something.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// How often this process could not tell the store something: a number that only grows.
pub(super) fn failures() -> u64 {
    FAILURES.load(Relaxed)
}
