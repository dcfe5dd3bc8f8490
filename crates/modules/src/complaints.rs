//! Complaints about what concerns every request, such as a storage out of reach, and is not logged for each.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use conf::Level;
use server::VirtualHost;

/// How long a complaint holds, in seconds.
const QUIET: u64 = 60;
/// About how many storages complaints are remembered: more than a configuration has.
const STORAGES_MAX: usize = 256;

/// The complaints of one kind, in this process.
pub(crate) struct Complaints(Mutex<BTreeMap<String, u64>>);

impl Complaints {
    /// None so far.
    pub(crate) const fn new() -> Complaints {
        Complaints(Mutex::new(BTreeMap::new()))
    }

    /// Logs a problem with a storage, unless this process has logged another one with it a moment ago.
    pub(crate) fn log(&self, host: &VirtualHost, module: &str, about: &str, error: Option<&io::Error>, text: &str) {
        if self.is_due(about) {
            let cause = error.map_or_else(String::new, |error| format!("{}: ", sys::describe(error)));
            host.error_log.write(module, Level::Error, &format!("{cause}{text}"));
        }
    }

    /// Whether it is time for a complaint about a storage. If so, it is made.
    pub(crate) fn is_due(&self, about: &str) -> bool {
        let now = sys::time::monotonic().as_secs();
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.get(about).is_some_and(|last| now - last < QUIET) {
            return false;
        }
        if made.len() >= STORAGES_MAX {
            made.retain(|_, last| now - *last < QUIET);
        }
        if made.len() >= STORAGES_MAX {
            return false;
        }
        made.insert(about.to_string(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_storage_has_its_own() {
        let complaints = Complaints::new();
        assert_eq!(["a", "b", "a", "b"].map(|about| complaints.is_due(about)), [true, true, false, false]);
        let further = (0..STORAGES_MAX).filter(|number| complaints.is_due(&number.to_string())).count();
        assert_eq!(further, STORAGES_MAX - 2);
    }
}
