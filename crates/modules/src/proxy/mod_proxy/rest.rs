//! Backends outside balancers whose errors count (`status=-I`): such a one gets no requests for a while after it could not be reached.
//!
//! Apache manual: mod_proxy, `status` and `retry`. That errors of these backends do not count unless a line says so was measured on 2.4.71.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sys::shm::Shared;
use sys::time::Instant;

use super::status::{Change, Status};

/// How long a backend gets no requests after it could not be reached, if the configuration does not say.
pub(super) const RETRY: Duration = Duration::from_secs(60);

/// The rest that a backend has, known to all processes.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// The times of the last failures of all backends, in nanoseconds; 0: there was none.
    failures: Arc<Shared<AtomicU64>>,
    index: usize,
    time: Duration,
}

impl Rest {
    /// That of a backend with these settings, if it has any.
    pub(super) fn new(
        failures: &Arc<Shared<AtomicU64>>,
        index: usize,
        status: Change,
        retry: Option<Duration>,
    ) -> Option<Rest> {
        let time = retry.unwrap_or(RETRY);
        let counts_errors = !status.of(Status::IGNORES_ERRORS).has(Status::IGNORES_ERRORS);
        counts_errors.then(|| Rest { failures: failures.clone(), index, time })
    }

    /// It begins.
    pub(super) fn begin(&self) {
        self.failures[self.index].store(Instant::now().nanoseconds(), Relaxed);
    }

    /// Whether it lasts.
    pub(super) fn lasts(&self) -> bool {
        match self.failures[self.index].load(Relaxed) {
            0 => false,
            failed => Duration::from_nanos(Instant::now().nanoseconds().saturating_sub(failed)) < self.time,
        }
    }

    /// How long it takes.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// The status of its backend, which has this one otherwise.
    pub(super) fn status(rest: Option<&Rest>, status: Status) -> Status {
        if rest.is_some_and(Rest::lasts) { status.with(Status::IN_ERROR) } else { status }
    }
}
