//! The connections of a child to one database: at most `DBDMax` at a time, kept for later queries.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use runtime::executor::timeout_at;
use runtime::{Load, offload, offload_apart};
use sys::sql::{Rows, Value};
use sys::time::Instant;

use super::connection::{Connection, Plan};
use super::mod_dbd::Failure;

/// A pool. It is empty until a child needs it, so that processes never share a connection.
#[derive(Debug)]
pub(super) struct Pool {
    plan: Plan,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Idle connections, with the time since when; the latest is the last.
    idle: Vec<(Connection, Instant)>,
    /// How many are in use.
    taken: usize,
    waiting: VecDeque<Arc<Mutex<Wait>>>,
}

/// A query that waits for a slot.
#[derive(Debug)]
enum Wait {
    For(Waker),
    Granted,
}

/// The right to use one connection.
struct ConnectionSlot(Arc<Pool>);

impl Pool {
    pub(super) fn new(plan: Plan) -> Pool {
        Pool { plan, state: Mutex::default() }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Queries the database, beside the event loop.
    pub(super) async fn query(
        self: &Arc<Pool>,
        label: String,
        values: Vec<Value>,
        limit: Duration,
    ) -> Result<Rows, Failure> {
        let deadline = Instant::now() + limit;
        let Ok(slot) = timeout_at(deadline, ConnectionSlot::take(self.clone())).await else {
            return Err(Failure::NoConnection("AH02655: Failed to acquire DBD connection from pool!".into()));
        };
        offload(Load::Database, move || slot.0.run(&label, values, deadline)).await
    }

    fn run(&self, label: &str, values: Vec<Value>, deadline: Instant) -> Result<Rows, Failure> {
        let mut connection = match self.kept() {
            Some(connection) => connection,
            None => Connection::open(&self.plan, deadline).map_err(Failure::NoConnection)?,
        };
        let answer = connection.query(label, values, deadline);
        if !matches!(&answer, Some(Err(error)) if error.is_lost) {
            self.keep(connection);
        }
        answer.ok_or(Failure::NoStatement)?.map_err(|error| Failure::Query(error.text))
    }

    /// Opens connections in advance, according to `DBDMin`, in the background.
    pub(super) fn prime(self: &Arc<Pool>, limit: Duration) {
        if self.plan.persist && self.plan.min > 0 {
            let pool = self.clone();
            offload_apart(Load::Database, move || {
                let deadline = Instant::now() + limit;
                for _ in 0..pool.plan.min.min(pool.plan.max) {
                    match Connection::open(&pool.plan, deadline) {
                        Ok(connection) => pool.keep(connection),
                        Err(text) => {
                            runtime::log!("dbd", Error, "{text}");
                            runtime::log!("dbd", Error, "AH00633: failed to initialise");
                            return;
                        }
                    }
                }
            });
        }
    }

    /// Closes idle connections.
    pub(super) fn close(&self) {
        let idle = std::mem::take(&mut self.state().idle);
        drop(idle);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kept connection that is still usable.
    fn kept(&self) -> Option<Connection> {
        loop {
            let (mut connection, _) = self.state().idle.pop()?;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection, and closes those that were idle for too long.
    fn keep(&self, connection: Connection) {
        if !self.plan.persist {
            return;
        }
        let now = Instant::now();
        let mut state = self.state();
        state.idle.push((connection, now));
        let is_old = |since: &Instant| self.plan.expiry.is_some_and(|expiry| now - *since > expiry);
        let spare = state.idle.len().saturating_sub(self.plan.keep);
        let mut old = state.idle.iter().take(spare).take_while(|(_, since)| is_old(since)).count();
        old = old.max(state.idle.len().saturating_sub(self.plan.max));
        let closed: Vec<_> = state.idle.drain(..old).collect();
        drop(state);
        drop(closed);
    }
}

impl ConnectionSlot {
    async fn take(pool: Arc<Pool>) -> ConnectionSlot {
        let mut queued = None;
        {
            let mut state = pool.state();
            if state.taken < pool.plan.max {
                state.taken += 1;
            } else {
                let wait = Arc::new(Mutex::new(Wait::For(Waker::noop().clone())));
                state.waiting.push_back(wait.clone());
                queued = Some(Queued { pool: pool.clone(), wait });
            }
        }
        if let Some(queued) = queued {
            queued.granted().await;
        }
        ConnectionSlot(pool)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        pass_on(&self.0);
    }
}

/// Gives a turn to the first waiting query.
fn pass_on(pool: &Pool) {
    let mut state = pool.state();
    let Some(next) = state.waiting.pop_front() else {
        state.taken -= 1;
        return;
    };
    // While the queue is locked: a query that gives up meanwhile has to see it.
    let before = std::mem::replace(&mut *lock(&next), Wait::Granted);
    drop(state);
    if let Wait::For(waker) = before {
        waker.wake();
    }
}

/// A query's place among those that wait for a slot.
struct Queued {
    pool: Arc<Pool>,
    wait: Arc<Mutex<Wait>>,
}

impl Queued {
    async fn granted(self) {
        poll_fn(|cx| match &mut *lock(&self.wait) {
            Wait::Granted => Poll::Ready(()),
            Wait::For(waker) => {
                waker.clone_from(cx.waker());
                Poll::Pending
            }
        })
        .await;
        // From here on the turn is the caller's.
        *lock(&self.wait) = Wait::For(Waker::noop().clone());
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        let before = state.waiting.len();
        state.waiting.retain(|wait| !Arc::ptr_eq(wait, &self.wait));
        let was_waiting = state.waiting.len() < before;
        drop(state);
        // The request was given a turn that nobody takes any more.
        if !was_waiting && matches!(*lock(&self.wait), Wait::Granted) {
            pass_on(&self.pool);
        }
    }
}

fn lock(wait: &Mutex<Wait>) -> MutexGuard<'_, Wait> {
    wait.lock().unwrap_or_else(PoisonError::into_inner)
}
