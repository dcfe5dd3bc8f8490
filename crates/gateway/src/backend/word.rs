//! The word of a lease: its state, in memory shared by the child that holds it and the process manager.
//!
//! A child keeps the lease of a finished request for its next request of the same class, which then asks nobody. The
//! manager can take back such a kept lease at any moment, and it can ask for the return of one in use; whoever changes
//! the word first has the backend. A word identifies its lease by a unique number, so that an old lease is never
//! mistaken for the current one.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The use of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A request.
    Serving = 1,
    /// The next request.
    Kept = 2,
    /// A request, but no other after it.
    Wanted = 3,
}

/// The lowest bits are the state, those above count the finished requests, and the rest is the lease's number. Zero:
/// nobody has the backend.
const STATE_BITS: u32 = 2;
const OVER_BITS: u32 = 10;
/// The most requests in one lease.
pub(super) const OVER_MAX: u64 = (1 << OVER_BITS) - 1;

/// The largest number of a lease.
pub(super) const LEASE_MAX: u64 = u64::MAX >> (STATE_BITS + OVER_BITS);

/// The word of a lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word(pub(super) &'static AtomicU64);

fn pack(lease: u64, over: u64, state: State) -> u64 {
    (lease << OVER_BITS | over.min(OVER_MAX)) << STATE_BITS | state as u64
}

/// The lease, how many of its requests are over, and its state.
fn unpack(word: u64) -> Option<(u64, u64, State)> {
    let state = match word & ((1 << STATE_BITS) - 1) {
        1 => State::Serving,
        2 => State::Kept,
        3 => State::Wanted,
        _ => return None,
    };
    Some((word >> (STATE_BITS + OVER_BITS), word >> STATE_BITS & OVER_MAX, state))
}

/// Whether a number is the word of a kept lease.
pub(super) fn is_kept(word: u64) -> bool {
    unpack(word).is_some_and(|(_, _, state)| state == State::Kept)
}

impl Word {
    /// How many requests of this lease are over, and its state; `None`: the lease itself is over.
    pub(super) fn look(self, lease: u64) -> Option<(u64, State)> {
        let (present, over, state) = unpack(self.0.load(Acquire))?;
        (present == lease).then_some((over, state))
    }

    /// Goes from one state to another, and counts `count` requests. `false`: the state is different, or the lease is
    /// over.
    fn go(self, lease: u64, from: State, to: State, count: u64) -> bool {
        self.look(lease).is_some_and(|(over, state)| {
            let next = pack(lease, over + count, to);
            state == from && self.0.compare_exchange(pack(lease, over, from), next, AcqRel, Acquire).is_ok()
        })
    }

    /// The manager: a lease begins.
    pub(super) fn lend(self, lease: u64) {
        self.0.store(pack(lease, 0, State::Serving), Release);
    }

    /// The manager: takes back a kept lease.
    pub(super) fn take_back(self, lease: u64) -> Option<u64> {
        let (over, state) = self.look(lease)?;
        let kept = pack(lease, over, State::Kept);
        (state == State::Kept && self.0.compare_exchange(kept, 0, AcqRel, Acquire).is_ok()).then_some(over)
    }

    /// The manager: asks for the return of a lease. Returns how many of its requests are over, unless somebody has
    /// already asked.
    pub(super) fn want(self, lease: u64) -> Option<u64> {
        let (over, _) = self.look(lease)?;
        self.go(lease, State::Serving, State::Wanted, 0).then_some(over)
    }

    /// The manager: ends a lease. Returns how many of its requests are over.
    pub(super) fn end(self, lease: u64) -> u64 {
        let last = unpack(self.0.swap(0, AcqRel));
        last.filter(|(present, ..)| *present == lease).map_or(0, |(_, over, _)| over)
    }

    /// The child: ends a request, and keeps the lease. `false`: it may not.
    pub(super) fn keep(self, lease: u64) -> bool {
        self.go(lease, State::Serving, State::Kept, 1)
    }

    /// The child: begins the next request. `false`: the lease is over.
    pub(super) fn resume(self, lease: u64) -> bool {
        self.go(lease, State::Kept, State::Serving, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word() -> Word {
        Word(Box::leak(Box::default()))
    }

    #[test]
    fn a_lease_is_kept_until_it_is_taken_back() {
        let word = word();
        word.lend(7);
        assert_eq!(word.take_back(7), None, "its request is not over");
        assert!(word.keep(7) && !word.keep(7));
        assert!(word.resume(7) && !word.resume(7));
        assert!(word.keep(7));
        assert_eq!(word.look(7), Some((2, State::Kept)));
        assert_eq!((word.take_back(7), word.take_back(7)), (Some(2), None));
        assert!(!word.resume(7));
    }

    #[test]
    fn one_that_is_wanted_is_not_kept() {
        let word = word();
        word.lend(7);
        assert_eq!((word.want(7), word.want(7)), (Some(0), None));
        assert!(!word.keep(7));
        assert_eq!((word.look(7), word.end(7), word.look(7)), (Some((0, State::Wanted)), 0, None));
    }

    #[test]
    fn an_old_lease_is_never_the_present_one() {
        let word = word();
        word.lend(7);
        assert!(word.keep(7) && word.take_back(7) == Some(1));
        word.lend(8);
        assert!(!word.keep(7) && !word.resume(7) && word.take_back(7).is_none());
        assert!(word.keep(8) && !word.resume(7) && word.look(7).is_none());
        assert_eq!(word.end(8), 1);
        word.lend(LEASE_MAX);
        assert!(word.keep(LEASE_MAX) && word.resume(LEASE_MAX));
    }
}
