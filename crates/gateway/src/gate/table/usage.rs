//! The resources that a run of a script has used.

use std::time::Duration;

use sys::process::Status;
use sys::signal::Signal;

/// The resources that a run needed.
#[derive(Clone, Copy, Debug)]
pub(in crate::gate) struct Usage {
    pub(in crate::gate) status: Status,
    /// Was ended because nobody waited for it any more.
    pub(in crate::gate) given_up: bool,
    /// Its peak memory, in bytes; `None` if the system counted no more than for the server's child that started it: the
    /// run then needed no more than that, but it is unknown how much less.
    pub(in crate::gate) peak: Option<u64>,
    /// The memory of that child.
    pub(in crate::gate) floor: u64,
    pub(in crate::gate) cpu: Duration,
    pub(in crate::gate) took: Duration,
    pub(in crate::gate) queued: Duration,
}

impl Usage {
    /// Whether it was ended before it had all the memory it needed.
    pub(super) fn was_cut_short(&self) -> bool {
        let by = [Signal::KILL, Signal::TERM, Signal::XCPU];
        matches!(self.status, Status::Signaled { signal, .. } if by.contains(&signal))
    }
}
