//! The counts and times of a request, for the logs.

use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use runtime::tick::Look;
use sys::time::Instant;

use crate::message::sent::Sent;
use crate::request::child_span::RecordedTrace;
use crate::request::script_use::ScriptUse;
use crate::request::upstream_use::UpstreamUse;

/// The arrival of a request, its cost, and its bytes on the wire.
pub struct Account {
    /// When the request came in, by the clock: time since 1970. Modules [ask for it](crate::Request::time).
    pub(crate) time: Duration,
    /// When the request came in, by a clock that is never set: for durations. Modules ask for the [time since
    /// then](crate::Request::elapsed).
    pub(crate) start: Instant,
    /// The tick that announced it: answers of the system to other requests of that tick also hold for this one.
    pub(crate) tick: Option<NonZeroU64>,
    /// Numbers for the log, filled while the response goes out.
    pub sent: Sent,
    /// The cost of the script that made the response.
    pub script: Option<Arc<ScriptUse>>,
    /// The server behind this one that made the response, if a log wants to know.
    pub upstream: Option<Arc<UpstreamUse>>,
    /// The place of the request in a trace that is recorded.
    pub recorded: Option<Arc<RecordedTrace>>,
    /// The user that a script has let in, if the server knows none. Only the log may believe the name: nobody else has
    /// checked it.
    pub user: Option<String>,
    /// The live page's own request, which shows what others do.
    pub watches: bool,
    log_id: OnceLock<String>,
}

impl Account {
    /// For a request that came in at this moment.
    #[inline]
    pub(crate) fn new(start: Instant) -> Account {
        Account::at(sys::time::wall_clock_at(start), start)
    }

    fn at(time: Duration, start: Instant) -> Account {
        Account {
            time,
            start,
            tick: None,
            sent: Sent::default(),
            script: None,
            upstream: None,
            recorded: None,
            user: None,
            watches: false,
            log_id: OnceLock::new(),
        }
    }

    /// For a request that this tick has announced, if one has.
    pub(crate) fn announced_in(self, tick: Option<NonZeroU64>) -> Account {
        Account { tick, ..self }
    }

    /// Whether what was looked at is as it was. `ask` asks that, unless the response to another request of this one's tick also
    /// holds for this one.
    pub fn shares(&self, look: &Look, ask: impl FnOnce() -> bool) -> bool {
        look.shares(self.tick, self.start, ask)
    }

    /// For a request on behalf of this one: its messages are logged as this one's, and it is recorded with this one.
    pub(crate) fn again(&self) -> Account {
        let (recorded, log_id) = (self.recorded.clone(), self.log_id.clone());
        Account { tick: self.tick, recorded, log_id, ..Account::at(self.time, self.start) }
    }

    /// When the whole response had gone out, by the clock: time since 1970.
    pub(crate) fn ended(&self) -> Duration {
        self.time + self.sent.duration
    }

    /// The request's id in the logs, once it has one.
    pub(crate) fn log_id(&self) -> Option<&str> {
        self.log_id.get().map(String::as_str)
    }

    /// Sets that id; the first one stays.
    pub(crate) fn name(&self, id: impl FnOnce() -> String) {
        self.log_id.get_or_init(id);
    }
}
