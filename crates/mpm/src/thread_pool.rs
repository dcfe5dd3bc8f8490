//! The pool: the worker threads of a child, and the queue of what they have to do.
//!
//! Threads that have nothing to do sleep, the last one to fall asleep on top: it is woken first, while the processor still
//! knows it. How many are woken for what is waiting is the module's choice ([`ThreadPool::new`]): a thread for each job where a
//! job mostly waits, and no more than there are processors where it mostly computes, since one thread that takes three jobs
//! in a row is cheaper than three that are woken for one each. A thread that is about to wait says so
//! ([`ThreadPool::waits`]), so that another one takes its place.

mod queue;
mod room;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use seam::Service;

pub(crate) use queue::{Sleeper, ThreadPool};

/// What [`queue`] and [`room`] are made of; a test puts the model checker's in its place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(super) use std::sync::{Mutex, MutexGuard};

    /// What a thread rests with.
    #[derive(Debug)]
    pub(super) struct Rest(std::thread::Thread);

    impl Rest {
        /// Of the present thread.
        pub(super) fn new() -> Rest {
            Rest(std::thread::current())
        }

        /// Until [`end`](Rest::end), also an earlier one, or for no reason. Only in the thread it was made in.
        pub(super) fn begin(&self) {
            std::thread::park();
        }

        pub(super) fn end(&self) {
            self.0.unpark();
        }
    }

    /// The order that `SeqCst` gives on both sides of this: the model checker does not know it and needs a fence.
    pub(super) fn in_order() {}
}

/// What a stack may grow to, in bytes; `ThreadStackSize` can only make it more. Only what is used of it costs memory, so less
/// would save nothing, and sections in sections, as deep as an access file may have them, would end the child: an unoptimised
/// build needs more than 2 MiB for those. Apache's threads have what the shell's limit says, mostly 8 MiB.
pub(crate) const STACK: usize = 4 * 1024 * 1024;

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

/// Starts the threads of a pool. They run until the process ends.
pub(crate) fn start<W: Work>(work: &Arc<W>, stack: Option<usize>, module: &'static str) -> io::Result<()> {
    let stack = stack.unwrap_or(0).max(STACK);
    let size = work.pool().size();
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
        let job = pool.next(&me, || work.service().before_wait());
        if catch_unwind(AssertUnwindSafe(|| work.run(&mut tools, job))).is_err() {
            seam::log!(module, Crit, "a worker thread panicked: its connection is closed, the thread goes on");
            drop(tools);
            tools = work.tools(index);
        }
        pool.done(|| work.room());
    }
}

#[cfg(test)]
mod modelled;
#[cfg(test)]
mod tests;
