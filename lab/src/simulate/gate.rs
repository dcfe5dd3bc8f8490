//! The gate of a node: a script starts when there is memory for it, and the others wait in order (docs/scripts.md).

use std::collections::VecDeque;

use super::request::{Nanos, Request, SECOND};

/// The gate's rules, which are the same on all nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The memory that a script needs, in bytes.
    pub(super) need: u64,
    /// How many scripts may run at once, however little they need.
    pub(super) most: u64,
    /// How many requests may wait (`AdmissionQueue`).
    pub(super) queue: usize,
    /// How long a request may wait (`AdmissionTimeout`), and a client.
    pub(super) patience: Nanos,
}

/// After this long a script is known before its first run has ended.
const LONG: Nanos = SECOND;

/// An unknown script counts as this part of the memory.
const UNKNOWN: u64 = 4;

/// The gate of a node.
#[derive(Debug)]
pub(super) struct Gate {
    rules: Rules,
    /// The memory for scripts, in bytes.
    room: u64,
    running: u64,
    waiting: VecDeque<Request>,
    /// When the first script started, and whether its need is known since.
    first: Option<Nanos>,
    is_known: bool,
}

impl Gate {
    pub(super) fn new(rules: Rules, room: u64) -> Self {
        Self { rules, room, running: 0, waiting: VecDeque::new(), first: None, is_known: false }
    }

    pub(super) fn running(&self) -> u64 {
        self.running
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// How many scripts may run at once. One that needs more memory than there is runs alone.
    pub(super) fn places(&self) -> u64 {
        (self.room / self.rules.need.max(1)).min(self.rules.most).max(1)
    }

    /// The share of the memory that is free, from 0 to 1.
    pub(super) fn free(&self) -> f64 {
        let need = if self.is_known { self.rules.need } else { self.room / UNKNOWN };
        self.room.saturating_sub(self.running * need) as f64 / self.room.max(1) as f64
    }

    /// Takes a place, if there is one and nobody waits for it.
    pub(super) fn enters(&mut self, now: Nanos) -> bool {
        let enters = self.has_place() && self.waiting.is_empty();
        if enters {
            self.run(now);
        }
        enters
    }

    /// Lets a request wait. Returns whether the queue has room for it.
    pub(super) fn queue(&mut self, request: Request) -> bool {
        let has_room = self.waiting.len() < self.rules.queue;
        if has_room {
            self.waiting.push_back(request);
        }
        has_room
    }

    /// A script has ended.
    pub(super) fn leave(&mut self) {
        self.running -= 1;
        self.is_known = true;
    }

    /// The next request that has waited too long.
    pub(super) fn take_late(&mut self, now: Nanos) -> Option<Request> {
        self.waiting.front().filter(|first| now - first.born >= self.rules.patience)?;
        self.waiting.pop_front()
    }

    /// The next request that may run, which takes its place.
    pub(super) fn admit(&mut self, now: Nanos) -> Option<Request> {
        if !self.has_place() {
            return None;
        }
        let next = self.waiting.pop_front();
        if next.is_some() {
            self.run(now);
        }
        next
    }

    /// Gives up all requests that wait.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Request> {
        self.waiting.drain(..)
    }

    /// What a look at the running scripts shows: one that has run for a while is known.
    pub(super) fn look(&mut self, now: Nanos) {
        self.is_known |= self.first.is_some_and(|first| now - first >= LONG);
    }

    fn has_place(&self) -> bool {
        // A script without a known need runs alone.
        self.running < if self.is_known { self.places() } else { 1 }
    }

    fn run(&mut self, now: Nanos) {
        self.running += 1;
        self.first.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::Kind;
    use super::*;

    const RULES: Rules = Rules { need: 200, most: 320, queue: 2, patience: 60 * SECOND };

    fn came(born: Nanos) -> Request {
        Request { kind: Kind::Script, born, work: 1, pause: 0, again: false }
    }

    #[test]
    fn memory_decides_how_many_run_and_the_others_wait_in_order() {
        let mut gate = Gate::new(RULES, 1000);
        assert_eq!((gate.places(), gate.enters(0), gate.enters(0)), (5, true, false), "its first run is alone");
        assert_eq!(gate.free(), 0.75);
        gate.leave();
        assert!((0..5).all(|_| gate.enters(0)) && !gate.enters(0));
        assert!(gate.queue(came(1)) && gate.queue(came(2)) && !gate.queue(came(3)));
        assert!(gate.admit(0).is_none() && gate.free() == 0.0);
        gate.leave();
        assert!(!gate.enters(0), "others wait");
        assert_eq!(gate.admit(0).map(|request| request.born), Some(1));
        assert_eq!(gate.take_late(60 * SECOND + 2).map(|request| request.born), Some(2));
    }

    #[test]
    fn a_script_is_known_after_a_second() {
        let mut gate = Gate::new(RULES, 1000);
        assert!(gate.enters(5) && !gate.enters(5));
        gate.look(SECOND + 4);
        assert!(!gate.enters(SECOND));
        gate.look(SECOND + 5);
        assert!(gate.enters(SECOND));
    }

    #[test]
    fn a_script_that_fits_nowhere_runs_alone() {
        let mut gate = Gate::new(RULES, 100);
        assert!(gate.enters(0) && !gate.enters(0));
    }
}
