//! Limits that several servers share: what a client owes is in a store as well, such as Redis.
//!
//! The table of this server is asked first. What it refuses, the store would refuse too, and never hears of; and when the store is out of
//! reach, the table goes on limiting.

use std::time::Duration;

use server::Request;
use server::module::{Debit, ObjectCache, Spends};
use sha2::{Digest, Sha256};

use super::ClientLimitServer;
use super::rule::Rule;
use super::table::{Answer, Rate};
use crate::complaints::Complaints;

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

/// What the store says. `None`: the server has none, or the store is out of reach, which is logged now and then.
pub(super) async fn ask(request: &Request, key: &str, rate: Rate, spends: Spends) -> Option<Answer> {
    static OUT_OF_REACH: Complaints = Complaints::new();
    let store = store(request)?;
    let debit = Debit { each: rate.each, room: rate.room(), spends };
    match store.debit(key.as_bytes(), debit).await {
        Ok(ahead) => Some(rate.answer(ahead)),
        Err(error) => {
            let text = "ClientLimitStore: this server limits its clients alone meanwhile";
            OUT_OF_REACH.log(request.vhost, "client_limit", Some(&error), text);
            None
        }
    }
}

/// Charges a client for something that has happened.
pub(super) async fn charge(request: &Request, key: &str, each: Duration) {
    ask(request, key, Rate { each, burst: 1 }, Spends::Always).await;
}
