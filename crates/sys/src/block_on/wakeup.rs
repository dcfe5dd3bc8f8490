//! How other threads wake the polling one.
//!
//! While nobody else has the waker, this only costs a look at a counter before each wait. Otherwise the wait includes
//! an event descriptor, and the waker raises that if the thread is asleep.
//!
//! The state is one word, which both sides change by read-modify-write: there is one order of all its changes, and each
//! sees the one before it. So either the thread that goes to sleep finds that it was woken, or the waker finds it
//! asleep; no wake-up is lost between the two.

use super::sync::{Arc, AtomicU8, OnceLock, Ordering, Raise, fence};

/// The task was polled, and nobody has woken it since.
const POLLED: u8 = 0;
/// The task was polled and not woken since, and the thread waits, or is about to, and watches only its descriptors.
const ASLEEP: u8 = 1;
/// The task must be polled again.
const WOKEN: u8 = 2;

/// Shared by the thread and its wakers.
#[derive(Debug)]
pub(crate) struct Wakeup<E> {
    state: AtomicU8,
    /// Set from the first wait in which somebody else had the waker.
    event: OnceLock<Arc<E>>,
}

/// The thread's next step before it waits.
#[derive(Debug)]
pub(super) enum Before<E> {
    /// Poll again without waiting.
    PollAgain,
    /// Wait; nobody else can wake it.
    WaitAlone,
    /// Watch this as well, and call [`Wakeup::awake`] afterwards.
    WaitFor(Arc<E>),
}

impl<E: Raise> Wakeup<E> {
    pub(super) fn new() -> Wakeup<E> {
        Wakeup { state: AtomicU8::new(POLLED), event: OnceLock::new() }
    }

    /// For a thread that watches this event in every wait.
    pub(crate) fn with(event: Arc<E>) -> Wakeup<E> {
        Wakeup { state: AtomicU8::new(POLLED), event: OnceLock::from(event) }
    }

    /// For wakers: asks for another poll of the task.
    pub(crate) fn wake(&self) {
        // A waker that finds the thread asleep acquires the event with the swap, so the event is there.
        if self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP
            && let Some(event) = self.event.get()
        {
            event.raise();
        }
    }

    /// For the polling thread, before it waits. `others` says whether anybody else has a waker; `event` is made once.
    pub(super) fn before_wait<F>(
        &self,
        others: impl FnOnce() -> bool,
        event: impl FnOnce() -> Result<Arc<E>, F>,
    ) -> Result<Before<E>, F> {
        if !others() {
            // Nobody else has a waker any more, so everything done with it has happened before this.
            fence(Ordering::Acquire);
            return Ok(if self.awake() { Before::PollAgain } else { Before::WaitAlone });
        }
        let event = match self.event.get() {
            Some(event) => event.clone(),
            None => {
                let event = event()?;
                // Only this thread sets it.
                let _ = self.event.set(event.clone());
                event
            }
        };
        if self.fall_asleep() {
            return Ok(Before::WaitFor(event));
        }
        self.awake();
        Ok(Before::PollAgain)
    }

    /// For the polling thread, before it waits for its event: from now on a waker raises that. `false`: it was woken.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.state.compare_exchange(POLLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// For the polling thread, after it has waited for the event, or instead of that. Earlier wake-ups do not count any
    /// more, since the task is polled next. Returns whether there were any.
    pub(crate) fn awake(&self) -> bool {
        self.state.swap(POLLED, Ordering::Acquire) == WOKEN
    }
}
