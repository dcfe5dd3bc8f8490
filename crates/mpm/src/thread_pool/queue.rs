//! The queue of a pool: which threads sleep, which are woken, and for how many jobs.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake};

use super::room::RoomWait;
use super::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, Rest};

/// The threads and their queue.
#[derive(Debug)]
pub(crate) struct ThreadPool<J> {
    state: Mutex<State<J>>,
    size: usize,
    at_once: usize,
    /// Jobs that wait or are being done.
    engaged: AtomicUsize,
    room_wait: RoomWait,
}

#[derive(Debug)]
pub(super) struct State<J> {
    queue: VecDeque<J>,
    pub(super) asleep: Vec<Arc<Sleeper>>,
    /// Threads that are neither asleep nor waiting.
    running: usize,
    /// Jobs taken so far.
    taken: u64,
}

impl<J: Send + 'static> ThreadPool<J> {
    /// A pool of `size` threads. It keeps `at_once` of them running at the same time, as long as that gets things done.
    pub(crate) fn new(size: usize, at_once: usize) -> ThreadPool<J> {
        let state = State { queue: VecDeque::new(), asleep: Vec::new(), running: size, taken: 0 };
        ThreadPool {
            state: Mutex::new(state),
            size,
            at_once,
            engaged: AtomicUsize::new(0),
            room_wait: RoomWait::default(),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many threads are idle and have no job on its way to them.
    pub(crate) fn idle(&self) -> usize {
        self.size.saturating_sub(self.engaged.load(Ordering::SeqCst))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.engaged.load(Ordering::SeqCst) == 0
    }

    /// Queues jobs, and wakes as many threads for them as are worth it.
    pub(crate) fn push(&self, jobs: impl ExactSizeIterator<Item = J>) {
        self.engaged.fetch_add(jobs.len(), Ordering::SeqCst);
        let mut state = self.state();
        let wanted = jobs.len().min(self.at_once.saturating_sub(state.running));
        state.queue.extend(jobs);
        self.wake(state, wanted);
    }

    fn wake(&self, mut state: MutexGuard<'_, State<J>>, wanted: usize) {
        let keep = state.asleep.len().saturating_sub(wanted);
        let woken = state.asleep.split_off(keep);
        state.running += woken.len();
        drop(state);
        woken.iter().rev().for_each(|sleeper| sleeper.rouse());
    }

    /// How many jobs were taken so far, if some wait for which no thread was woken.
    pub(crate) fn standing(&self) -> Option<u64> {
        let state = self.state();
        (!state.queue.is_empty()).then_some(state.taken)
    }

    /// Wakes another thread, because the running ones get nothing done.
    pub(crate) fn reinforce(&self) {
        self.wake(self.state(), 1);
    }

    /// Lets this thread wait; meanwhile another one may take its place.
    pub(crate) fn waits(&self, wait: impl FnOnce()) {
        /// Counts the thread again, even after a panic.
        struct Back<'a, J: Send + 'static>(&'a ThreadPool<J>);
        impl<J: Send + 'static> Drop for Back<'_, J> {
            fn drop(&mut self) {
                self.0.state().running += 1;
            }
        }
        let mut state = self.state();
        state.running -= 1;
        let _back = Back(self);
        let wanted = state.queue.len().min(self.at_once.saturating_sub(state.running));
        self.wake(state, wanted);
        wait();
    }

    /// Ready with the number of connections that may be accepted, from `room`, once that is above zero.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>, room: impl Fn() -> usize) -> Poll<usize> {
        self.room_wait.poll(cx, room)
    }

    /// Wakes those who wait for room, if there is any now.
    pub(crate) fn tell_of_room(&self, room: impl Fn() -> usize) {
        self.room_wait.update(room);
    }

    /// A job is done.
    pub(super) fn done(&self, room: impl Fn() -> usize) {
        self.engaged.fetch_sub(1, Ordering::SeqCst);
        self.tell_of_room(room);
    }

    /// The next job; sleeps until there is one.
    pub(super) fn next(&self, me: &Arc<Sleeper>, before_wait: impl Fn()) -> J {
        loop {
            if let Some(job) = self.take() {
                return job;
            }
            before_wait();
            let mut state = self.state();
            if state.queue.is_empty() {
                state.running -= 1;
                state.asleep.push(me.clone());
                drop(state);
                me.wait();
            }
        }
    }

    fn take(&self) -> Option<J> {
        let mut state = self.state();
        let job = state.queue.pop_front()?;
        state.taken += 1;
        Some(job)
    }
}

/// A thread that can be put to sleep, and woken by any holder of this: also as the waker for what it polls.
#[derive(Debug)]
pub(crate) struct Sleeper {
    rest: Rest,
    roused: AtomicBool,
}

impl Sleeper {
    /// For the current thread.
    pub(crate) fn new() -> Arc<Sleeper> {
        Arc::new(Sleeper { rest: Rest::new(), roused: AtomicBool::new(false) })
    }

    /// Sleeps until it is roused, or not at all if that has already happened. Call it only in the thread that made it.
    pub(crate) fn wait(&self) {
        while !self.roused.swap(false, Ordering::Acquire) {
            self.rest.begin();
        }
    }

    fn rouse(&self) {
        // A swap, because the model checker also tries orders of a plain store that the swap in `wait` rules out.
        self.roused.swap(true, Ordering::AcqRel);
        self.rest.end();
    }

    /// Whether [`wait`](Sleeper::wait) would return at once.
    pub(crate) fn is_roused(&self) -> bool {
        self.roused.load(Ordering::Acquire)
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.rouse();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rouse();
    }
}
