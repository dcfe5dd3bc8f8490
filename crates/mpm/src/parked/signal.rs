//! How far a wake-up of a connection has come.

use super::sync::{AtomicU8, Ordering};

/// Nobody has the connection; a wake-up makes it ready.
const ASLEEP: u8 = 0;
/// It is in the list of those that the listener polls next.
const READY: u8 = 1;
/// The listener or a worker has it.
const HELD: u8 = 2;
/// The same, and it was woken meanwhile.
const WOKEN: u8 = 3;

/// Every change reads what was before it, so that each side sees what the other has done.
///
/// A connection is in the list once at most, and no wake-up is lost: one that comes while somebody has the connection is found
/// when that one leaves it.
#[derive(Debug)]
pub(super) struct Signal(AtomicU8);

impl Signal {
    /// Of a connection that is in the list.
    pub(super) fn ready() -> Signal {
        Signal(AtomicU8::new(READY))
    }

    /// Somebody takes the connection, or polls it anew: what woke it before does not count any more.
    pub(super) fn hold(&self) {
        self.0.swap(HELD, Ordering::AcqRel);
    }

    /// Who has the connection leaves it. `false`: it was woken meanwhile, and has to be [called](Signal::call).
    #[must_use]
    pub(super) fn rest(&self) -> bool {
        self.0.compare_exchange(HELD, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Who has the connection is about to put it into the list.
    pub(super) fn call(&self) {
        self.0.swap(READY, Ordering::AcqRel);
    }

    /// Something has happened to the connection. `true`: it has to be put into the list.
    #[must_use]
    pub(super) fn wake(&self) -> bool {
        let woken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |signal| match signal {
            ASLEEP => Some(READY),
            HELD => Some(WOKEN),
            // Written all the same: it is only by this that the one who takes the connection next sees what has happened.
            same => Some(same),
        });
        woken == Ok(ASLEEP)
    }
}
