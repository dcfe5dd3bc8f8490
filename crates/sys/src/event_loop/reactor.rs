//! The descriptors of an event loop (epoll(7)).
//!
//! They are watched edge-triggered: the kernel reports once that something has come, and the loop remembers it until a
//! reader or writer finds that it would block.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::readiness::{FAILED, READ, READ_CLOSED, Readiness, WRITE, WRITE_CLOSED};
use super::slab::{Number, Slab};
use crate::block_on;
use crate::event_fd::EventFd;

/// The most events that one look returns. The rest come with the next one.
pub(super) const EVENTS: usize = 1024;
/// The number of the event that other threads raise.
const WOKEN: u64 = u64::MAX;

/// An epoll set, and the known state of each descriptor in it.
#[derive(Debug)]
pub(super) struct Reactor {
    pub(super) epoll: OwnedFd,
    sources: Mutex<Slab<Arc<Readiness>>>,
}

impl Reactor {
    /// A reactor whose look returns when `woken` is raised.
    pub(super) fn new(woken: &EventFd) -> io::Result<Reactor> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, woken, EventData::new_u64(WOKEN), EventFlags::IN | EventFlags::ET)?;
        Ok(Reactor { epoll, sources: Mutex::default() })
    }

    pub(super) fn sources(&self) -> MutexGuard<'_, Slab<Arc<Readiness>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for events, for `timeout` at most (`None`: without end). Adds the wakers of tasks that wait
    /// for them to `woken`; `events` is room for the events. Returns whether there were any.
    pub(super) fn poll(
        &self,
        timeout: Option<Duration>,
        events: &mut Vec<Event>,
        woken: &mut Vec<Waker>,
    ) -> io::Result<bool> {
        events.clear();
        let timeout = timeout.map(timespec);
        match epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let sources = self.sources();
        for event in &*events {
            let (data, flags) = (event.data, event.flags);
            // A source that was deregistered meanwhile is not found, even if its place is taken.
            if let Some(source) = sources.get(Number::from(data.u64())) {
                source.set(ready(flags), woken);
            }
        }
        Ok(!events.is_empty())
    }
}

fn timespec(time: Duration) -> Timespec {
    let milliseconds = i64::from(block_on::milliseconds(time));
    Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 }
}

/// The readiness that an event reports.
fn ready(flags: EventFlags) -> u32 {
    let mut bits = 0;
    let mut add = |condition: bool, bit| bits |= if condition { bit } else { 0 };
    add(flags.contains(EventFlags::IN), READ);
    add(flags.contains(EventFlags::OUT), WRITE);
    let hung_up = flags.contains(EventFlags::HUP);
    add(hung_up || flags.contains(EventFlags::IN | EventFlags::RDHUP), READ_CLOSED);
    let failed = flags.contains(EventFlags::ERR);
    // For a pipe whose other end is closed, the kernel reports only this.
    let alone = flags == EventFlags::ERR;
    add(hung_up || failed && (alone || flags.contains(EventFlags::OUT)), WRITE_CLOSED);
    add(failed || hung_up, FAILED);
    bits
}
