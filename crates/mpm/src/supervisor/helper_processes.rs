//! The helper processes ([`HelperProcess`]) that are alive, or should be.

use std::io::PipeWriter;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use runtime::HelperProcess;
use sys::poll::any_readable;
use sys::process::{Pid, end_of};
use sys::signal::Signal;
use sys::time::monotonic;

use super::backoff::Backoff;

/// How long helpers may take to end.
pub(super) const ENDING_MAX: Duration = Duration::from_secs(1);

/// The helper processes of all generations.
#[derive(Debug, Default)]
pub(super) struct HelperProcesses {
    pub(super) groups: Vec<Group>,
    /// With `-X`, a pipe to each helper that closes when this process ends: it becomes another user, whose signals may
    /// not reach them.
    pub(super) ties: Option<Vec<PipeWriter>>,
}

/// The helpers of one kind, of one generation.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) helper: Rc<HelperProcess>,
    pub(super) generation: u32,
    pub(super) alive: Vec<Alive>,
    pub(super) backoff: Backoff,
    /// Its generation has no children any more.
    pub(super) leaving: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Alive {
    pub(super) pid: Pid,
    /// Birth on the monotonic clock.
    pub(super) born: Duration,
}

impl Group {
    pub(super) fn lacks(&self) -> bool {
        !self.leaving && self.alive.len() < self.helper.count
    }
}

impl HelperProcesses {
    /// Adds the helpers of a new generation.
    pub(super) fn add(&mut self, helpers: Vec<HelperProcess>, generation: u32) {
        let group = |helper| Group {
            helper: Rc::new(helper),
            generation,
            alive: Vec::new(),
            backoff: Backoff::new(),
            leaving: false,
        };
        self.groups.extend(helpers.into_iter().map(group));
    }

    pub(super) fn have_ended(&self) -> bool {
        self.groups.iter().all(|group| group.alive.is_empty())
    }

    /// When a missing helper may be started again, on the monotonic clock.
    pub(super) fn next(&self) -> Option<Duration> {
        self.groups.iter().filter(|group| group.lacks()).map(|group| group.backoff.until()).min()
    }

    /// Makes the helpers that start from now on end with this process, whatever user it becomes.
    pub(super) fn tie(&mut self) {
        self.ties = Some(Vec::new());
    }

    /// Ends the helpers that are tied to this process.
    pub(super) fn end_with_us(mut self) {
        self.ties = None;
        let end = monotonic() + ENDING_MAX;
        for alive in self.groups.iter().flat_map(|group| &group.alive) {
            let _ = end_of(alive.pid).and_then(|ended| any_readable([ended.as_fd()], end.saturating_sub(monotonic())));
        }
    }

    /// Starts no more. Those that end from now on have probably received the signal that ends this process too, as all
    /// processes of a terminal do.
    pub(super) fn expect_end(&mut self) {
        self.groups.iter_mut().for_each(|group| group.leaving = true);
    }

    /// Sends a signal to all, and starts no more.
    pub(super) fn order(&mut self, signal: Signal) {
        for group in &mut self.groups {
            group.leaving = true;
            group.alive.iter().for_each(|alive| drop(alive.pid.kill(signal)));
        }
    }
}
