//! The process manager: a separate process that owns all backends of a configuration.
//!
//! Each child has connections to it, one for each request that asks for a backend or holds one; whenever a child dies,
//! the manager sees them end. It is single-threaded and waits only in its event loop.

mod lend;
mod shared;
mod start;

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use runtime::executor::sleep;
use sys::event_loop::EventLoop;
use sys::signal::Signal;
use sys::signal_fd::SignalFd;
use sys::time::Instant;
use sys::time::monotonic;
use sys::watch::{Interest, watch};

use super::class::Class;
use super::lease_state::LEASE_MAX;
use super::reason::Reason;
use super::stats;
use crate::daemon::Socket;
use crate::gate;

use shared::{PAUSE, PRESSURE, Shared, State, TERM_GRACE};

pub use crate::daemon::Users;

/// How long a backend may take to end if the manager itself was ordered to end at once; its parent waits a second for
/// it.
const QUICK_TERM_GRACE: Duration = Duration::from_millis(500);
/// How often to check for idle backends without any backend.
const CALM: Duration = Duration::from_secs(1);
/// How often to look for unused classes.
const FORGET_EACH: Duration = Duration::from_secs(60);

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

/// Serves until an order comes: `SIGTERM` ends it together with all backends; any other order makes it end when no
/// child asks any more.
pub fn serve(manager: &Manager, orders: &SignalFd) -> io::Result<()> {
    EventLoop::new(|| ())?.run(accept(manager, orders))?
}

async fn accept(manager: &Manager, orders: &SignalFd) -> io::Result<()> {
    let shared = Arc::new(Shared {
        // No earlier manager has used these numbers: children may remember its leases.
        state: Mutex::new(State { last: first_number(), ..State::default() }),
        directory: manager.directory.clone(),
        users: manager.users.clone(),
        processors: sys::affinity::processors(),
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
    shared.leave(if at_once { QUICK_TERM_GRACE } else { TERM_GRACE }).await;
    Ok(())
}

/// The time since the machine started, in µs: more than there are requests.
fn first_number() -> u64 {
    u64::try_from(monotonic().as_micros()).unwrap_or_default() & LEASE_MAX
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
