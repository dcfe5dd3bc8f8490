//! An event loop for many tasks: one thread polls them when an epoll set reports events.
//!
//! A *tick* is a look for events and everything that follows from it: each woken task is polled once, and so are the
//! tasks that these wake, before the loop looks again; the main task is polled last. So many events cost one system
//! call, and a response of the system to one task holds for all tasks of the tick. [`yield_now`] waits until after the
//! next look.
//!
//! Descriptors ([`watch`](crate::watch)), deadlines ([`Alarm`]) and tasks ([`Handle::spawn`]) belong to the loop that
//! is present in a thread: the one that runs there, or one that was [entered](Handle::enter), so that another thread
//! may poll tasks of that loop. Wake-ups may come from any thread. Those from the loop's own thread go into a queue
//! without a lock; those from others go through its [inbox], and raise an event if the loop sleeps.

mod alarm;
mod handle;
mod inbox;
mod reactor;
mod readiness;
mod shared;
mod slab;
mod source;
mod sync;
mod task;
mod timers;
mod wake_state;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rustix::event::epoll::Event;

use crate::event_fd::EventFd;
use inbox::Inbox;
use reactor::Reactor;
use shared::{RUNNING, Running, Shared};
use timers::Timers;

pub use alarm::Alarm;
pub use handle::{Entered, Handle};
pub(crate) use readiness::ReadyEvent;
pub use shared::is_present;
pub use source::Interest;
pub(crate) use source::{Source, register};
pub use task::{Spawned, spawn};
pub use wake_state::WakeState;

/// The most polls in a tick: a task that wakes itself must not keep the loop from looking.
const TICK_MAX: usize = 4096;

/// An event loop. Dropping it drops its tasks.
pub struct EventLoop {
    shared: Arc<Shared>,
    before_wait: Box<dyn Fn()>,
    /// Room for the events of a look.
    events: Vec<Event>,
    woken: Vec<Waker>,
    later: Vec<Waker>,
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").finish_non_exhaustive()
    }
}

/// Lets all ready tasks go first, and those that the next look finds. Outside the thread of a loop the task is only
/// woken.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        RUNNING.with(|running| {
            running.yields.set(running.yields.get().wrapping_add(1));
            match running.shared.get().is_null() {
                true => cx.waker().wake_by_ref(),
                false => running.later.borrow_mut().push(cx.waker().clone()),
            }
        });
        Poll::Pending
    })
    .await;
}

/// How often tasks of this thread have [yielded](yield_now). A future that is pending after a poll in which this number changed
/// waits for nothing: it lets others go first.
pub fn yields() -> u64 {
    RUNNING.with(|running| running.yields.get())
}

/// Wakes the main task.
struct Main(Arc<Shared>);

impl Wake for Main {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.main.store(true, Ordering::Release);
        if !self.0.is_here() {
            self.0.inbox.wake();
        }
    }
}

impl EventLoop {
    /// Makes a loop that calls `before_wait` before it waits for events. Do not share it with a forked child: the child
    /// makes its own.
    pub fn new(before_wait: impl Fn() + 'static) -> io::Result<EventLoop> {
        let event = Arc::new(EventFd::new()?);
        let shared = Arc::new(Shared {
            reactor: Reactor::new(&event)?,
            timers: Timers::new(),
            inbox: Inbox::new(event),
            tasks: Mutex::default(),
            main: AtomicBool::new(false),
        });
        let events = Vec::with_capacity(reactor::EVENTS);
        Ok(EventLoop { shared, before_wait: Box::new(before_wait), events, woken: Vec::new(), later: Vec::new() })
    }

    /// A handle for its users.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Runs until `main` ends, and polls all other tasks meanwhile. They may continue in a further run.
    ///
    /// # Errors
    /// The errors of epoll_wait(2).
    pub fn run<T>(&mut self, main: impl Future<Output = T>) -> io::Result<T> {
        let shared = self.shared.clone();
        let handle = Handle(shared.clone());
        let _entered = handle.enter();
        let _run = Run::begin(&shared);
        let waker = Waker::from(Arc::new(Main(shared.clone())));
        let mut main = pin!(main);
        shared.main.store(true, Ordering::Relaxed);
        RUNNING.with(|running| {
            shared.inbox.take(&mut running.queue.borrow_mut());
            let mut polled = 0;
            loop {
                let next = if polled < TICK_MAX { running.queue.borrow_mut().pop_front() } else { None };
                if let Some(task) = next {
                    polled += 1;
                    task.run();
                } else if shared.main.load(Ordering::Relaxed) {
                    shared.main.swap(false, Ordering::Acquire);
                    if let Poll::Ready(value) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return Ok(value);
                    }
                } else {
                    self.poll_events(running)?;
                    polled = 0;
                }
            }
        })
    }

    /// Called when no task is left to poll: looks for events, and waits for some unless a task has only yielded.
    fn poll_events(&mut self, running: &Running) -> io::Result<()> {
        let shared = &*self.shared;
        self.later.append(&mut running.later.borrow_mut());
        if self.later.is_empty() {
            (self.before_wait)();
        }
        let next = shared.timers.next(&mut self.woken);
        let goes_on = !self.later.is_empty()
            || !self.woken.is_empty()
            || !running.queue.borrow().is_empty()
            || shared.main.load(Ordering::Relaxed);
        let timeout = if !goes_on && shared.inbox.fall_asleep() { next } else { Some(Duration::ZERO) };
        let found = shared.reactor.poll(timeout, &mut self.events, &mut self.woken);
        shared.inbox.take(&mut running.queue.borrow_mut());
        if !found? && timeout.is_some_and(|timeout| !timeout.is_zero()) {
            // The time that was waited for has come.
            let _next = shared.timers.next(&mut self.woken);
        }
        self.woken.drain(..).for_each(Waker::wake);
        self.later.drain(..).for_each(Waker::wake);
        Ok(())
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        let handle = self.handle();
        let _entered = handle.enter();
        // A dropped task may spawn more.
        loop {
            let tasks = self.shared.tasks().take();
            if tasks.is_empty() {
                break;
            }
            tasks.iter().for_each(|task| task.end());
        }
    }
}

/// Marks a loop as running in this thread.
struct Run<'a>(&'a Shared);

impl Run<'_> {
    fn begin(shared: &Shared) -> Run<'_> {
        RUNNING.with(|running| {
            assert!(running.shared.get().is_null(), "a loop runs in this thread already");
            running.shared.set(shared);
        });
        Run(shared)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        RUNNING.with(|running| {
            running.shared.set(ptr::null());
            // For a further run.
            std::mem::take(&mut *running.later.borrow_mut()).into_iter().for_each(Waker::wake);
            std::mem::take(&mut *running.queue.borrow_mut()).into_iter().for_each(|task| self.0.inbox.push(task));
        });
    }
}

#[cfg(test)]
mod modelled;
#[cfg(test)]
mod tests;
