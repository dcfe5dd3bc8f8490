//! The connections of a child, and the list of those that the listener has to poll.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use runtime::Connection;
use runtime::scoreboard::{Gauge, Workers};
use sys::event_loop::WakeState;

use super::{ConnectionState, PollOutcome, Task, Where};
use crate::stages::{self, Open};

/// How many requests of one look for events the listener serves itself, whatever the number of processors: below this,
/// waking another thread costs more than it gains.
const OWN_SHARE: usize = 8;
/// For how many connections the list keeps its memory while it is empty.
const KEPT: usize = 64;

/// The connections of a child, and the list of those that the listener has to poll.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// Counts the connections that are being served without a worker now.
    workers: Option<&'static Workers>,
    ready: Mutex<Ready>,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) tasks: VecDeque<Arc<Task>>,
    /// The listener's waker, while it waits for connections to poll.
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) tasks: BTreeMap<u64, Weak<Task>>,
    next: u64,
}

impl Connections {
    pub(super) fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new connection; the listener finds it ready.
    pub(crate) fn add(self: &Arc<Self>, connection: (Box<dyn Connection>, Open)) {
        let state = Arc::new(ConnectionState(AtomicU8::new(Where::Parked as u8)));
        let life = Mutex::new(Some(Box::pin(stages::run(connection, state.clone())) as Pin<Box<_>>));
        let task = {
            let mut all = self.all();
            let number = all.next;
            all.next += 1;
            let wake_state = WakeState::ready();
            let task = Arc::new(Task {
                life,
                state,
                wake_state,
                released: AtomicBool::new(false),
                is_for_any: AtomicBool::new(false),
                number,
                connections: self.clone(),
            });
            all.tasks.insert(number, Arc::downgrade(&task));
            task
        };
        self.push(task);
    }

    /// For a child with these rows.
    pub(crate) fn of(workers: &'static Workers) -> Connections {
        Connections { workers: Some(workers), ..Connections::default() }
    }

    /// Counts one more, or one fewer, connection that is being served without a worker.
    pub(super) fn count_released(&self, more: bool) {
        match &self.workers {
            Some(workers) if more => workers.enter(Gauge::Released),
            Some(workers) => workers.leave(Gauge::Released),
            None => {}
        }
    }

    pub(super) fn push(&self, task: Arc<Task>) {
        let waker = {
            let mut ready = self.ready();
            ready.tasks.push_back(task);
            ready.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready when there are connections to poll.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut ready = self.ready();
        if !ready.tasks.is_empty() {
            return Poll::Ready(());
        }
        ready.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Polls all that are ready now, and serves a share of them to the end; returns those that need a worker.
    /// `hand_over` first gets those that other threads should serve.
    pub(crate) fn poll_all(&self, processors: usize, hand_over: impl FnOnce(Vec<Arc<Task>>)) -> Vec<Arc<Task>> {
        let mut tasks = std::mem::take(&mut self.ready().tasks);
        let own = (tasks.len() / processors).max(OWN_SHARE).min(tasks.len());
        let others: Vec<_> =
            tasks.split_off(own).into_iter().filter(|task| task.waits() == PollOutcome::Serving).collect();
        if !others.is_empty() {
            hand_over(others);
        }
        let needs_worker =
            |task: &Arc<Task>| task.waits() == PollOutcome::Serving && task.serves_briefly() == PollOutcome::Serving;
        let rest = tasks.drain(..).filter(needs_worker).collect();
        let mut ready = self.ready();
        if ready.tasks.is_empty() {
            // The memory of the list is for those that come next.
            tasks.shrink_to(KEPT);
            ready.tasks = tasks;
        }
        rest
    }

    /// Closes some connections that wait for a request: those already waiting at the last look, the oldest first. Returns
    /// how many.
    pub(crate) fn close_idle(&self, most: usize) -> usize {
        let tasks: Vec<Arc<Task>> = self.all().tasks.values().filter_map(Weak::upgrade).collect();
        let mut left = most;
        for task in tasks {
            if left > 0 && task.state.change(Where::Idle, Where::Unwanted) {
                left -= 1;
                task.wake();
            } else {
                task.state.change(Where::KeptAlive, Where::Idle);
            }
        }
        most - left
    }
}
