//! A response that answers later requests too, without a look into the storage.

use std::sync::Arc;
use std::time::Duration;

use server::{Account, Moment, Request, Stored};

use super::freshness::until;
use super::settings::CacheServer;
use crate::cache::control::Control;
use crate::cache::entry::{Ageing, Entry, Micros};
use crate::cache::storage::Watch;
use crate::cache_counts::{Counted, count};

/// A response that was found, and answers requests while it is where it was, and is fresh.
struct Lasting {
    watch: Watch,
    ageing: Ageing,
    /// The age at which it has to be judged anew, in seconds.
    until: i64,
}

impl Stored for Lasting {
    fn age(&self, account: &Account, now: Duration) -> Option<i64> {
        let age = self.ageing.at(now.as_micros() as Micros);
        Some(age).filter(|age| *age < self.until && (self.watch)(account))
    }

    fn count(&self) {
        count(Counted::Hit);
    }
}

/// Lets later requests that ask the same have this response of the cache. `client`: what this request says.
pub(super) fn offer(request: &mut Request, entry: &Entry, watch: Watch, client: &Control, moment: Moment) {
    let conf = request.host::<CacheServer>();
    // `Cache-Status` tells the rest of the lifetime.
    if moment == Moment::BeforePhases && !conf.status_header() {
        let until = until(entry, client, conf.ignore_cache_control());
        request.answered_from(Arc::new(Lasting { watch, ageing: entry.ageing(), until }));
    }
}
