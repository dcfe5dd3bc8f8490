//! Waits until descriptors are ready.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

/// A set of descriptors to wait for (epoll(7), level-triggered).
#[derive(Debug)]
pub struct Poller(OwnedFd);

impl Poller {
    /// An empty set. Do not share it with a forked child: the child makes its own.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor; [`wait`](Poller::wait) returns `token` when it can be read.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// Like [`add`](Poller::add) for a descriptor that many processes wait for: an event wakes one or a few of them
    /// (`EPOLLEXCLUSIVE`).
    pub fn add_exclusive(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.0, fd, epoll::EventData::new_u64(token), flags)?)
    }

    /// Removes a descriptor.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, fd)?)
    }

    /// Waits for `timeout` at most (`None`: without end) and puts the tokens of readable descriptors into `ready`. An
    /// interrupting signal ends the wait with none.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        ready.clear();
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 16];
        match epoll::wait(&self.0, &mut events, timespec(timeout).as_ref()) {
            Ok(count) => {
                let tokens = events[..count].iter().map(|event| {
                    let data = event.data;
                    data.u64()
                });
                ready.extend(tokens);
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits until one descriptor can be read or the other side has closed it; `false` if `timeout` passed first.
pub fn readable(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    wait_for(fd, PollFlags::IN, timeout)
}

/// Waits until any of these can be read; an interrupting signal ends the wait early.
pub fn any_readable<const N: usize>(fds: [BorrowedFd<'_>; N], timeout: Duration) -> io::Result<()> {
    let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut fds, timespec(Some(timeout)).as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the other side of a socket has stopped sending, or the connection was reset. Does not wait.
pub(crate) fn is_shut(fd: impl AsFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(&fd, PollFlags::RDHUP)];
    // Any event that was not asked for is a failure, which is always reported.
    Ok(poll(&mut fds, timespec(Some(Duration::ZERO)).as_ref())? > 0)
}

/// Whether a pipe is at its end: nobody has its other side open, and everything written to it was read. Does not wait.
pub fn is_at_end(pipe: impl AsFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(&pipe, PollFlags::IN)];
    poll(&mut fds, timespec(Some(Duration::ZERO)).as_ref())?;
    Ok(fds[0].revents() == PollFlags::HUP)
}

/// Waits until one descriptor can be written to; `false` if `timeout` passed first.
pub fn writable(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    wait_for(fd, PollFlags::OUT, timeout)
}

fn wait_for(fd: impl AsFd, flags: PollFlags, timeout: Option<Duration>) -> io::Result<bool> {
    match poll(&mut [PollFd::new(&fd, flags)], timespec(timeout).as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn timespec(timeout: Option<Duration>) -> Option<Timespec> {
    timeout.and_then(|timeout| Timespec::try_from(timeout).ok())
}
