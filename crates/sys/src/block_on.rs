//! An executor for one task at a time, with the smallest reactor there is: poll(2).
//!
//! A thread or process that serves one connection waits for two or three descriptors and a deadline. A reactor for
//! thousands costs it an epoll set, wheels of timers and queues, all of it cold each time the processor comes back to this
//! one of hundreds. Here, whatever the task still waits for when it was polled is given to poll(2), and then it is polled
//! again: nothing is kept between two waits.

mod helpers;
pub(crate) mod wakeup;

use std::cell::{OnceCell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::event_fd::EventFd;
pub use helpers::Helper;
pub(crate) use sync::Raise;
use wakeup::{Before, Wakeup};

/// What [`wakeup`] is made of; a test puts the model checker's in its place.
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

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Until the descriptor can be read.
    Read,
    /// Until it can be written to.
    Write,
    /// Until it fails: what the kernel says without being asked.
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

/// What the kernel says without being asked.
const ALWAYS: libc::c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// What the task waits for, and what poll(2) said last.
#[derive(Default)]
struct Waits {
    wanted: Vec<libc::pollfd>,
    deadline: Option<Instant>,
    said: Vec<libc::pollfd>,
}

thread_local! {
    static WAITS: RefCell<Option<Waits>> = const { RefCell::new(None) };
    /// What other threads wake this one with, once any has had to.
    static EVENT: OnceCell<Arc<EventFd>> = const { OnceCell::new() };
}

/// Whether the present thread polls a task of [`block_on`].
pub fn is_present() -> bool {
    WAITS.with_borrow(Option::is_some)
}

/// Whether a descriptor was said to be ready; if not, the task waits for it.
pub(crate) fn is_ready(fd: &OwnedFd, direction: Direction) -> bool {
    with(|waits| {
        let (fd, events) = (fd.as_raw_fd(), direction.events());
        let ready = waits.said.iter().any(|said| said.fd == fd && said.revents & (events | ALWAYS) != 0);
        if !ready {
            waits.want(fd, events);
        }
        ready
    })
    .unwrap_or(true)
}

/// A descriptor would block, whatever was said of it.
pub(crate) fn clear(fd: &OwnedFd, direction: Direction) {
    with(|waits| {
        for said in waits.said.iter_mut().filter(|said| said.fd == fd.as_raw_fd()) {
            said.revents &= !(direction.events() | ALWAYS);
        }
    });
}

/// Whether `deadline` has passed; if not, the task waits for that too. `None` where there is no task of [`block_on`].
pub fn has_passed(deadline: Instant) -> Option<bool> {
    with(|waits| {
        let passed = Instant::now() >= deadline;
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

    /// Waits for what is wanted, and for `event`; not at all if the task wants to be polled again anyway.
    fn wait(&mut self, again: bool, event: Option<&EventFd>) -> io::Result<()> {
        self.said.clear();
        std::mem::swap(&mut self.said, &mut self.wanted);
        if let Some(event) = event {
            self.said.push(libc::pollfd { fd: event.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 });
        }
        let timeout = match self.deadline.take() {
            _ if again => 0,
            Some(deadline) => milliseconds(deadline.saturating_duration_since(Instant::now())),
            None => -1,
        };
        let count = self.said.len() as libc::nfds_t;
        // SAFETY: the pointer and the number are those of the list, which nobody else uses meanwhile.
        if unsafe { libc::poll(self.said.as_mut_ptr(), count, timeout) } < 0 {
            let error = io::Error::last_os_error();
            // The task looks for itself what there is.
            self.said.clear();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Rounded up: a wait that ends too early would be followed by another one.
fn milliseconds(time: Duration) -> libc::c_int {
    libc::c_int::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
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

/// Polls one task to its end, and those that it [adds](add_helper) beside itself. They wait for [watched](crate::watch)
/// descriptors, for deadlines of [`has_passed`], and for anybody, also in another thread, that calls their waker.
/// `before_wait` is called before the thread sleeps. Not to be called by a task that is polled by it.
///
/// # Errors
/// Those of poll(2) and eventfd(2): there is no memory, or no descriptor. The task is dropped.
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
        // Ours and that of `waker` do not count.
        let before = wakeup.0.before_wait(|| Arc::strong_count(&wakeup) > 2, event)?;
        // Taken out: what runs meanwhile is only the kernel.
        let Some(mut waits) = WAITS.take() else { unreachable!("a task that is polled has taken its thread's place") };
        let waited = match before {
            Before::PollAgain => waits.wait(true, None),
            Before::WaitAlone => waits.wait(false, None),
            Before::WaitFor(event) => {
                let waited = waits.wait(false, Some(&event));
                wakeup.0.awake();
                // What was raised late by a waker of an earlier task only costs a poll.
                event.lower();
                waited
            }
        };
        WAITS.set(Some(waits));
        waited?;
    }
}

/// The event of this thread, made when it is first needed.
fn event() -> io::Result<Arc<EventFd>> {
    EVENT.with(|event| match event.get() {
        Some(event) => Ok(event.clone()),
        None => {
            let new = Arc::new(EventFd::new()?);
            Ok(event.get_or_init(|| new).clone())
        }
    })
}

/// The reactor of this thread, as long as a task is polled.
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
