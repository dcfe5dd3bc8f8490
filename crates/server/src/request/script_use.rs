//! What the script of a request has cost, for access logs.

use std::sync::OnceLock;
use std::time::Duration;

use sys::process::Reaped;

/// Of one run. Its end may come later than that of its answer.
#[derive(Debug)]
pub struct ScriptUse {
    /// How long the request waited until the script was let in.
    pub queued: Duration,
    spawned: OnceLock<Duration>,
    ended: OnceLock<Reaped>,
}

impl ScriptUse {
    /// Of a script that was let in just now.
    pub fn new(queued: Duration) -> ScriptUse {
        ScriptUse { queued, spawned: OnceLock::new(), ended: OnceLock::new() }
    }

    /// It was started, which took so long.
    pub fn set_started(&self, spawned: Duration) {
        // A process begins once.
        let _ = self.spawned.set(spawned);
    }

    /// How long it took to start the script.
    pub fn spawned(&self) -> Duration {
        self.spawned.get().copied().unwrap_or_default()
    }

    /// It has ended.
    pub fn set_ended(&self, reaped: Reaped) {
        // A process ends once.
        let _ = self.ended.set(reaped);
    }

    /// How it ended and what it has used; `None` as long as that is not known.
    pub fn ended(&self) -> Option<&Reaped> {
        self.ended.get()
    }
}
