//! The thread pool: the worker threads of a child, and the queue of their jobs.
//!
//! Idle threads sleep in a stack, the last one to fall asleep on top: it is woken first, while the processor's caches
//! still know it. The module chooses how many are woken for the waiting jobs ([`ThreadPool::new`]): a thread for each
//! job where a job mostly waits, and no more than there are processors where it mostly computes, since one thread that
//! takes three jobs in a row is cheaper than three that are woken for one each. A thread that is about to wait says so
//! ([`ThreadPool::waits`]), so that another one takes its place.

mod queue;
mod room;
mod sync;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use runtime::{STACK, Service};

pub(crate) use queue::{Sleeper, ThreadPool};

/// The work of a module's threads.
pub(crate) trait Work: Send + Sync + 'static {
    /// What one thread works on at a time.
    type Job: Send + 'static;
    /// A thread's own state.
    type Tools<'a>;

    fn pool(&self) -> &ThreadPool<Self::Job>;
    fn service(&self) -> &dyn Service;
    /// Makes the state of the thread with this number, from 0. Called again after a panic.
    fn tools(&self, index: usize) -> Self::Tools<'_>;
    fn run(&self, tools: &mut Self::Tools<'_>, job: Self::Job);
    /// How many connections may be accepted now; called when that may have risen.
    fn room(&self) -> usize;
}

/// What a thread needs beside its stack, and all of them together, in bytes: guard pages, a stack for signals, the first blocks.
const BESIDE_STACK: usize = 64 * 1024;
const MARGIN: usize = 16 << 20;

/// Starts the threads of a pool. They run until the process ends.
pub(crate) fn start<W: Work>(work: &Arc<W>, stack: Option<usize>, module: &'static str) -> io::Result<()> {
    let stack = stack.unwrap_or(0).max(STACK);
    let size = work.pool().size();
    let refused = |error: io::Error, count: usize| {
        let text = sys::describe(&error);
        let advice = "lower ThreadsPerChild, or raise the limits of memory and processes";
        runtime::log!(module, Alert, "{text}: only {count} of {size} worker threads can be started: {advice}");
        error
    };
    // Looked at before the first one: a thread that gets the last memory for its stack has none to begin with, and ends the
    // whole process.
    let room_for = |count: usize| sys::memory::room_for(count.saturating_mul(stack + BESIDE_STACK) + MARGIN);
    if let Err(error) = room_for(size) {
        return Err(refused(error, (1..size).take_while(|count| room_for(*count).is_ok()).count()));
    }
    for index in 0..size {
        let work = work.clone();
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).stack_size(stack);
        thread.spawn(move || serve(&*work, index, module)).map_err(|error| refused(error, index))?;
    }
    Ok(())
}

/// The life of a thread. A thread that panics loses its job, which is dropped with everything it holds, and goes on.
fn serve<W: Work>(work: &W, index: usize, module: &'static str) {
    let pool = work.pool();
    let me = Sleeper::new();
    let mut tools = work.tools(index);
    loop {
        let job = pool.next(&me, || work.service().before_wait());
        if catch_unwind(AssertUnwindSafe(|| work.run(&mut tools, job))).is_err() {
            runtime::log!(module, Crit, "a worker thread panicked: its connection is closed, the thread goes on");
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
