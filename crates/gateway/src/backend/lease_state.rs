//! The state of a lease, in memory shared by the child that holds it and the process manager.
//!
//! A child keeps the lease of a finished request for its next request of the same class, which then asks nobody. The
//! manager can take back a lease that no request has at any moment, and it can ask for the return of one in use;
//! whoever changes the cell first has the backend. A cell identifies its lease by a unique number, so that an old lease is never
//! mistaken for the current one.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The use of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// The child has been told of the lease, but no request has it yet.
    Offered = 1,
    /// A request is being served.
    Serving = 2,
    /// The child keeps the lease for its next request.
    Kept = 3,
    /// A request is being served, and the lease comes back after it.
    Recalled = 4,
    /// The child has been told of the lease, which comes back after one request.
    OfferedForOne = 5,
}

/// The lowest bits of a cell are the state, those above count the served requests, and the rest is the lease's number.
/// Zero: nobody has the backend.
const STATE_BITS: u32 = 3;
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
        1 => LeaseState::Offered,
        2 => LeaseState::Serving,
        3 => LeaseState::Kept,
        4 => LeaseState::Recalled,
        5 => LeaseState::OfferedForOne,
        _ => return None,
    };
    Some((content >> (STATE_BITS + SERVED_BITS), content >> STATE_BITS & SERVED_MAX, state))
}

impl LeaseState {
    /// Whether no request has the lease.
    pub(super) fn is_unused(self) -> bool {
        matches!(self, LeaseState::Offered | LeaseState::OfferedForOne | LeaseState::Kept)
    }

    /// Whether the lease comes back after its request.
    pub(super) fn is_recalled(self) -> bool {
        matches!(self, LeaseState::Recalled | LeaseState::OfferedForOne)
    }
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
    fn transition(self, lease: u64, from: LeaseState, to: LeaseState, count: i64) -> bool {
        self.load(lease).is_some_and(|(served, state)| {
            let next = pack(lease, served.saturating_add_signed(count), to);
            state == from && self.0.compare_exchange(pack(lease, served, from), next, AcqRel, Acquire).is_ok()
        })
    }

    /// The manager: a lease begins.
    pub(super) fn offer(self, lease: u64) {
        self.0.store(pack(lease, 0, LeaseState::Offered), Release);
    }

    /// The manager: takes back a lease that no request has. Returns how many it has served.
    pub(super) fn take_back(self, lease: u64) -> Option<u64> {
        let (served, state) = self.load(lease)?;
        (state.is_unused() && self.0.compare_exchange(pack(lease, served, state), 0, AcqRel, Acquire).is_ok())
            .then_some(served)
    }

    /// The manager: asks for the return of a lease. Returns how many requests it has served, unless somebody has
    /// already asked.
    pub(super) fn recall(self, lease: u64) -> Option<u64> {
        let (served, _) = self.load(lease)?;
        let recalled = self.transition(lease, LeaseState::Serving, LeaseState::Recalled, 0)
            || self.transition(lease, LeaseState::Offered, LeaseState::OfferedForOne, 0);
        recalled.then_some(served)
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

    /// The child: begins the first request. `false`: the lease is over.
    pub(super) fn accept(self, lease: u64) -> bool {
        self.transition(lease, LeaseState::Offered, LeaseState::Serving, 0)
            || self.transition(lease, LeaseState::OfferedForOne, LeaseState::Recalled, 0)
    }

    /// The child: ends a request, and begins another one that was waiting for it. `false`: it may not.
    pub(super) fn pass_on(self, lease: u64) -> bool {
        self.transition(lease, LeaseState::Serving, LeaseState::Serving, 1)
    }

    /// The child: does not keep the lease after all. `false`: it is over.
    pub(super) fn keep_no_longer(self, lease: u64) -> bool {
        self.transition(lease, LeaseState::Kept, LeaseState::Serving, -1)
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
        cell.offer(7);
        assert!(!cell.resume(7) && cell.accept(7) && !cell.accept(7));
        assert_eq!(cell.take_back(7), None, "its request is not over");
        assert!(cell.keep(7) && cell.keep_no_longer(7) && !cell.keep_no_longer(7));
        assert!(cell.keep(7) && !cell.keep(7));
        assert!(cell.resume(7) && !cell.resume(7));
        assert!(cell.pass_on(7) && cell.keep(7) && !cell.pass_on(7));
        assert_eq!(cell.load(7), Some((3, LeaseState::Kept)));
        assert_eq!((cell.take_back(7), cell.take_back(7)), (Some(3), None));
        assert!(!cell.resume(7));
        cell.offer(8);
        assert_eq!((cell.take_back(8), cell.accept(8)), (Some(0), false), "nobody has come for it");
        cell.offer(9);
        assert_eq!((cell.recall(9), cell.take_back(9), cell.accept(9)), (Some(0), Some(0), false));
    }

    #[test]
    fn a_recalled_lease_is_not_kept() {
        let cell = cell();
        cell.offer(6);
        assert_eq!((cell.recall(6), cell.recall(6)), (Some(0), None));
        assert!(cell.accept(6) && !cell.accept(6) && !cell.keep(6));
        cell.offer(7);
        assert!(cell.accept(7));
        assert_eq!((cell.recall(7), cell.recall(7)), (Some(0), None));
        assert!(!cell.keep(7) && !cell.pass_on(7));
        assert_eq!((cell.load(7), cell.end(7), cell.load(7)), (Some((0, LeaseState::Recalled)), 0, None));
    }

    #[test]
    fn an_old_lease_is_never_the_present_one() {
        let cell = cell();
        cell.offer(7);
        assert!(cell.accept(7) && cell.keep(7) && cell.take_back(7) == Some(1));
        cell.offer(8);
        assert!(!cell.accept(7) && cell.accept(8));
        assert!(!cell.keep(7) && !cell.resume(7) && cell.take_back(7).is_none());
        assert!(cell.keep(8) && !cell.resume(7) && cell.load(7).is_none());
        assert_eq!(cell.end(8), 1);
        cell.offer(LEASE_MAX);
        assert!(cell.accept(LEASE_MAX) && cell.keep(LEASE_MAX) && cell.resume(LEASE_MAX));
    }
}
