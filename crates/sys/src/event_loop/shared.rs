//! The state of a loop: the part that all threads share, and the part of its own thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::inbox::Inbox;
use super::reactor::Reactor;
use super::slab::Slab;
use super::timers::Timers;
use crate::event_fd::EventFd;

/// A task, independent of the type of its future.
pub(super) trait Runnable: Send + Sync {
    /// Polls it once. Call it only in the loop's thread.
    fn run(self: Arc<Self>);

    /// Ends it; drops its future here. Do not call it during a poll.
    fn end(&self);

    /// Makes the loop drop its future soon.
    fn abort(self: Arc<Self>);

    /// Whether its future was dropped.
    fn is_over(&self) -> bool;

    /// The shared part of its loop.
    fn shared(&self) -> &Arc<Shared>;
}

impl fmt::Debug for dyn Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

/// The part of a loop that all threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) reactor: Reactor,
    pub(super) timers: Timers,
    pub(super) inbox: Inbox<Arc<dyn Runnable>, EventFd>,
    /// All tasks that have not ended.
    pub(super) tasks: Mutex<Slab<Arc<dyn Runnable>>>,
    /// Whether to poll the main task.
    pub(super) main: AtomicBool,
}

/// The loop's state in its own thread.
pub(super) struct Running {
    pub(super) shared: Cell<*const Shared>,
    /// Tasks to poll in this tick.
    pub(super) queue: RefCell<VecDeque<Arc<dyn Runnable>>>,
    /// Tasks that wait for the next look.
    pub(super) later: RefCell<Vec<Waker>>,
    /// How often tasks of this thread have yielded.
    pub(super) yields: Cell<u64>,
}

thread_local! {
    pub(super) static PRESENT: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
    pub(super) static RUNNING: Running = const {
        Running {
            shared: Cell::new(ptr::null()),
            queue: RefCell::new(VecDeque::new()),
            later: RefCell::new(Vec::new()),
            yields: Cell::new(0),
        }
    };
}

/// Whether a task of this thread may use an event loop.
pub fn is_present() -> bool {
    PRESENT.with_borrow(Option::is_some)
}

pub(super) fn present() -> Option<Arc<Shared>> {
    PRESENT.with_borrow(Clone::clone)
}

/// Puts a woken task into the queue of its loop.
pub(super) fn enqueue(task: Arc<dyn Runnable>) {
    let mut task = Some(task);
    // If the thread is about to end, no loop runs in it.
    let _ended = RUNNING.try_with(|running| {
        if let Some(here) = task.take_if(|task| running.shared.get() == Arc::as_ptr(task.shared())) {
            running.queue.borrow_mut().push_back(here);
        }
    });
    if let Some(elsewhere) = task {
        let shared = elsewhere.shared().clone();
        shared.inbox.push(elsewhere);
    }
}

impl Shared {
    pub(super) fn tasks(&self) -> MutexGuard<'_, Slab<Arc<dyn Runnable>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the loop's own thread.
    pub(super) fn is_here(&self) -> bool {
        RUNNING.try_with(|running| ptr::eq(running.shared.get(), self)) == Ok(true)
    }
}
