//! Complaints about what concerns every request, such as a storage out of reach, and is not logged for each.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use conf::Level;
use server::VirtualHost;

/// How long a complaint holds, in seconds.
const QUIET: u64 = 60;

/// The complaints about one thing, in this process.
pub(crate) struct Complaints(AtomicU64);

impl Complaints {
    /// None so far.
    pub(crate) const fn new() -> Complaints {
        Complaints(AtomicU64::new(0))
    }

    /// Logs a problem, unless this process has logged another one a moment ago.
    pub(crate) fn log(&self, host: &VirtualHost, module: &str, error: Option<&io::Error>, text: &str) {
        let now = sys::time::monotonic().as_secs() + QUIET;
        let last = self.0.load(Ordering::Relaxed);
        let is_time = now.saturating_sub(last) >= QUIET;
        if is_time && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let cause = error.map_or_else(String::new, |error| format!("{}: ", sys::describe(error)));
            host.error_log.write(module, Level::Error, &format!("{cause}{text}"));
        }
    }
}
