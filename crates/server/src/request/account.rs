//! What is counted and logged of a request.

use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use crate::request::Sent;
use crate::request::script_use::ScriptUse;

/// When a request came in, what it has cost, and what went over the wire for it.
pub struct Account {
    /// When it came in, by the clock.
    pub time: SystemTime,
    /// The same, for durations.
    pub start: Instant,
    /// The tick that announced it: what the system told another request in it holds for this one too.
    pub(crate) tick: Option<NonZeroU64>,
    /// Numbers for the log, filled while the answer goes out.
    pub sent: Sent,
    /// What the script that made the answer has cost.
    pub script: Option<Arc<ScriptUse>>,
    /// It is the live page's own, which shows what others do.
    pub watches: bool,
    log_id: OnceLock<String>,
}

impl Account {
    /// Of a request that came in at this time.
    #[inline]
    pub(crate) fn new(time: SystemTime, start: Instant) -> Account {
        Account {
            time,
            start,
            tick: None,
            sent: Sent::default(),
            script: None,
            watches: false,
            log_id: OnceLock::new(),
        }
    }

    /// Of a request on behalf of this one: what is logged of it is logged of this one.
    pub(super) fn again(&self) -> Account {
        Account { tick: self.tick, log_id: self.log_id.clone(), ..Account::new(self.time, self.start) }
    }

    /// The id by which the logs speak of the request, once they do.
    pub(super) fn log_id(&self) -> Option<&str> {
        self.log_id.get().map(String::as_str)
    }

    /// Gives it that id; the first one stays.
    pub(super) fn name(&self, id: impl FnOnce() -> String) {
        self.log_id.get_or_init(id);
    }
}
