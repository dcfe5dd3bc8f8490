//! The most connections to a server that a child has in use at a time. Requests that find no free one wait for their turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::executor::{Awaited, timeout_at};
use sys::time::Instant;

/// How many connections to a server a child uses at most.
#[derive(Debug)]
pub struct Limit {
    most: usize,
    state: Mutex<State>,
}

/// What a child does with the server. Each process has its own: the parent makes no requests.
#[derive(Debug, Default)]
struct State {
    /// The connections in use.
    used: usize,
    /// Requests that wait, the first one first. There are no more of them than the child has requests.
    queue: VecDeque<(u64, Turn)>,
    /// The number of the next one.
    next: u64,
}

/// It is there once a request that was waiting may go on.
type Turn = Awaited<()>;

impl Limit {
    /// A limit of so many connections: at least one.
    pub fn new(most: usize) -> Arc<Limit> {
        Arc::new(Limit { most: most.max(1), state: Mutex::default() })
    }

    /// Waits until a connection may be used; first come, first served. `None`: that has taken until the deadline.
    pub async fn permit(self: &Arc<Limit>, deadline: Instant) -> Option<Permit> {
        let waiting = match self.enter() {
            Ok(permit) => return Some(permit),
            Err(waiting) => waiting,
        };
        timeout_at(deadline, waiting.turn.wait()).await.ok()?;
        waiting.into_permit()
    }

    /// Uses a connection, or queues.
    fn enter(self: &Arc<Limit>) -> Result<Permit, Waiting> {
        let mut state = self.state();
        if state.used < self.most {
            state.used += 1;
            return Ok(Permit(self.clone()));
        }
        let (number, turn) = (state.next, Turn::default());
        state.next += 1;
        state.queue.push_back((number, turn.clone()));
        Err(Waiting { limit: self.clone(), number, turn, is_over: false })
    }

    /// A connection is free: the next one in the queue has it.
    fn free(&self, state: &mut State) {
        match state.queue.pop_front() {
            Some((_, turn)) => turn.set(()),
            None => state.used -= 1,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to use a connection, until it is dropped.
#[derive(Debug)]
pub struct Permit(Arc<Limit>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.free(&mut self.0.state());
    }
}

/// A request in the queue.
struct Waiting {
    limit: Arc<Limit>,
    number: u64,
    turn: Turn,
    /// It has its permit.
    is_over: bool,
}

impl Waiting {
    /// Its permit, once its turn has come.
    fn into_permit(mut self) -> Option<Permit> {
        self.turn.get()?;
        self.is_over = true;
        Some(Permit(self.limit.clone()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.limit.state();
        match state.queue.iter().position(|(number, _)| *number == self.number) {
            Some(at) => drop(state.queue.remove(at)),
            // Its turn came when nobody waited for it any more: it is the next one's.
            None => self.limit.free(&mut state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served() {
        let limit = Limit::new(2);
        let queued = || limit.enter().expect_err("no connection is free");
        let (first, second) = (limit.enter().ok(), limit.enter().ok());
        assert!(first.is_some() && second.is_some());
        let (one, other, third) = (queued(), queued(), queued());
        assert!(one.turn.get().is_none());
        drop(first);
        assert!(one.turn.get().is_some() && other.turn.get().is_none(), "the first one in the queue is next");
        drop(one);
        assert!(other.turn.get().is_some(), "it went away, and the next one has its turn");
        let other = other.into_permit();
        assert!(other.is_some() && third.turn.get().is_none());
        drop(third);
        drop((second, other));
        let state = limit.state();
        assert_eq!((state.used, state.queue.len()), (0, 0), "nothing is left over");
    }
}
