//! Descriptors in the reactor of the current thread: that of an [event loop](crate::event_loop) if it polls many tasks,
//! or that of [`block_on`] if it polls one.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use crate::block_on::{self, Direction};
use crate::event_loop::{self, ReadyEvent, Source};

pub use crate::event_loop::Interest;

/// A descriptor that a reactor watches.
#[derive(Debug)]
pub struct Watched(Inner);

#[derive(Debug)]
enum Inner {
    Many(Source),
    One(One),
}

/// A descriptor in the reactor of one task.
#[derive(Debug)]
struct One {
    fd: Arc<OwnedFd>,
    /// A descriptor found writable stays so until a write says otherwise, without a check before each write.
    writable: AtomicBool,
}

/// Whether the current thread polls many tasks, or stands in for one that does: it must not block.
pub fn serves_many() -> bool {
    !block_on::is_present() && event_loop::is_present()
}

/// Registers a non-blocking descriptor with the thread's reactor. An error if there is none: neither
/// [`block_on::block_on`] nor an event loop polls here.
pub fn watch(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<Watched> {
    if block_on::is_present() {
        return Ok(Watched(Inner::One(One { fd, writable: AtomicBool::new(false) })));
    }
    Ok(Watched(Inner::Many(event_loop::register(fd, interest, false)?)))
}

/// Registers, with the present event loop, a descriptor that many processes wait for, such as a listening socket. When
/// it becomes readable, the kernel wakes the first of those that sleep and nobody else (`EPOLLEXCLUSIVE`), in the order
/// in which they registered. So a wake-up is a duty: a process that does not take what has come has to make sure that
/// another one does.
pub fn watch_exclusively(fd: Arc<OwnedFd>) -> io::Result<Watched> {
    Ok(Watched(Inner::Many(event_loop::register(fd, Interest::READABLE, true)?)))
}

impl Watched {
    /// Ready when the descriptor may be readable.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        self.poll(Direction::Read, cx)
    }

    /// Ready when the descriptor may be writable.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        self.poll(Direction::Write, cx)
    }

    fn poll(&self, direction: Direction, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        match &self.0 {
            Inner::Many(source) => {
                source.poll(direction, cx).map(|event| Ok(Ready(By::Many(source, direction, event))))
            }
            Inner::One(one) => one.poll(direction),
        }
    }

    /// Whether the reactor has reported that the descriptor may be readable, and nobody has cleared that. `None`: only a look at
    /// the descriptor tells.
    pub fn is_readable(&self) -> Option<bool> {
        match &self.0 {
            Inner::Many(source) => {
                Some(source.poll(Direction::Read, &mut Context::from_waker(Waker::noop())).is_ready())
            }
            Inner::One(_) => None,
        }
    }

    /// The descriptor itself.
    pub fn get_ref(&self) -> &OwnedFd {
        match &self.0 {
            Inner::Many(source) => source.fd(),
            Inner::One(one) => &one.fd,
        }
    }

    /// Ready once the descriptor has failed: a connection, once it is reset. An end of the other side's data is not a
    /// failure.
    pub fn poll_failed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Direction::Failure, cx).map_ok(drop)
    }

    /// Waits until the descriptor may be readable.
    pub async fn readable(&self) -> io::Result<Ready<'_>> {
        poll_fn(|cx| self.poll_read_ready(cx)).await
    }
}

impl One {
    fn poll(&self, direction: Direction) -> Poll<io::Result<Ready<'_>>> {
        let writes = direction == Direction::Write;
        if !(writes && self.writable.load(Ordering::Relaxed)) {
            if !block_on::is_ready(&self.fd, direction) {
                return Poll::Pending;
            }
            if writes {
                self.writable.store(true, Ordering::Relaxed);
            }
        }
        Poll::Ready(Ok(Ready(By::One(self, direction))))
    }

    fn clear(&self, direction: Direction) {
        if direction == Direction::Write {
            self.writable.store(false, Ordering::Relaxed);
        }
        block_on::clear(&self.fd, direction);
    }
}

/// The reactor's report on a descriptor. It is repeated until it is cleared.
#[derive(Debug)]
pub struct Ready<'a>(By<'a>);

#[derive(Debug)]
enum By<'a> {
    /// By an event loop.
    Many(&'a Source, Direction, ReadyEvent),
    /// By the reactor of the one task.
    One(&'a One, Direction),
}

impl Ready<'_> {
    /// Clears it, because the descriptor would block now: the reactor watches for it again.
    pub fn clear_ready(&mut self) {
        match self.0 {
            By::Many(source, direction, event) => source.clear(direction, event),
            By::One(one, direction) => one.clear(direction),
        }
    }

    /// Tries `act`; `None` if it would block.
    pub fn try_io<T>(&mut self, act: impl FnOnce(&OwnedFd) -> io::Result<T>) -> Option<io::Result<T>> {
        let result = match self.0 {
            By::Many(source, ..) => act(source.fd()),
            By::One(one, _) => act(&one.fd),
        };
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.clear_ready();
            return None;
        }
        Some(result)
    }
}
