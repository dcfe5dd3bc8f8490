//! The pool: the worker threads of a child, and the queue of what they have to do.
//!
//! Threads that have nothing to do sleep, the last one to fall asleep on top: it is woken first, while the processor still
//! knows it. How many are woken for what is waiting is the module's choice ([`ThreadPool::new`]): a thread for each job where a
//! job mostly waits, and no more than there are processors where it mostly computes, since one thread that takes three jobs
//! in a row is cheaper than three that are woken for one each. A thread that is about to wait says so
//! ([`ThreadPool::waits`]), so that another one takes its place.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use seam::Service;

/// What a stack may grow to, in bytes; `ThreadStackSize` can only make it more. Only what is used of it costs memory, so less
/// would save nothing, and sections in sections, as deep as an access file may have them, would end the child.
pub(crate) const STACK: usize = 2 * 1024 * 1024;

/// What the threads of a module do.
pub(crate) trait Work: Send + Sync + 'static {
    /// Something to do.
    type Job: Send + 'static;
    /// What a thread has for itself.
    type Tools<'a>;

    fn pool(&self) -> &ThreadPool<Self::Job>;
    fn service(&self) -> &dyn Service;
    /// For the thread with this number, from 0. Again after a panic.
    fn tools(&self, index: usize) -> Self::Tools<'_>;
    fn run(&self, tools: &mut Self::Tools<'_>, job: Self::Job);
    /// How many connections may be accepted now; asked for when that may have become more.
    fn room(&self) -> usize;
}

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
struct State<J> {
    queue: VecDeque<J>,
    asleep: Vec<Arc<Sleeper>>,
    /// Threads that are neither asleep nor waiting.
    running: usize,
    /// Jobs taken so far.
    taken: u64,
}

impl<J: Send + 'static> ThreadPool<J> {
    /// A pool of `size` threads, of which `at_once` are kept running at the same time as long as that gets things done.
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

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many threads have nothing to do, and nothing on its way to them.
    pub(crate) fn idle(&self) -> usize {
        self.size.saturating_sub(self.engaged.load(Ordering::SeqCst))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.engaged.load(Ordering::SeqCst) == 0
    }

    /// Queues what is to be done, and wakes as many threads for it as are worth it.
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

    /// How many jobs were taken, if some wait for which nobody was woken.
    pub(crate) fn standing(&self) -> Option<u64> {
        let state = self.state();
        (!state.queue.is_empty()).then_some(state.taken)
    }

    /// Wakes another thread: those that run get nothing done.
    pub(crate) fn reinforce(&self) {
        self.wake(self.state(), 1);
    }

    /// Lets this thread wait; meanwhile another one may take its place.
    pub(crate) fn waits(&self, wait: impl FnOnce()) {
        /// Counts the thread again, also where it panics.
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

    /// Ready with how many connections may be accepted, as `room` says, once that is any.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>, room: impl Fn() -> usize) -> Poll<usize> {
        self.room_wait.poll(cx, room)
    }

    /// Lets those go on who wait for room, if there is any now.
    pub(crate) fn tell_of_room(&self, room: impl Fn() -> usize) {
        self.room_wait.look(room);
    }

    /// The next job; sleeps until there is one.
    fn next(&self, me: &Arc<Sleeper>, service: &dyn Service) -> J {
        loop {
            if let Some(job) = self.take() {
                return job;
            }
            service.before_wait();
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

/// Starts the threads of a pool. They run until the process ends.
pub(crate) fn start<W: Work>(work: &Arc<W>, stack: Option<usize>, module: &'static str) -> io::Result<()> {
    let stack = stack.unwrap_or(0).max(STACK);
    let size = work.pool().size;
    for index in 0..size {
        let work = work.clone();
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).stack_size(stack);
        if let Err(error) = thread.spawn(move || serve(&*work, index, module)) {
            let text = sys::describe(&error);
            let advice = "lower ThreadsPerChild, or raise the limits of memory and processes";
            seam::log!(module, Alert, "{text}: only {index} of {size} worker threads can be started: {advice}");
            return Err(error);
        }
    }
    Ok(())
}

/// The life of a thread. Whoever panics loses its job, which is dropped with all it holds, and goes on.
fn serve<W: Work>(work: &W, index: usize, module: &'static str) {
    let pool = work.pool();
    let me = Sleeper::new();
    let mut tools = work.tools(index);
    loop {
        let job = pool.next(&me, work.service());
        if catch_unwind(AssertUnwindSafe(|| work.run(&mut tools, job))).is_err() {
            seam::log!(module, Crit, "a worker thread panicked: its connection is closed, the thread goes on");
            drop(tools);
            tools = work.tools(index);
        }
        pool.engaged.fetch_sub(1, Ordering::SeqCst);
        pool.tell_of_room(|| work.room());
    }
}

/// A thread that can be put to sleep, and woken by whoever has this: also as the waker of what it polls.
#[derive(Debug)]
pub(crate) struct Sleeper {
    thread: Thread,
    roused: AtomicBool,
}

impl Sleeper {
    /// For the present thread.
    pub(crate) fn new() -> Arc<Sleeper> {
        Arc::new(Sleeper { thread: std::thread::current(), roused: AtomicBool::new(false) })
    }

    /// Sleeps until it is roused, or not at all if it was already. Only for the thread it was made in.
    pub(crate) fn wait(&self) {
        while !self.roused.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }

    fn rouse(&self) {
        self.roused.store(true, Ordering::Release);
        self.thread.unpark();
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

/// Where the listener waits while nobody may be let in.
#[derive(Debug, Default)]
struct RoomWait {
    /// Somebody waits: all that others have to look at.
    waits: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl RoomWait {
    fn poll(&self, cx: &mut Context<'_>, room: impl Fn() -> usize) -> Poll<usize> {
        if let room @ 1.. = room() {
            return Poll::Ready(room);
        }
        {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                wakers.push(cx.waker().clone());
            }
        }
        self.waits.store(true, Ordering::SeqCst);
        // What was given back before that, nobody told us of.
        match room() {
            0 => Poll::Pending,
            room => Poll::Ready(room),
        }
    }

    fn look(&self, room: impl Fn() -> usize) {
        if self.waits.load(Ordering::SeqCst) && room() > 0 && self.waits.swap(false, Ordering::SeqCst) {
            let wakers = std::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests;
