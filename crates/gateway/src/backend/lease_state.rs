//! The state of a lease, in memory shared by the child that holds it and the process manager.
//!
//! A child keeps the lease of a finished request for its next request of the same class, which then asks nobody. The
//! manager can take back such a kept lease at any moment, and it can ask for the return of one in use; whoever changes
//! the cell first has the backend. A cell identifies its lease by a unique number, so that an old lease is never
//! mistaken for the current one.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The use of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// A request is being served.
    Serving = 1,
    /// The child keeps the lease for its next request.
    Kept = 2,
    /// A request is being served, and the lease comes back after it.
    Recalled = 3,
}

/// The lowest bits of a cell are the state, those above count the served requests, and the rest is the lease's number.
/// Zero: nobody has the backend.
const STATE_BITS: u32 = 2;
const SERVED_BITS: u32 = 10;
/// The most requests that a cell can count.
const SERVED_MAX: u64 = (1 << SERVED_BITS) - 1;

/// The largest number of a lease.
pub(super) const LEASE_MAX: u64 = u64::MAX >> (STATE_BITS + SERVED_BITS);

/// The cell that holds the state of a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseCell(pub(super) &'static AtomicU64);

fn pack(lease: u64, served: u64, state: LeaseState) -> u64 {
    (lease << SERVED_BITS | served.min(SERVED_MAX)) << STATE_BITS | state as u64
}

/// The lease, how many requests it has served, and its state.
fn unpack(content: u64) -> Option<(u64, u64, LeaseState)> {
    let state = match content & ((1 << STATE_BITS) - 1) {
        1 => LeaseState::Serving,
        2 => LeaseState::Kept,
        3 => LeaseState::Recalled,
        _ => return None,
    };
    Some((content >> (STATE_BITS + SERVED_BITS), content >> STATE_BITS & SERVED_MAX, state))
}

/// Whether this is the content of the cell of a kept lease.
pub(super) fn is_kept(content: u64) -> bool {
    unpack(content).is_some_and(|(_, _, state)| state == LeaseState::Kept)
}

impl LeaseCell {
    /// How many requests this lease has served, and its state; `None`: the lease is over.
    pub(super) fn load(self, lease: u64) -> Option<(u64, LeaseState)> {
        let (present, served, state) = unpack(self.0.load(Acquire))?;
        (present == lease).then_some((served, state))
    }

    /// Goes from one state to another, and counts `count` requests. `false`: the state is different, or the lease is
    /// over.
    fn transition(self, lease: u64, from: LeaseState, to: LeaseState, count: u64) -> bool {
        self.load(lease).is_some_and(|(served, state)| {
            let next = pack(lease, served + count, to);
            state == from && self.0.compare_exchange(pack(lease, served, from), next, AcqRel, Acquire).is_ok()
        })
    }

    /// The manager: a lease begins.
    pub(super) fn lend(self, lease: u64) {
        self.0.store(pack(lease, 0, LeaseState::Serving), Release);
    }

    /// The manager: takes back a kept lease.
    pub(super) fn take_back(self, lease: u64) -> Option<u64> {
        let (served, state) = self.load(lease)?;
        let kept = pack(lease, served, LeaseState::Kept);
        (state == LeaseState::Kept && self.0.compare_exchange(kept, 0, AcqRel, Acquire).is_ok()).then_some(served)
    }

    /// The manager: asks for the return of a lease. Returns how many requests it has served, unless somebody has
    /// already asked.
    pub(super) fn recall(self, lease: u64) -> Option<u64> {
        let (served, _) = self.load(lease)?;
        self.transition(lease, LeaseState::Serving, LeaseState::Recalled, 0).then_some(served)
    }

    /// The manager: ends a lease. Returns how many requests it has served.
    pub(super) fn end(self, lease: u64) -> u64 {
        let last = unpack(self.0.swap(0, AcqRel));
        last.filter(|(present, ..)| *present == lease).map_or(0, |(_, served, _)| served)
    }

    /// The child: ends a request, and keeps the lease. `false`: it may not.
    pub(super) fn keep(self, lease: u64) -> bool {
        self.transition(lease, LeaseState::Serving, LeaseState::Kept, 1)
    }

    /// The child: begins the next request. `false`: the lease is over.
    pub(super) fn resume(self, lease: u64) -> bool {
        self.transition(lease, LeaseState::Kept, LeaseState::Serving, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> LeaseCell {
        LeaseCell(Box::leak(Box::default()))
    }

    #[test]
    fn a_lease_is_kept_until_it_is_taken_back() {
        let cell = cell();
        cell.lend(7);
        assert_eq!(cell.take_back(7), None, "its request is not over");
        assert!(cell.keep(7) && !cell.keep(7));
        assert!(cell.resume(7) && !cell.resume(7));
        assert!(cell.keep(7));
        assert_eq!(cell.load(7), Some((2, LeaseState::Kept)));
        assert_eq!((cell.take_back(7), cell.take_back(7)), (Some(2), None));
        assert!(!cell.resume(7));
    }

    #[test]
    fn a_recalled_lease_is_not_kept() {
        let cell = cell();
        cell.lend(7);
        assert_eq!((cell.recall(7), cell.recall(7)), (Some(0), None));
        assert!(!cell.keep(7));
        assert_eq!((cell.load(7), cell.end(7), cell.load(7)), (Some((0, LeaseState::Recalled)), 0, None));
    }

    #[test]
    fn an_old_lease_is_never_the_present_one() {
        let cell = cell();
        cell.lend(7);
        assert!(cell.keep(7) && cell.take_back(7) == Some(1));
        cell.lend(8);
        assert!(!cell.keep(7) && !cell.resume(7) && cell.take_back(7).is_none());
        assert!(cell.keep(8) && !cell.resume(7) && cell.load(7).is_none());
        assert_eq!(cell.end(8), 1);
        cell.lend(LEASE_MAX);
        assert!(cell.keep(LEASE_MAX) && cell.resume(LEASE_MAX));
    }
}
