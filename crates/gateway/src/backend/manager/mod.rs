//! The process manager: a separate process that owns all backends of a configuration.
//!
//! Each child has connections to it, one for each request that asks for a backend or holds one; whenever a child dies,
//! the manager sees them end. It is single-threaded and waits only in its event loop.

mod lend;
mod start;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use runtime::executor::{Task, sleep, spawn};
use sys::event_loop::EventLoop;
use sys::process::Pid;
use sys::signal::{Signal, SignalFd};
use sys::time::monotonic;
use sys::watch::{Interest, watch};

use super::policy::Reason;
use super::pool::Pool;
use super::stats;
use super::word::LEASE_MAX;
use super::{Class, Version};
use crate::command::expose;
use crate::daemon::Socket;
use crate::gate;

pub use crate::daemon::Users;

/// How long a backend may take to follow an order to end, before it is killed.
const OBEY: Duration = Duration::from_secs(3);
/// The same if the manager itself was ordered to end at once; its parent waits a second for it.
const OBEY_SOON: Duration = Duration::from_millis(500);
/// How often to check whether others need the memory of idle backends; and the same without any.
const PRESSURE: Duration = Duration::from_millis(100);
const CALM: Duration = Duration::from_secs(1);
/// How many classes there may be, how long an unused one is remembered, and how often that is checked.
const CLASSES_MAX: usize = 4096;
const FORGET: Duration = Duration::from_secs(3600);
const FORGET_EACH: Duration = Duration::from_secs(60);
/// How long to wait if there are no descriptors left to accept with.
const PAUSE: Duration = Duration::from_millis(10);
/// How much is read at once, in bytes.
const PIECE: usize = 16 * 1024;

/// The address of the process manager, and the users for its backends.
#[derive(Debug)]
pub struct Manager {
    /// Its socket, for packets.
    pub socket: Socket,
    /// The directory in which the sockets of backends briefly exist: it belongs to the manager's own user.
    pub directory: PathBuf,
    /// The users for its backends.
    pub users: Users,
    /// The classes whose backends start before any request.
    pub standing: Vec<Class>,
}

impl Manager {
    /// Prepares the memory that status pages read. For the parent, before it forks.
    pub fn open(socket: Socket, directory: PathBuf, users: Users, standing: Vec<Class>) -> io::Result<Manager> {
        stats::open()?;
        Ok(Manager { socket, directory, users, standing })
    }
}

/// The manager's state.
#[derive(Debug, Default)]
struct State {
    pools: Vec<Pool>,
    /// The pools by the bytes of their classes.
    by_class: HashMap<Vec<u8>, usize>,
    /// The places of forgotten pools, free for new ones.
    forgotten: Vec<usize>,
    /// The last number given to a backend, a request or a lease.
    last: u64,
    /// No more backends are started.
    leaving: bool,
}

/// The state that its tasks share.
struct Shared {
    state: Mutex<State>,
    directory: PathBuf,
    users: Users,
    processors: usize,
    /// Independent tasks, until they end.
    tasks: Mutex<HashMap<u64, Task>>,
}

/// Serves until an order comes: `SIGTERM` ends it together with all backends; any other order makes it end when no
/// child asks any more.
pub fn serve(manager: &Manager, orders: &SignalFd) -> io::Result<()> {
    expose(Pid::own());
    EventLoop::new(|| ())?.run(accept(manager, orders))?
}

async fn accept(manager: &Manager, orders: &SignalFd) -> io::Result<()> {
    let shared = Arc::new(Shared {
        // No earlier manager has used these numbers: children may remember its leases.
        state: Mutex::new(State { last: first_number(), ..State::default() }),
        directory: manager.directory.clone(),
        users: manager.users.clone(),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        tasks: Mutex::default(),
    });
    Shared::go(&shared, relieve(shared.clone()));
    for class in &manager.standing {
        let known = shared.state().pool(&class.encode(), class.program.version);
        known.into_iter().for_each(|index| shared.settle(index));
    }
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let listener = watch(manager.socket.listener(), Interest::READABLE)?;
    let at_once = loop {
        let (ordered, came) = poll_fn(|cx| match (order.poll_read_ready(cx), listener.poll_read_ready(cx)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            some => Poll::Ready(some),
        })
        .await;
        if let Poll::Ready(ready) = ordered {
            match orders.read()? {
                Some((signal, _)) => break signal == Signal::TERM,
                None => ready?.clear_ready(),
            }
        }
        if let Poll::Ready(ready) = came {
            match sys::local::accept(listener.get_ref()) {
                Ok(connection) => Shared::go(&shared, lend::attend(shared.clone(), connection)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready?.clear_ready(),
                // New connections wait meanwhile.
                Err(_) => sleep(PAUSE).await,
            }
        }
    };
    shared.leave(if at_once { OBEY_SOON } else { OBEY }).await;
    Ok(())
}

/// The time since the machine started, in µs: more than there are requests.
fn first_number() -> u64 {
    u64::try_from(monotonic().as_micros()).unwrap_or_default() & LEASE_MAX
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task on its own.
    fn go(shared: &Arc<Shared>, task: impl Future<Output = ()> + Send + 'static) {
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
    fn settle(self: &Arc<Shared>, index: usize) {
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
            decision.end.into_iter().for_each(|(place, reason)| pool.end(numbers[place], reason));
        }
        pool.grant();
        if leaving {
            return pool.show();
        }
        pool.measure(self.processors);
        let (decision, numbers) = pool.decide(of_all, self.processors);
        for (place, reason) in decision.end {
            pool.end(numbers[place], reason);
        }
        let is_blocked = pool.is_blocked(of_all);
        pool.starting += decision.start;
        let alarm = decision.again.filter(|at| pool.alarm.is_none_or(|set| *at < set));
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

    /// The same after a backend has become free or has ended: other pools of the module may have waited for that.
    fn settle_all(self: &Arc<Shared>, index: usize) {
        self.settle(index);
        let others = self.state().waiting_beside(index);
        others.into_iter().for_each(|other| self.settle(other));
    }

    /// Ends all backends, and waits for them, but not for long.
    async fn leave(&self, patience: Duration) {
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
    fn number(&mut self) -> u64 {
        self.last = (self.last + 1) & LEASE_MAX;
        self.last
    }

    /// Takes back all leases that children keep.
    fn reclaim_all(&mut self) {
        for pool in &mut self.pools {
            pool.reclaim();
        }
    }

    /// Ends the backend of the same module that has been idle the longest, to make room for requests of this pool.
    fn make_room(&mut self, index: usize) {
        let wanted = self.pools[index].waiting();
        let module = self.pools[index].class.module.clone();
        let others = || self.pools.iter().enumerate().filter(|(_, pool)| pool.class.module == module);
        if others().map(|(_, pool)| pool.ending()).sum::<usize>() >= wanted {
            return;
        }
        for index in others().map(|(index, _)| index).collect::<Vec<_>>() {
            self.pools[index].reclaim();
        }
        let others = || self.pools.iter().enumerate().filter(|(_, pool)| pool.class.module == module);
        let longest = others().filter_map(|(index, pool)| pool.longest_idle().map(|idle| (idle, index))).min();
        if let Some(((_, number), index)) = longest {
            self.pools[index].end(number, Reason::Room);
        }
    }

    /// The pools of the same module in which requests wait.
    fn waiting_beside(&self, index: usize) -> Vec<usize> {
        let class = &self.pools[index].class;
        if class.settings.max_of_all == u64::MAX {
            return Vec::new();
        }
        let module = &class.module;
        let waits = |pool: &Pool| pool.class.module == *module && pool.waiting() > 0;
        (0..self.pools.len()).filter(|other| *other != index && waits(&self.pools[*other])).collect()
    }

    /// The pool of a class, made at its first request.
    fn pool(&mut self, bytes: &[u8], version: Version) -> Option<usize> {
        let known = self.by_class.get(bytes).copied();
        let index = known.or_else(|| self.add(bytes))?;
        // Some requests do not know the version.
        if version != Version::default() {
            self.pools[index].set_version(version);
        }
        Some(index)
    }

    fn add(&mut self, bytes: &[u8]) -> Option<usize> {
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
    fn forget_unused(&mut self) {
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

/// Ends idle backends, one after the other, as long as requests wait for room; and forgets unused pools.
async fn relieve(shared: Arc<Shared>) {
    let mut forgot = Instant::now();
    loop {
        if forgot.elapsed() >= FORGET_EACH {
            shared.state().forget_unused();
            forgot = Instant::now();
        }
        let has_any = shared.state().pools.iter().any(|pool| pool.backends().next().is_some());
        sleep(if has_any { PRESSURE } else { CALM }).await;
        if !gate::is_short() {
            continue;
        }
        let mut state = shared.state();
        state.reclaim_all();
        let idle = state.pools.iter().enumerate();
        let longest = idle.filter_map(|(index, pool)| pool.longest_idle().map(|idle| (idle, index))).min();
        if let Some(((_, number), index)) = longest {
            state.pools[index].end(number, Reason::Pressure);
        }
    }
}
