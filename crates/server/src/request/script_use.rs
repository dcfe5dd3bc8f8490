//! The cost of a request's script, for access logs.

use std::sync::OnceLock;
use std::time::Duration;

use sys::process::Reaped;

/// The cost of one run. The script's end may come later than that of its response.
#[derive(Debug)]
pub struct ScriptUse {
    /// How long the request waited until the script was admitted.
    pub queued: Duration,
    spawned: OnceLock<Duration>,
    ended: OnceLock<Reaped>,
}

impl ScriptUse {
    /// For a script that has just been admitted.
    pub fn new(queued: Duration) -> ScriptUse {
        ScriptUse { queued, spawned: OnceLock::new(), ended: OnceLock::new() }
    }

    /// Records that it was started, which took this long.
    pub fn set_started(&self, spawned: Duration) {
        // A process begins once.
        let _ = self.spawned.set(spawned);
    }

    /// How long it took to start the script.
    pub fn spawned(&self) -> Duration {
        self.spawned.get().copied().unwrap_or_default()
    }

    /// Records its end.
    pub fn set_ended(&self, reaped: Reaped) {
        // A process ends once.
        let _ = self.ended.set(reaped);
    }

    /// Its result and the resources it used; `None` until that is known.
    pub fn ended(&self) -> Option<&Reaped> {
        self.ended.get()
    }
}
