//! Descriptors in the reactor of the present thread: tokio's where it polls many tasks, or that of [`block_on`] where it polls
//! one.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::block_on::{self, Direction};

/// A descriptor that a reactor watches.
#[derive(Debug)]
pub struct Watched(Inner);

#[derive(Debug)]
enum Inner {
    Many(AsyncFd<Arc<OwnedFd>>),
    One(One),
}

/// A descriptor in the reactor of one task.
#[derive(Debug)]
pub struct One {
    fd: Arc<OwnedFd>,
    /// What was found writable stays so until a write says otherwise, and is not asked for before each of them.
    writable: AtomicBool,
}

/// Whether the present thread polls many tasks, or stands in for one that does: it must not block.
pub fn serves_many() -> bool {
    !block_on::is_present() && tokio::runtime::Handle::try_current().is_ok()
}

/// Registers a non-blocking descriptor with the thread's reactor. Must be called within [`block_on::block_on`], or within a
/// tokio runtime that has I/O enabled.
pub fn watch(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<Watched> {
    if block_on::is_present() {
        return Ok(Watched(Inner::One(One { fd, writable: AtomicBool::new(false) })));
    }
    // SAFETY: the descriptor is the same for the life of the `Arc`, which the result holds and never lets out by value
    // or mutably before it is deregistered.
    Ok(Watched(Inner::Many(unsafe { AsyncFd::register_with_interest(fd, interest) }?)))
}

impl Watched {
    /// Ready when the descriptor can perhaps be read.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        match &self.0 {
            Inner::Many(fd) => fd.poll_read_ready(cx).map_ok(Ready::Many),
            Inner::One(one) => one.poll(Direction::Read),
        }
    }

    /// Ready when the descriptor can perhaps be written to.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        match &self.0 {
            Inner::Many(fd) => fd.poll_write_ready(cx).map_ok(Ready::Many),
            Inner::One(one) => one.poll(Direction::Write),
        }
    }

    /// The descriptor itself.
    pub fn get_ref(&self) -> &OwnedFd {
        match &self.0 {
            Inner::Many(fd) => fd.get_ref(),
            Inner::One(one) => &one.fd,
        }
    }

    /// Waits until the descriptor fails: of a connection, until it is reset. That the other side sends nothing more is no
    /// failure.
    pub async fn failed(&self) -> io::Result<()> {
        match &self.0 {
            Inner::Many(fd) => fd.ready(Interest::ERROR).await.map(drop),
            Inner::One(one) => poll_fn(|_| one.poll(Direction::Failure)).await.map(drop),
        }
    }

    /// Waits until the descriptor can perhaps be read.
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
        Poll::Ready(Ok(Ready::One(self, direction)))
    }

    fn clear(&self, direction: Direction) {
        if direction == Direction::Write {
            self.writable.store(false, Ordering::Relaxed);
        }
        block_on::clear(&self.fd, direction);
    }
}

/// What the reactor said of a descriptor. It says so until it is told that this is over.
#[derive(Debug)]
pub enum Ready<'a> {
    /// By tokio's.
    Many(AsyncFdReadyGuard<'a, Arc<OwnedFd>>),
    /// By that of the one task.
    One(&'a One, Direction),
}

impl Ready<'_> {
    /// The descriptor would block now: the reactor is to watch for it anew.
    pub fn clear_ready(&mut self) {
        match self {
            Ready::Many(guard) => guard.clear_ready(),
            Ready::One(one, direction) => one.clear(*direction),
        }
    }

    /// Tries `act`; `None` if it would block.
    pub fn try_io<T>(&mut self, act: impl FnOnce(&OwnedFd) -> io::Result<T>) -> Option<io::Result<T>> {
        let result = match self {
            Ready::Many(guard) => act(guard.get_inner()),
            Ready::One(one, _) => act(&one.fd),
        };
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.clear_ready();
            return None;
        }
        Some(result)
    }
}
