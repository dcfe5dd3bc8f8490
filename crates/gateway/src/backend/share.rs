//! How much of their serving time the backends of a pool need a processor. Backends that need one all the time gain
//! nothing from more of them: that only burdens the processors' caches.

use std::time::Duration;

use sys::process::Pid;
use sys::time::Instant;

/// How often to measure, while requests wait.
const WINDOW: Duration = Duration::from_millis(100);
/// How much serving time a measurement takes.
const ENOUGH: Duration = Duration::from_millis(10);

/// The share of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    measured: Option<Instant>,
    served: Duration,
    thousandths: Option<u64>,
}

impl Share {
    /// In thousandths; `None`: unknown.
    pub(super) fn known(&self) -> Option<u64> {
        self.thousandths
    }

    /// Measures again, unless it has just done so. Takes the total serving time, and the backends, each with its
    /// processor time at the last measurement, which is updated.
    pub(super) fn measure<'a>(&mut self, served: Duration, backends: impl Iterator<Item = (Pid, &'a mut Duration)>) {
        let since = served.saturating_sub(self.served);
        if since < ENOUGH || self.measured.is_some_and(|at| at.elapsed() < WINDOW) {
            return;
        }
        let mut needed = Duration::ZERO;
        for (pid, before) in backends {
            // A backend that has ended needs nothing any more.
            let now = sys::process::occupied(pid).unwrap_or(*before);
            needed += now.saturating_sub(*before);
            *before = now;
        }
        (self.measured, self.served) = (Some(Instant::now()), served);
        let share = needed.as_micros() * 1000 / since.as_micros();
        // A kernel without this accounting says 0.
        self.thousandths = u64::try_from(share).ok().filter(|share| *share > 0).map(|share| share.min(1000));
    }
}
