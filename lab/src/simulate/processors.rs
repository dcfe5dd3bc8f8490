//! The processors of a node: all work shares them equally.
//!
//! With at most as many jobs as processors each job has one to itself; with more, each gets the same part. A virtual clock shows
//! how far a job has come that began at zero and is not yet done. It slows down when jobs share, so a job that starts at virtual
//! time v and takes w is done at v + w, whatever happens meanwhile.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::request::{Nanos, Request};

/// Virtual time is counted in parts of a nanosecond, so that rounding does not add up.
const PARTS: u64 = 256;

/// The processors of a node, and what they work on.
#[derive(Debug)]
pub(super) struct Processors {
    count: u64,
    clock: u64,
    jobs: BinaryHeap<Due>,
}

/// A request that is due at a time. The earliest is the greatest, as a heap wants it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) at: u64,
    pub(super) request: Request,
}

impl Processors {
    pub(super) fn new(count: u64) -> Self {
        Self { count, clock: 0, jobs: BinaryHeap::new() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// How many are at work.
    pub(super) fn busy(&self) -> u64 {
        self.jobs().min(self.count)
    }

    /// How many jobs there are.
    pub(super) fn jobs(&self) -> u64 {
        self.jobs.len() as u64
    }

    /// Works for this long. No job is done before the end of that time.
    pub(super) fn advance(&mut self, time: Nanos) {
        let jobs = self.jobs();
        self.clock += if jobs > self.count { time * PARTS * self.count / jobs } else { time * PARTS };
    }

    pub(super) fn start(&mut self, request: Request) {
        self.jobs.push(Due { at: self.clock.saturating_add(request.work.max(1).saturating_mul(PARTS)), request });
    }

    /// In what time the next job is done, if no other starts.
    pub(super) fn next(&self) -> Option<Nanos> {
        let left = self.jobs.peek()?.at.saturating_sub(self.clock);
        let jobs = self.jobs();
        Some(if jobs > self.count {
            left.saturating_mul(jobs).div_ceil(self.count * PARTS)
        } else {
            left.div_ceil(PARTS)
        })
    }

    /// A job that is done.
    pub(super) fn take_done(&mut self) -> Option<Request> {
        self.jobs.peek().filter(|job| job.at <= self.clock)?;
        self.jobs.pop().map(|job| job.request)
    }

    /// Gives up all jobs.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Request> {
        self.jobs.drain().map(|job| job.request)
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

#[cfg(test)]
mod tests {
    use super::super::request::Kind;
    use super::*;

    fn job(work: Nanos) -> Request {
        Request { kind: Kind::File, born: 0, work, pause: 0, again: false }
    }

    #[test]
    fn jobs_share_the_processors() {
        let mut processors = Processors::new(2);
        processors.start(job(300));
        processors.start(job(300));
        assert_eq!((processors.next(), processors.busy()), (Some(300), 2), "each has one to itself");
        processors.advance(100);
        // Two processors for three: 200 of each job are left, which takes 300; the third has 100 then.
        processors.start(job(300));
        assert_eq!((processors.next(), processors.busy()), (Some(300), 2));
        processors.advance(299);
        assert!(processors.take_done().is_none());
        processors.advance(processors.next().unwrap());
        assert!(processors.take_done().is_some() && processors.take_done().is_some());
        assert!(processors.take_done().is_none());
        assert_eq!(processors.next(), Some(100));
    }
}
