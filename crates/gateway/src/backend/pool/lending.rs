//! The leases of a pool's backends: which requests get one, and how it comes back.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use sys::process::Pid;
use sys::time::Instant;

use super::backend::{Backend, LEFT};
use super::{Granted, Pool, Waiter};
use crate::backend::class::{Concurrency, Version};
use crate::backend::lease_state::{LeaseCell, LeaseState};
use crate::backend::manager_messages::{Grant, Outcome};
use crate::backend::policy::{self, Activity};
use crate::backend::reason::Reason;
use crate::backend::stats::{self, Field};
use crate::backend::throttle::Failures;
use crate::gate;

/// How long a request waits at most for one that came later, but from a child with fewer backends.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often to try to take back a lease whose child goes from one request to the next meanwhile.
const TRIES: u32 = 8;

/// How far a lease has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::backend) struct LeaseProgress {
    /// How many requests it has served; the current one does not count.
    pub(in crate::backend) served: u64,
    /// Whether no request has the lease now.
    pub(in crate::backend) is_unused: bool,
}

/// A lease that a child holds, and its backend's number.
#[derive(Clone, Copy)]
struct Lent {
    number: u64,
    lease: u64,
    holder: Pid,
    cell: LeaseCell,
}

/// The place of the request that gets the next backend: the first one of the child that has the fewest, unless another
/// has waited for long.
fn next_waiter(queue: &VecDeque<Waiter>, held: &HashMap<Pid, usize>) -> Option<usize> {
    let now = Instant::now().nanoseconds();
    let has = |waiter: &Waiter| match Duration::from_nanos(now.saturating_sub(waiter.came)) > PATIENCE {
        true => 0,
        false => held.get(&waiter.child).copied().unwrap_or(0),
    };
    (0..queue.len()).min_by_key(|place| (has(&queue[*place]), *place))
}

impl Pool {
    /// Gives free backends to waiting requests.
    pub(in crate::backend) fn grant(&mut self) {
        let (many, most) = match self.class.concurrency {
            Concurrency::One => (false, 1),
            Concurrency::Many(most) => (true, most),
        };
        // A backend that serves many makes a process for each, which needs memory.
        let has_room = !many || gate::has_room();
        let mut held = self.held();
        while !self.queue.is_empty() {
            let version = self.version;
            let free = |backend: &&mut Backend| {
                matches!(backend.activity, Activity::Idle | Activity::Busy)
                    && backend.version == version
                    && backend.busy < most
                    && (has_room || backend.busy == 0)
            };
            // The least busy one; of these, the one used last is warm.
            let preferred = |backend: &&mut Backend| (Reverse(backend.busy), backend.since);
            let Some(backend) = self.backends.iter_mut().filter(free).max_by_key(preferred) else {
                match self.reclaim() {
                    true => continue,
                    false => break,
                }
            };
            let socket = match backend.connect(many) {
                Ok(socket) => socket,
                // So many wait to be accepted that there is no room for another one: a moment later there is.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.watches = true;
                    break;
                }
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
            let next = next_waiter(&self.queue, &held);
            let Some(waiter) = next.and_then(|place| self.queue.remove(place)) else { break };
            *held.entry(waiter.child).or_default() += 1;
            backend.holder = Some(waiter.child);
            backend.activity = Activity::Busy;
            backend.busy += 1;
            backend.since = Instant::now();
            backend.lease = waiter.number;
            // The child assumes that it has the version it asked for.
            let same_version = [Version::default(), version].contains(&waiter.version);
            let Backend { number, pid, served, lease, cell, .. } = *backend;
            if let Some((_, cell)) = cell {
                cell.offer(lease);
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

    /// The leases that children hold.
    fn lent(&self) -> impl Iterator<Item = Lent> {
        let lent = self.backends.iter().filter(|backend| backend.busy > 0);
        lent.filter_map(|backend| {
            let Backend { number, lease, holder, cell, .. } = *backend;
            Some(Lent { number, lease, holder: holder?, cell: cell?.1 })
        })
    }

    /// How many leases each child holds, without those that it has to return.
    fn held(&self) -> HashMap<Pid, usize> {
        let mut held = HashMap::new();
        for Lent { lease, holder, cell, .. } in self.lent() {
            if cell.load(lease).is_some_and(|(_, state)| !state.is_recalled()) {
                *held.entry(holder).or_default() += 1;
            }
        }
        held
    }

    /// Takes back leases that children keep, and asks for others, when requests wait for more than is free.
    pub(in crate::backend) fn reclaim_for_waiting(&mut self) {
        let free = self.backends.iter().filter(|backend| backend.activity == Activity::Idle).count();
        if self.queue.len() > free {
            self.reclaim();
        }
    }

    /// Takes back the leases that children keep, and asks those children for others that have more than their share.
    /// Returns whether any has come back.
    fn reclaim(&mut self) -> bool {
        let mut any = false;
        let wanted = self.show_wanted();
        // A child that keeps a lease from now on learns that one is wanted.
        stats::in_order();
        self.watches = false;
        for Lent { number, lease, cell, .. } in self.lent().collect::<Vec<_>>() {
            let Some((served, LeaseState::Kept)) = cell.load(lease) else { continue };
            let is_left = self.backend_mut(number).is_some_and(|backend| backend.is_left(lease, served));
            any |= (wanted || is_left) && self.take_back(number, lease);
            self.watches |= !is_left;
        }
        self.recall_for_poorer();
        any
    }

    /// Shows how many requests wait whose child has no lease at all. Returns whether there are any.
    pub(super) fn show_wanted(&self) -> bool {
        let held = self.held();
        let wanted = self.queue.iter().filter(|waiter| !held.contains_key(&waiter.child)).count();
        self.row.set(Field::Wanted, wanted as u64);
        wanted > 0
    }

    /// When to look again at leases that children keep although requests of others wait.
    pub(in crate::backend) fn watches_at(&self) -> Option<Duration> {
        (self.watches && !self.queue.is_empty()).then(|| self.now() + LEFT)
    }

    /// Asks for leases of children that have more than those whose requests wait. Within a child leases go round.
    pub(in crate::backend) fn recall_for_poorer(&mut self) {
        let mut held = self.held();
        let mut lent: Vec<Lent> = self.lent().collect();
        let mut promised = lent.len() - held.values().sum::<usize>();
        for child in self.queue.iter().map(|waiter| waiter.child).collect::<Vec<_>>() {
            // A lease that comes back goes to the one with the fewest.
            if promised > 0 {
                promised -= 1;
                *held.entry(child).or_default() += 1;
                continue;
            }
            let own = held.get(&child).copied().unwrap_or(0);
            let richest = lent.iter().enumerate().max_by_key(|(_, lent)| held.get(&lent.holder).copied().unwrap_or(0));
            let Some((place, _)) = richest else { return };
            let Lent { number, holder, cell, .. } = lent[place];
            let most = held.get(&holder).copied().unwrap_or(0);
            if holder == child || most <= own + usize::from(own > 0) {
                continue;
            }
            lent.swap_remove(place);
            if self.recall(number, cell) {
                held.insert(holder, most - 1);
                *held.entry(child).or_default() += 1;
            }
        }
    }

    /// Takes back all leases that children keep, and asks for the others.
    pub(in crate::backend) fn reclaim_all(&mut self) {
        for Lent { number, lease, cell, .. } in self.lent().collect::<Vec<_>>() {
            // Meanwhile the child may go from one request to the next.
            for _ in 0..TRIES {
                match cell.load(lease) {
                    Some((_, LeaseState::Kept)) if self.take_back(number, lease) => break,
                    Some((_, LeaseState::Serving | LeaseState::Offered)) if self.recall(number, cell) => break,
                    Some((_, LeaseState::Recalled | LeaseState::OfferedForOne)) | None => break,
                    Some(_) => {}
                }
            }
        }
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

    /// Takes back a lease if no request has it.
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
                Some(LeaseProgress { served, is_unused: state.is_unused() })
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
            match (backend.activity, backend.busy) {
                (Activity::Busy, _) if *outcome == Outcome::Last => self.retire(number, Reason::Own),
                (Activity::Busy, 0) => {
                    backend.activity = Activity::Idle;
                    backend.since = Instant::now();
                }
                (Activity::Draining, 0) => self.end(number, Reason::Own),
                _ => {}
            }
            return None;
        }
        match outcome {
            // The backend had an order to end, and can follow it now.
            Outcome::Ready | Outcome::Closed if backend.activity == Activity::Ending => backend.hang_up(),
            Outcome::Ready => {}
            Outcome::Closed => backend.hang_up(),
            Outcome::Abandoned(_) | Outcome::Cut if backend.activity != Activity::Ending => {
                backend.busy = 1;
                return backend.connection.clone();
            }
            Outcome::Last => self.end(number, Reason::Own),
            Outcome::Abandoned(_) | Outcome::Cut | Outcome::Broken | Outcome::Failed => {
                self.end(number, Reason::Broken)
            }
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
            Outcome::Abandoned(_) | Outcome::Cut | Outcome::Broken => {}
        }
    }

    /// Handles the end of an unwanted response; `ready`: the backend can serve again, over the connection if that is `open`.
    pub(in crate::backend) fn drained(&mut self, number: u64, ready: bool, open: bool) {
        if let Some(backend) = self.backend_mut(number) {
            backend.busy = 0;
            if !open {
                backend.hang_up();
            }
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
