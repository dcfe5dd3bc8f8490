//! The manager's state, which its tasks share, and the decisions about all pools.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::executor::{Task, sleep, spawn};
use sys::process::Pid;
use sys::signal::Signal;
use sys::time::Instant;

use super::start;
use crate::backend::class::{Class, Version};
use crate::backend::lease_state::LEASE_MAX;
use crate::backend::pool::Pool;
use crate::backend::reason::Reason;
use crate::daemon::Users;

/// How long a backend may take to follow an order to end, before it is killed.
pub(super) const TERM_GRACE: Duration = Duration::from_secs(3);
/// How often to check whether others need the memory of idle backends.
pub(super) const PRESSURE: Duration = Duration::from_millis(100);
/// How many classes there may be, and how long an unused one is remembered.
const CLASSES_MAX: usize = 4096;
const FORGET: Duration = Duration::from_secs(3600);
/// How long to wait if there are no descriptors left to accept with, and between checks whether all backends have
/// ended.
pub(super) const PAUSE: Duration = Duration::from_millis(10);
/// How much is read at once, in bytes.
pub(super) const PIECE: usize = 16 * 1024;

/// The manager's state.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pools: Vec<Pool>,
    /// The pools by the bytes of their classes.
    pub(super) by_class: HashMap<Vec<u8>, usize>,
    /// The places of forgotten pools, free for new ones.
    pub(super) forgotten: Vec<usize>,
    /// The last number given to a backend, a request or a lease.
    pub(super) last: u64,
    /// No more backends are started.
    pub(super) leaving: bool,
}

/// The state that its tasks share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) directory: PathBuf,
    pub(super) users: Users,
    pub(super) processors: usize,
    /// Independent tasks, until they end.
    pub(super) tasks: Mutex<HashMap<u64, Task>>,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task on its own.
    pub(super) fn go(shared: &Arc<Shared>, task: impl Future<Output = ()> + Send + 'static) {
        let number = shared.state().number();
        let owner = Arc::downgrade(shared);
        let mut tasks = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.insert(
            number,
            spawn(async move {
                task.await;
                if let Some(shared) = owner.upgrade() {
                    let ended = shared.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                    drop(ended);
                }
            }),
        );
    }

    /// Gives free backends to waiting requests, and starts and ends backends as the policy decides.
    pub(super) fn settle(self: &Arc<Shared>, index: usize) {
        let mut state = self.state();
        let of_all: u64 = match state.pools[index].class.settings.max_of_all {
            u64::MAX => 0,
            // Pools of one module count together.
            _ => {
                let module = state.pools[index].class.module.clone();
                state.pools.iter().filter(|pool| pool.class.module == module).map(Pool::count).sum()
            }
        };
        let leaving = state.leaving;
        let pool = &mut state.pools[index];
        if !leaving {
            // A backend that has reached its limits gets no further request, however many wait.
            pool.reclaim_for_waiting();
            let (decision, numbers) = pool.decide(of_all, self.processors);
            decision.end.into_iter().for_each(|(place, reason)| pool.retire(numbers[place], reason));
        }
        pool.grant();
        pool.recall_for_poorer();
        if leaving {
            return pool.show();
        }
        pool.measure(self.processors);
        let (decision, numbers) = pool.decide(of_all, self.processors);
        for (place, reason) in decision.end {
            pool.retire(numbers[place], reason);
        }
        let is_blocked = pool.is_blocked(of_all);
        pool.starting += decision.start;
        let next_check = [decision.next_check, pool.watches_at()].into_iter().flatten().min();
        let alarm = next_check.filter(|at| pool.alarm.is_none_or(|set| *at < set));
        if let Some(at) = alarm {
            pool.alarm = Some(at);
        }
        let now = pool.now();
        pool.show();
        if is_blocked {
            state.make_room(index);
        }
        drop(state);
        for _ in 0..decision.start {
            Shared::go(self, start::start(self.clone(), index));
        }
        if let Some(at) = alarm {
            let shared = self.clone();
            Shared::go(self, async move {
                sleep(at.saturating_sub(now)).await;
                shared.state().pools[index].alarm.take_if(|set| *set == at);
                shared.settle(index);
            });
        }
    }

    /// Settles this pool, and then the others of its module: they may have waited for a backend to become free or to
    /// end.
    pub(super) fn settle_all(self: &Arc<Shared>, index: usize) {
        self.settle(index);
        let others = self.state().waiting_beside(index);
        others.into_iter().for_each(|other| self.settle(other));
    }

    /// Ends all backends, and waits for them, but not for long.
    pub(super) async fn leave(&self, patience: Duration) {
        let all = |shared: &Shared| -> Vec<(usize, u64, Pid)> {
            let state = shared.state();
            let numbered = state.pools.iter().enumerate();
            numbered.flat_map(|(index, pool)| pool.backends().map(move |one| (index, one.number, one.pid))).collect()
        };
        {
            let mut state = self.state();
            state.leaving = true;
            state.reclaim_all();
        }
        for (index, number, _) in all(self) {
            self.state().pools[index].end(number, Reason::Own);
        }
        let end = Instant::now() + patience;
        while !all(self).is_empty() && Instant::now() < end {
            sleep(PAUSE).await;
        }
        for (_, _, pid) in all(self) {
            let _ = pid.kill_group(Signal::KILL);
        }
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        drop(tasks);
    }
}

impl State {
    pub(super) fn number(&mut self) -> u64 {
        self.last = (self.last + 1) & LEASE_MAX;
        self.last
    }

    /// Takes back all leases that children keep.
    pub(super) fn reclaim_all(&mut self) {
        self.pools.iter_mut().for_each(Pool::reclaim_all);
    }

    /// Ends the backend of the same module that has been idle the longest, to make room for requests of this pool.
    pub(super) fn make_room(&mut self, index: usize) {
        let wanted = self.pools[index].waiting();
        let module = self.pools[index].class.module.clone();
        let others = || self.pools.iter().enumerate().filter(|(_, pool)| pool.class.module == module);
        if others().map(|(_, pool)| pool.ending()).sum::<usize>() >= wanted {
            return;
        }
        for index in others().map(|(index, _)| index).collect::<Vec<_>>() {
            self.pools[index].reclaim_all();
        }
        let others = || self.pools.iter().enumerate().filter(|(_, pool)| pool.class.module == module);
        let longest = others().filter_map(|(index, pool)| pool.longest_idle().map(|idle| (idle, index))).min();
        if let Some(((_, number), index)) = longest {
            self.pools[index].end(number, Reason::Room);
        }
    }

    /// The pools of the same module in which requests wait.
    pub(super) fn waiting_beside(&self, index: usize) -> Vec<usize> {
        let class = &self.pools[index].class;
        if class.settings.max_of_all == u64::MAX {
            return Vec::new();
        }
        let module = &class.module;
        let waits = |pool: &Pool| pool.class.module == *module && pool.waiting() > 0;
        (0..self.pools.len()).filter(|other| *other != index && waits(&self.pools[*other])).collect()
    }

    /// The pool of a class, made at its first request.
    pub(super) fn pool(&mut self, bytes: &[u8], version: Version) -> Option<usize> {
        let known = self.by_class.get(bytes).copied();
        let index = known.or_else(|| self.add(bytes))?;
        // Some requests do not know the version.
        if version != Version::default() {
            self.pools[index].set_version(version);
        }
        Some(index)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) -> Option<usize> {
        let class = Class::decode(bytes)?;
        if self.by_class.len() >= CLASSES_MAX {
            runtime::log!("core", Error, "there are {CLASSES_MAX} pools of backends, and no further ones are made");
            return None;
        }
        let index = match self.forgotten.pop() {
            // Tasks that still wait for something of the old pool know it by numbers that no other pool has.
            Some(index) => {
                self.pools[index] = Pool::new(class);
                index
            }
            None => {
                self.pools.push(Pool::new(class));
                self.pools.len() - 1
            }
        };
        self.by_class.insert(bytes.to_vec(), index);
        Some(index)
    }

    /// Forgets unused pools, such as those of deleted scripts.
    pub(super) fn forget_unused(&mut self) {
        let State { pools, by_class, forgotten, .. } = self;
        by_class.retain(|_, index| {
            let is_unused = pools[*index].is_unused_for(FORGET);
            if is_unused {
                pools[*index].hide();
                forgotten.push(*index);
            }
            !is_unused
        });
    }
}
