//! An executor for one task at a time, with the smallest reactor there is: poll(2).
//!
//! A thread or process that serves one connection waits for two or three descriptors and a deadline. A reactor for
//! thousands costs it an epoll set, wheels of timers and queues, all of it cold each time the processor comes back to this
//! one of hundreds. Here, whatever the task still waits for when it was polled is given to poll(2), and then it is polled
//! again: nothing is kept between two waits.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

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

    /// Waits for what is wanted; not at all if the task wants to be polled again anyway.
    fn wait(&mut self, again: bool) -> io::Result<()> {
        self.said.clear();
        std::mem::swap(&mut self.said, &mut self.wanted);
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

/// Says that the task is to be polled again.
#[derive(Default)]
struct Again(AtomicBool);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Polls one task to its end. What it waits for must be [watched](crate::watch) descriptors and deadlines of
/// [`has_passed`]: a waker in the hands of another thread is heeded only after those. `before_wait` is called before the
/// thread sleeps. Not to be called by a task that is polled by it.
///
/// # Errors
/// Those of poll(2): there is no memory. The task is dropped.
pub fn block_on<T>(task: impl Future<Output = T>, mut before_wait: impl FnMut()) -> io::Result<T> {
    let _present = Present::new();
    let again = Arc::new(Again::default());
    let waker = Waker::from(again.clone());
    let mut task = pin!(task);
    loop {
        if let Poll::Ready(value) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(value);
        }
        before_wait();
        let again = again.0.swap(false, Ordering::Acquire);
        // Taken out: what runs meanwhile is only the kernel.
        let Some(mut waits) = WAITS.take() else { unreachable!("a task that is polled has taken its thread's place") };
        let waited = waits.wait(again);
        WAITS.set(Some(waits));
        waited?;
    }
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
        WAITS.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::watch::watch;
    use tokio::io::Interest;

    #[test]
    fn a_task_waits_for_descriptors_and_deadlines() {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        theirs.set_nonblocking(true).expect("non-blocking");
        let theirs = Arc::new(OwnedFd::from(theirs));
        let mut waits = 0;
        let mut turns = 0;
        let read = block_on(
            async {
                let watched = watch(theirs.clone(), Interest::READABLE).expect("watch");
                let begin = Instant::now();
                let end = begin + Duration::from_millis(20);
                poll_fn(|cx| match watched.poll_read_ready(cx) {
                    Poll::Ready(_) => panic!("nothing was written yet"),
                    Poll::Pending if has_passed(end) == Some(true) => Poll::Ready(()),
                    Poll::Pending => Poll::Pending,
                })
                .await;
                assert!(begin.elapsed() >= Duration::from_millis(20));
                ours.write_all(b"x").expect("write");
                let mut bytes = Vec::with_capacity(8);
                loop {
                    let mut ready = watched.readable().await.expect("ready");
                    if let Some(read) = ready.try_io(|fd| crate::file::read_into(fd, &mut bytes)) {
                        break read.expect("read");
                    }
                }
            },
            || waits += 1,
        );
        assert_eq!(read.expect("poll"), 1);
        assert!(waits >= 2, "{waits}");
        // A task that wakes itself is polled again without waiting for anything.
        let woken = block_on(
            poll_fn(|cx| {
                turns += 1;
                cx.waker().wake_by_ref();
                if turns == 3 { Poll::Ready(()) } else { Poll::Pending }
            }),
            || (),
        );
        assert!(woken.is_ok() && !is_present());
    }

    #[test]
    fn the_end_of_a_descriptor_is_something_to_read() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        drop(ours);
        let read = block_on(
            async {
                let watched = watch(Arc::new(theirs.into()), Interest::READABLE).expect("watch");
                watched.readable().await.map(|_| ())
            },
            || (),
        );
        assert!(read.is_ok_and(|ready| ready.is_ok()));
    }
}
