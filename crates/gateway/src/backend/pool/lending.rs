//! The leases of a pool's backends: which requests get one, and how it comes back.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use sys::time::Instant;

use super::backend::Backend;
use super::{Granted, Pool};
use crate::backend::class::{Concurrency, Version};
use crate::backend::lease_state::{LeaseCell, LeaseState};
use crate::backend::manager_messages::{Grant, Outcome};
use crate::backend::policy::{self, Activity};
use crate::backend::reason::Reason;
use crate::backend::stats::Field;
use crate::backend::throttle::Failures;
use crate::gate;

/// How often to try to take back a lease whose child goes from one request to the next meanwhile.
const TRIES: u32 = 8;

/// How far a lease has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::backend) struct LeaseProgress {
    /// How many requests it has served; the current one does not count.
    pub(in crate::backend) served: u64,
    /// Whether the child keeps the lease for its next request, and has none now.
    pub(in crate::backend) is_kept: bool,
}

impl Pool {
    /// Gives free backends to waiting requests, in order of arrival.
    pub(in crate::backend) fn grant(&mut self) {
        let (many, most) = match self.class.concurrency {
            Concurrency::One => (false, 1),
            Concurrency::Many(most) => (true, most),
        };
        // A backend that serves many makes a process for each, which needs memory.
        let has_room = !many || gate::has_room();
        while !self.queue.is_empty() {
            let version = self.version;
            let free = |backend: &&mut Backend| {
                backend.activity != Activity::Ending
                    && backend.version == version
                    && backend.busy < most
                    && (has_room || backend.busy == 0)
            };
            // The one used last is warm.
            let Some(backend) = self.backends.iter_mut().filter(free).max_by_key(|backend| backend.since) else {
                match self.reclaim() {
                    true => continue,
                    false => break,
                }
            };
            let socket = match backend.connect(many) {
                Ok(socket) => socket,
                // The backend was not quick enough: its end will be noticed.
                Err(error) => {
                    runtime::log!(
                        &self.class.module,
                        Error,
                        "{}: cannot connect to {}",
                        sys::describe(&error),
                        self.class.name
                    );
                    backend.reason.get_or_insert(Reason::Broken);
                    backend.activity = Activity::Ending;
                    backend.end();
                    continue;
                }
            };
            let Some(waiter) = self.queue.pop_front() else { break };
            backend.activity = Activity::Busy;
            backend.busy += 1;
            backend.since = Instant::now();
            let waited = u64::try_from(waiter.came.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.row.add(Field::Waited, waited);
            self.row.raise(Field::LongestWait, waited);
            backend.lease = waiter.number;
            // The child assumes that it has the version it asked for.
            let same_version = [Version::default(), version].contains(&waiter.version);
            let Backend { number, pid, served, lease, cell, .. } = *backend;
            if let Some((_, cell)) = cell {
                cell.lend(lease);
            }
            let grant = Grant {
                pid,
                served,
                queued: false,
                lease,
                row: self.row.index(),
                place: cell.map_or(u64::MAX, |(place, _)| place),
                more: cell.filter(|_| same_version).map_or(0, |_| policy::requests_left(&self.class.settings, served)),
            };
            waiter.granted.set(Granted::Backend { number, socket, grant });
        }
    }

    /// The leases that children hold: the backend's number, the lease and its cell.
    fn lent(&self) -> impl Iterator<Item = (u64, u64, LeaseCell)> {
        let lent = self.backends.iter().filter(|backend| backend.busy > 0);
        lent.filter_map(|backend| Some((backend.number, backend.lease, backend.cell?.1)))
    }

    /// Takes back leases that children keep, and asks for those in use, when requests wait for more than is free.
    pub(in crate::backend) fn reclaim_for_waiting(&mut self) {
        let free = self.backends.iter().filter(|backend| backend.activity == Activity::Idle).count();
        if self.queue.len() > free {
            self.reclaim();
        }
    }

    /// Takes back leases that children keep, and asks for those in use. Returns whether any has come back.
    pub(in crate::backend) fn reclaim(&mut self) -> bool {
        let mut any = false;
        for (number, lease, cell) in self.lent().collect::<Vec<_>>() {
            // Meanwhile the child may go from one request to the next.
            for _ in 0..TRIES {
                match cell.load(lease) {
                    Some((_, LeaseState::Kept)) if self.take_back(number, lease) => any = true,
                    Some((_, LeaseState::Serving)) if self.recall(number, cell) => break,
                    Some((_, LeaseState::Kept | LeaseState::Serving)) => {}
                    Some((_, LeaseState::Recalled)) | None => break,
                }
            }
        }
        any
    }

    /// Asks for the return of a lease whose request is not over. `false`: it is.
    fn recall(&mut self, number: u64, cell: LeaseCell) -> bool {
        let Some(backend) = self.backend_mut(number) else { return false };
        let Some(served) = cell.recall(backend.lease) else { return false };
        // Only the child knows when the current request began, unless it is the first of the lease.
        if served > 0 {
            backend.since = Instant::now();
        }
        true
    }

    /// Takes back a lease if a child keeps it without a request.
    pub(in crate::backend) fn take_back(&mut self, number: u64, lease: u64) -> bool {
        let lent = |backend: &&mut Backend| backend.number == number && backend.lease == lease;
        let Some(backend) = self.backends.iter_mut().find(lent) else { return false };
        let Some(served) = backend.cell.and_then(|(_, cell)| cell.take_back(lease)) else { return false };
        (backend.busy, backend.lease) = (0, 0);
        backend.served += served;
        self.rest(number);
        true
    }

    /// How far a lease has come; `None`: it is over.
    pub(in crate::backend) fn lease_progress(&self, number: u64, lease: u64) -> Option<LeaseProgress> {
        let backend = self.backends.iter().find(|backend| backend.number == number && backend.busy > 0)?;
        match backend.cell {
            Some((_, cell)) => {
                let (served, state) = cell.load(lease)?;
                Some(LeaseProgress { served, is_kept: state == LeaseState::Kept })
            }
            None => Some(LeaseProgress::default()),
        }
    }

    /// Ends a lease after a request has left its backend. If the request was given up, the rest of its response has to
    /// be read before the backend is free: returns the connection for that.
    pub(in crate::backend) fn release(&mut self, number: u64, lease: u64, outcome: &Outcome) -> Option<Arc<OwnedFd>> {
        let many = self.class.concurrency != Concurrency::One;
        // Its failures are counted while it is borrowed, so `backend_mut` would borrow too much.
        let Some(backend) = self.backends.iter_mut().find(|backend| backend.number == number) else {
            self.decide_late(number, outcome);
            return None;
        };
        if !many && backend.lease != lease {
            return None;
        }
        backend.busy = backend.busy.saturating_sub(1);
        backend.lease = 0;
        if let Some((_, cell)) = backend.cell {
            backend.served += cell.end(lease);
        }
        match outcome {
            Outcome::Ready | Outcome::Closed | Outcome::Last if backend.served == 0 => {
                self.failures = Failures::default();
            }
            // Its end may be noticed before or after this: it counts once.
            Outcome::Failed if backend.served == 0 => backend.fails = true,
            _ => {}
        }
        if *outcome != Outcome::Failed {
            backend.served += 1;
        }
        if many {
            // A process of its own has served it, and has the connection.
            backend.weigh(false, sys::process::anonymous_memory);
            if backend.busy == 0 && backend.activity == Activity::Busy {
                backend.activity = Activity::Idle;
                backend.since = Instant::now();
            }
            return None;
        }
        match outcome {
            // The backend had an order to end, and can follow it now.
            Outcome::Ready | Outcome::Closed if backend.activity == Activity::Ending => backend.hang_up(),
            Outcome::Ready => {}
            Outcome::Closed => backend.hang_up(),
            Outcome::Abandoned(_) if backend.activity != Activity::Ending => {
                backend.busy = 1;
                return backend.connection.clone();
            }
            Outcome::Last => self.end(number, Reason::Own),
            Outcome::Abandoned(_) | Outcome::Broken | Outcome::Failed => self.end(number, Reason::Broken),
        }
        self.rest(number);
        None
    }

    /// Handles a request that has left a backend after the backend's end.
    fn decide_late(&mut self, number: u64, outcome: &Outcome) {
        let Some(at) = self.undecided.iter().position(|undecided| *undecided == number) else { return };
        self.undecided.swap_remove(at);
        match outcome {
            Outcome::Failed => self.fails("ended with exit status 0"),
            Outcome::Ready | Outcome::Closed | Outcome::Last => self.failures = Failures::default(),
            Outcome::Abandoned(_) | Outcome::Broken => {}
        }
    }

    /// Handles the end of an unwanted response; `ready`: the backend can serve again.
    pub(in crate::backend) fn drained(&mut self, number: u64, ready: bool) {
        if let Some(backend) = self.backend_mut(number) {
            backend.busy = 0;
        }
        match ready {
            true => self.rest(number),
            false => self.end(number, Reason::Broken),
        }
    }

    /// Makes a backend idle.
    fn rest(&mut self, number: u64) {
        let memory = self.class.settings.memory.is_some();
        if let Some(backend) = self.backend_mut(number)
            && backend.activity == Activity::Busy
        {
            backend.activity = Activity::Idle;
            backend.since = Instant::now();
            backend.weigh(memory, sys::process::tree_memory);
        }
    }
}
