//! How much of the time for which they serve the backends of a pool need a processor. Those that need one all the time gain
//! nothing from others beside them: there is only more to be kept in the processors' caches.

use std::time::{Duration, Instant};

use sys::process::Pid;

/// How often it is measured, while requests wait.
const WINDOW: Duration = Duration::from_millis(100);
/// How much service a measurement takes.
const ENOUGH: Duration = Duration::from_millis(10);

/// The share of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    measured: Option<Instant>,
    served: Duration,
    thousandths: Option<u64>,
}

impl Share {
    /// In thousandths; `None`: it is not known.
    pub(super) fn known(&self) -> Option<u64> {
        self.thousandths
    }

    /// Looks again, unless it has done so just now: for how long the backends have served, all in all, and which they are, each
    /// with the time for which it has needed a processor, as this noted it before.
    pub(super) fn measure<'a>(&mut self, served: Duration, backends: impl Iterator<Item = (Pid, &'a mut Duration)>) {
        let since = served.saturating_sub(self.served);
        if since < ENOUGH || self.measured.is_some_and(|at| at.elapsed() < WINDOW) {
            return;
        }
        let mut needed = Duration::ZERO;
        for (pid, before) in backends {
            // One that has ended needs nothing any more.
            let now = sys::process::occupied(pid).unwrap_or(*before);
            needed += now.saturating_sub(*before);
            *before = now;
        }
        (self.measured, self.served) = (Some(Instant::now()), served);
        let share = needed.as_micros() * 1000 / since.as_micros();
        // A kernel that does not count says 0.
        self.thousandths = u64::try_from(share).ok().filter(|share| *share > 0).map(|share| share.min(1000));
    }
}
