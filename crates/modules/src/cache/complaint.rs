//! Complaints about storages, which concern every request and are not logged for each.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use conf::Level;
use server::VirtualHost;

/// How long a complaint holds, in seconds.
const QUIET: u64 = 60;

/// Logs a problem, unless this process has logged another one a moment ago. The responses come from the origin meanwhile.
pub(crate) fn complain(host: &VirtualHost, module: &str, error: Option<&io::Error>, text: &str) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = sys::time::monotonic().as_secs() + QUIET;
    let last = LAST.load(Ordering::Relaxed);
    let is_time = now.saturating_sub(last) >= QUIET;
    if is_time && LAST.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let cause = error.map_or_else(String::new, |error| format!("{}: ", sys::describe(error)));
        host.error_log.write(module, Level::Error, &format!("{cause}{text}"));
    }
}
