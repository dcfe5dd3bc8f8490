//! An executor for one task at a time, with the smallest reactor there is: poll(2).
//!
//! A thread or process that serves one connection waits for two or three descriptors and a deadline. A reactor for
//! thousands would cost it an epoll set, timer wheels and queues, all of them cold each time the processor comes back
//! to this one process of hundreds. Here, the descriptors and deadlines that the task waits for after a poll go to
//! poll(2), and then the task is polled again: nothing is kept between two waits.

mod helpers;
pub(crate) mod wakeup;

use std::cell::{OnceCell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::event_fd::EventFd;
use crate::time::Instant;
pub use helpers::Helper;
pub(crate) use sync::Raise;
use wakeup::{Before, Wakeup};

/// The building blocks of [`wakeup`]; a test replaces them with the model checker's.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering, fence};
    pub(super) use std::sync::{Arc, OnceLock};

    /// Something that ends a wait.
    pub(crate) trait Raise {
        fn raise(&self);
    }
}

impl Raise for EventFd {
    fn raise(&self) {
        EventFd::raise(self);
    }
}

/// The event to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Until the descriptor can be read.
    Read,
    /// Until it can be written to.
    Write,
    /// Until it fails: the kernel always reports this.
    Failure,
}

impl Direction {
    fn events(self) -> libc::c_short {
        match self {
            Direction::Read => libc::POLLIN | libc::POLLRDHUP,
            Direction::Write => libc::POLLOUT,
            Direction::Failure => 0,
        }
    }
}

/// The events that the kernel always reports.
const ALWAYS: libc::c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// The descriptors and the deadline that the task waits for, and the last result of poll(2).
#[derive(Default)]
struct Waits {
    wanted: Vec<libc::pollfd>,
    deadline: Option<Instant>,
    polled: Vec<libc::pollfd>,
}

thread_local! {
    static WAITS: RefCell<Option<Waits>> = const { RefCell::new(None) };
    /// The event with which other threads wake this one, made when first needed.
    static EVENT: OnceCell<Arc<EventFd>> = const { OnceCell::new() };
}

/// Whether the current thread polls a task of [`block_on`].
pub fn is_present() -> bool {
    WAITS.with_borrow(Option::is_some)
}

/// Whether a descriptor was reported ready; if not, the task waits for it.
pub(crate) fn is_ready(fd: &OwnedFd, direction: Direction) -> bool {
    with(|waits| {
        let (fd, events) = (fd.as_raw_fd(), direction.events());
        let ready = waits.polled.iter().any(|polled| polled.fd == fd && polled.revents & (events | ALWAYS) != 0);
        if !ready {
            waits.want(fd, events);
        }
        ready
    })
    .unwrap_or(true)
}

/// The descriptor would block, whatever was reported.
pub(crate) fn clear(fd: &OwnedFd, direction: Direction) {
    with(|waits| {
        for polled in waits.polled.iter_mut().filter(|polled| polled.fd == fd.as_raw_fd()) {
            polled.revents &= !(direction.events() | ALWAYS);
        }
    });
}

/// Whether `deadline` has passed; if not, the task waits for that too. `None` if no task of [`block_on`] is running.
pub fn has_passed(deadline: Instant) -> Option<bool> {
    with(|waits| {
        let passed = deadline.left().is_zero();
        if !passed {
            waits.deadline = Some(waits.deadline.map_or(deadline, |other| other.min(deadline)));
        }
        passed
    })
}

fn with<T>(look: impl FnOnce(&mut Waits) -> T) -> Option<T> {
    WAITS.with_borrow_mut(|waits| waits.as_mut().map(look))
}

impl Waits {
    fn want(&mut self, fd: RawFd, events: libc::c_short) {
        match self.wanted.iter_mut().find(|wanted| wanted.fd == fd) {
            Some(wanted) => wanted.events |= events,
            None => self.wanted.push(libc::pollfd { fd, events, revents: 0 }),
        }
    }

    /// Waits for the task's descriptors and deadline, and for `event`; not at all if the task wants to be polled again
    /// anyway.
    fn wait(&mut self, again: bool, event: Option<&EventFd>) -> io::Result<()> {
        self.polled.clear();
        std::mem::swap(&mut self.polled, &mut self.wanted);
        if let Some(event) = event {
            self.polled.push(libc::pollfd { fd: event.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 });
        }
        let timeout = match self.deadline.take() {
            _ if again => 0,
            Some(deadline) => milliseconds(deadline.left()),
            None => -1,
        };
        let count = self.polled.len() as libc::nfds_t;
        // SAFETY: the pointer and the count are those of the list, which nothing else uses meanwhile.
        if unsafe { libc::poll(self.polled.as_mut_ptr(), count, timeout) } < 0 {
            let error = io::Error::last_os_error();
            // The task then checks for itself.
            self.polled.clear();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Rounded up: a wait that ends too early would only lead to another one.
pub(crate) fn milliseconds(time: Duration) -> libc::c_int {
    let rest = u64::from(time.subsec_nanos().div_ceil(1_000_000));
    libc::c_int::try_from(time.as_secs().saturating_mul(1000).saturating_add(rest)).unwrap_or(libc::c_int::MAX)
}

/// The waker of a task, for any thread.
struct TaskWaker(Wakeup<EventFd>);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

/// Adds a task beside the one that this thread polls: it is polled whenever that one is, until it ends, its handle is
/// dropped, or the main task ends. `Err` gives it back: the thread polls no task of [`block_on`].
pub fn add_helper<F: Future<Output = ()> + Send + 'static>(task: F) -> Result<Helper, F> {
    if is_present() { Ok(helpers::add(Box::pin(task))) } else { Err(task) }
}

/// Polls one task to its end, together with the tasks that it [adds](add_helper). They wait for [watched](crate::watch)
/// descriptors, for deadlines of [`has_passed`], and for calls of their waker, from any thread. Calls `before_wait`
/// before the thread sleeps. A task that it polls must not call it.
///
/// # Errors
/// The errors of poll(2) and eventfd(2): no memory or no descriptor is left. The task is dropped.
pub fn block_on<T>(task: impl Future<Output = T>, mut before_wait: impl FnMut()) -> io::Result<T> {
    let _present = Present::new();
    let wakeup = Arc::new(TaskWaker(Wakeup::new()));
    let waker = Waker::from(wakeup.clone());
    let mut task = pin!(task);
    loop {
        let cx = &mut Context::from_waker(&waker);
        if let Poll::Ready(value) = task.as_mut().poll(cx) {
            return Ok(value);
        }
        helpers::poll(cx);
        before_wait();
        // Do not count our reference and that of `waker`.
        let before = wakeup.0.before_wait(|| Arc::strong_count(&wakeup) > 2, event)?;
        // Taken out: only the kernel runs meanwhile.
        let Some(mut waits) = WAITS.take() else { unreachable!("a task that is polled has taken its thread's place") };
        let waited = match before {
            Before::PollAgain => waits.wait(true, None),
            Before::WaitAlone => waits.wait(false, None),
            Before::WaitFor(event) => {
                let waited = waits.wait(false, Some(&event));
                wakeup.0.awake();
                // A late wake-up for an earlier task only costs a poll.
                event.lower();
                waited
            }
        };
        WAITS.set(Some(waits));
        waited?;
    }
}

/// The event of this thread, made when first needed.
fn event() -> io::Result<Arc<EventFd>> {
    EVENT.with(|event| match event.get() {
        Some(event) => Ok(event.clone()),
        None => {
            let new = Arc::new(EventFd::new()?);
            Ok(event.get_or_init(|| new).clone())
        }
    })
}

/// Provides this thread's reactor, as long as a task is polled.
struct Present;

impl Present {
    fn new() -> Present {
        WAITS.set(Some(Waits::default()));
        Present
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        helpers::clear();
        WAITS.set(None);
    }
}

#[cfg(test)]
mod modelled;
#[cfg(test)]
mod tests;
