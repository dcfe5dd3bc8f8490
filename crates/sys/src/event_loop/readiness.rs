//! The last known readiness of a descriptor, and the task that waits for it. The loop's thread updates it; any thread
//! may poll.

use std::task::{Context, Poll, Waker};

use super::sync::{AtomicU32, Mutex, MutexGuard, Ordering, PoisonError};
use crate::block_on::Direction;

/// The descriptor can be read.
pub(super) const READ: u32 = 1;
/// The descriptor can be written to.
pub(super) const WRITE: u32 = 2;
/// No more data will come after the data that is already there. This stays.
pub(super) const READ_CLOSED: u32 = 4;
/// Nothing can be written any more. This stays.
pub(super) const WRITE_CLOSED: u32 = 8;
/// The descriptor has failed. This stays.
pub(super) const FAILED: u32 = 16;

/// The bits above these count the kernel's reports.
const REPORTS: u32 = 16;
const BITS: u32 = (1 << REPORTS) - 1;

/// The bits that end a wait for a direction.
fn ends(direction: Direction) -> u32 {
    match direction {
        Direction::Read => READ | READ_CLOSED,
        Direction::Write => WRITE | WRITE_CLOSED,
        Direction::Failure => FAILED,
    }
}

/// The readiness at the time of a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyEvent(u32);

/// The waiting tasks, one for each direction.
type Wakers = [Option<Waker>; 3];

/// The readiness of a descriptor.
#[derive(Debug)]
pub(super) struct Readiness {
    state: AtomicU32,
    wakers: Mutex<Wakers>,
}

impl Readiness {
    /// For a descriptor that the kernel has not reported on yet.
    pub(super) fn new() -> Readiness {
        Readiness { state: AtomicU32::new(0), wakers: Mutex::new([None, None, None]) }
    }

    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self, direction: Direction) -> Option<ReadyEvent> {
        let state = self.state.load(Ordering::Acquire);
        (state & ends(direction) != 0).then_some(ReadyEvent(state))
    }

    /// Ready when the kernel has reported so, until that is [cleared](Readiness::clear). Only the last poller is woken.
    pub(super) fn poll(&self, direction: Direction, cx: &mut Context<'_>) -> Poll<ReadyEvent> {
        if let Some(event) = self.ready(direction) {
            return Poll::Ready(event);
        }
        let (event, before) = {
            let mut wakers = self.wakers();
            let waker = &mut wakers[direction as usize];
            let before = match waker {
                Some(same) if same.will_wake(cx.waker()) => None,
                other => other.replace(cx.waker().clone()),
            };
            // Either this sees the new report, or the reporting thread finds the waker.
            (self.ready(direction), before)
        };
        // A drop here may well run code that uses this descriptor.
        drop(before);
        event.map_or(Poll::Pending, Poll::Ready)
    }

    /// The descriptor would block, whatever was reported; ignored if there was another report since `at`.
    pub(super) fn clear(&self, direction: Direction, at: ReadyEvent) {
        let cleared = match direction {
            Direction::Read => READ,
            Direction::Write => WRITE,
            Direction::Failure => 0,
        };
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            (state >> REPORTS == at.0 >> REPORTS).then_some(state & !cleared)
        });
    }

    /// For the loop's thread: the kernel reports the descriptor ready. Adds the wakers of those that wait for it to
    /// `woken`.
    pub(super) fn set(&self, bits: u32, woken: &mut Vec<Waker>) {
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            Some((state & BITS | bits) | (state & !BITS).wrapping_add(1 << REPORTS))
        });
        let mut wakers = self.wakers();
        for direction in [Direction::Read, Direction::Write, Direction::Failure] {
            if bits & ends(direction) != 0 {
                woken.extend(wakers[direction as usize].take());
            }
        }
    }
}
