//! What the script of a request has cost, for access logs.

use std::sync::OnceLock;
use std::time::Duration;

use sys::process::Reaped;

/// Of one run. Its end may come later than that of its answer.
#[derive(Debug)]
pub struct ScriptUse {
    /// How long the request waited until the script was let in.
    pub queued: Duration,
    /// How long it took to start the script.
    pub spawned: Duration,
    ended: OnceLock<Reaped>,
}

impl ScriptUse {
    /// Of a script that was started just now.
    pub fn new(queued: Duration, spawned: Duration) -> ScriptUse {
        ScriptUse { queued, spawned, ended: OnceLock::new() }
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
