//! Descriptors that are registered with an event loop.

use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::readiness::{Readiness, ReadyEvent};
use super::shared::{Shared, present};
use super::slab::Number;
use crate::block_on::Direction;

/// The events to watch a descriptor for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    read: bool,
    write: bool,
}

impl Interest {
    /// Until it can be read.
    pub const READABLE: Interest = Interest { read: true, write: false };
    /// Until it can be written to.
    pub const WRITABLE: Interest = Interest { read: false, write: true };

    fn reads(self) -> bool {
        self.read
    }

    fn writes(self) -> bool {
        self.write
    }
}

impl BitOr for Interest {
    type Output = Interest;

    fn bitor(self, other: Interest) -> Interest {
        Interest { read: self.read || other.read, write: self.write || other.write }
    }
}

/// Registers a descriptor with the loop that is present; an error if there is none.
pub(crate) fn register(fd: Arc<OwnedFd>, interest: Interest, exclusive: bool) -> io::Result<Source> {
    let shared = present().ok_or_else(|| io::Error::other("a descriptor can be watched only within an event loop"))?;
    Source::new(shared, fd, interest, exclusive)
}

/// A descriptor that a loop watches until this is dropped.
#[derive(Debug)]
pub(crate) struct Source {
    shared: Arc<Shared>,
    fd: Arc<OwnedFd>,
    readiness: Arc<Readiness>,
    number: Number,
}

impl Source {
    /// Registers a non-blocking descriptor. `exclusive`: many processes wait for it to become readable, and an event
    /// wakes one of those that sleep.
    fn new(shared: Arc<Shared>, fd: Arc<OwnedFd>, interest: Interest, exclusive: bool) -> io::Result<Source> {
        let mut flags = EventFlags::ET;
        if exclusive {
            // The only flags allowed with it (epoll_ctl(2)).
            flags |= EventFlags::IN | EventFlags::EXCLUSIVE;
        } else {
            flags.set(EventFlags::IN | EventFlags::RDHUP, interest.reads());
            flags.set(EventFlags::OUT, interest.writes());
        }
        let readiness = Arc::new(Readiness::new());
        let number = shared.reactor.sources().insert_with(|number| (readiness.clone(), number));
        let source = Source { shared, fd, readiness, number };
        // If this fails, dropping the source cleans up.
        epoll::add(&source.shared.reactor.epoll, &source.fd, EventData::new_u64(number.into()), flags)?;
        Ok(source)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub(crate) fn poll(&self, direction: Direction, cx: &mut Context<'_>) -> Poll<ReadyEvent> {
        self.readiness.poll(direction, cx)
    }

    pub(crate) fn clear(&self, direction: Direction, at: ReadyEvent) {
        self.readiness.clear(direction, at);
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let reactor = &self.shared.reactor;
        let _ = epoll::delete(&reactor.epoll, self.fd.as_fd());
        let _readiness = reactor.sources().remove(self.number);
    }
}
