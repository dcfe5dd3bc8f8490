//! event: threads serve requests; connections that only wait for their clients are parked with the listener.
//!
//! A worker keeps a request that waits or computes until its response is written; the listener itself serves a request
//! that can be answered at once. Everything that depends on the client alone costs no worker: the rest of a head, the
//! rest of a response, the next request, the end of the connection. Neither does a request that waits for its turn to
//! run a script.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use runtime::Service;
use runtime::executor::timeout;
use runtime::scoreboard::{Gauge, Rows, Workers};
use sys::event_loop::{Entered, Handle};
use sys::time::Instant;

use crate::child::Child;
use crate::listener::{self, Dispatcher, MAKE_ROOM};
use crate::mpm::{LogMessages, Mpm, SizingMessages};
use crate::parked::{Connections, PollOutcome, Task};
use crate::plan::explain::ProcessModel;
use crate::plan::{self, threaded};
use crate::policy::Counts;
use crate::thread_pool::{self, Sleeper, ThreadPool, Work};
use crate::{stages, tables};

/// How long requests may wait while the running workers make no progress, before one more is woken.
const PATIENCE: Duration = Duration::from_millis(1);

/// `mpm_event`.
pub(crate) static EVENT: Mpm = Mpm {
    info: &tables::EVENT,
    messages: LogMessages {
        configured: "AH00489: ",
        built: "AH00490: ",
        terminated: "AH00491: caught SIGTERM, shutting down",
        graceful_stop: "AH00492: caught SIGWINCH, shutting down gracefully",
        graceful: "AH00493: SIGUSR1 received.  Doing graceful restart",
        restart: "AH00494: SIGHUP received.  Attempting to restart",
        cannot_fork: "AH00481: fork: Unable to fork new process",
        sizing: Some(SizingMessages {
            limit_reached: "AH00484: server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
            limit_near: Some(
                "AH10159: server is within MinSpareThreads of MaxRequestWorkers, consider raising the MaxRequestWorkers \
                         setting",
            ),
            busy: |_rate, spawned, Counts { idle, children, .. }| {
                format!(
                    "AH00486: server seems busy, (you may need to increase StartServers, ThreadsPerChild or \
                     Min/MaxSpareThreads), spawning {spawned} children, there are around {idle} idle threads, {children} active \
                     children"
                )
            },
        }),
    },
    plan: |settings, when| threaded(&plan::EVENT, tables::EVENT.log_name(), settings, when),
    kind: ProcessModel::Async,
    rows: Rows::OfThreads,
    waiting_holds: false,
    serve,
};

fn serve(child: Child) -> io::Result<()> {
    let mut event_loop = listener::event_loop(child.service)?;
    let dispatcher = Arc::new(Requests {
        service: child.service,
        workers: child.workers,
        // A request mostly computes rather than waits.
        pool: ThreadPool::new(child.plan.workers, sys::affinity::cpus()),
        processors: sys::affinity::cpus(),
        connections: Arc::new(Connections::of(child.workers)),
        handle: event_loop.handle(),
        threads: child.plan.workers,
        async_factor: child.plan.async_factor,
    });
    thread_pool::start(&dispatcher, child.plan.stack, child.log_name)?;
    dispatcher.handle.spawn(dispatcher.clone().attend());
    let ended = event_loop.run(listener::live(child, dispatcher));
    // The process is about to end, but until then workers may poll descriptors that are registered there.
    std::mem::forget(event_loop);
    ended?
}

struct Requests {
    service: &'static dyn Service,
    workers: &'static Workers,
    pool: ThreadPool<Arc<Task>>,
    connections: Arc<Connections>,
    /// The listener's event loop.
    handle: Handle,
    processors: usize,
    threads: usize,
    async_factor: usize,
}

impl Requests {
    /// Polls parked connections that have had an event, and passes those with a request to the workers.
    async fn attend(self: Arc<Self>) {
        let mut standing: Option<(u64, Instant)> = None;
        loop {
            let ready = poll_fn(|cx| self.connections.poll_ready(cx));
            match self.pool.standing() {
                None => {
                    standing = None;
                    ready.await;
                }
                Some(taken) => {
                    let since = match standing {
                        Some((before, since)) if before == taken => since,
                        _ => Instant::now(),
                    };
                    standing = Some((taken, since));
                    if since.elapsed() >= PATIENCE {
                        self.pool.reinforce();
                        standing = None;
                    }
                    let _ = timeout(PATIENCE, ready).await;
                }
            }
            let push = |tasks: Vec<Arc<Task>>| self.pool.push(tasks.into_iter());
            let serving = self.connections.poll_all(self.processors, push);
            if !serving.is_empty() {
                self.pool.push(serving.into_iter());
            }
            self.pool.tell_of_room(|| self.room());
        }
    }

    /// Connections that count: not those that are only closing, nor those whose requests wait without a worker.
    fn counting(&self) -> usize {
        let others = self.workers.count_of(Gauge::Closing) + self.workers.count_of(Gauge::Released);
        usize::try_from(self.workers.connections().saturating_sub(others)).unwrap_or(usize::MAX)
    }

    /// How many connections there may be.
    fn limit(&self) -> usize {
        self.threads + self.pool.idle() * self.async_factor / 16
    }
}

impl Dispatcher for Requests {
    fn start(&self, socket: OwnedFd, peer: SocketAddr) {
        self.connections.add(stages::connect(self.service, self.workers, socket, peer));
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        self.pool.poll_room(cx, || self.room())
    }

    /// Closes connections that wait for a request that may never come, or never end, to make room for those that have one.
    fn insist(&self) {
        let too_many = (self.counting() + 1).saturating_sub(self.limit());
        if too_many > 0 {
            let left = (too_many + MAKE_ROOM).saturating_sub(self.connections.close_idle(too_many + MAKE_ROOM));
            // Then those that have begun a request and do not finish it.
            self.service.make_room(left);
        }
    }

    fn is_answering(&self) -> bool {
        self.workers.is_answering()
    }

    fn is_serving(&self) -> bool {
        self.workers.connections() > 0
    }
}

/// A thread's own state.
struct Tools<'a> {
    sleeper: Arc<Sleeper>,
    waker: Waker,
    /// Registers whatever the thread polls with the listener's event loop.
    _inside: Entered<'a>,
}

impl Work for Requests {
    type Job = Arc<Task>;
    type Tools<'a> = Tools<'a>;

    fn pool(&self) -> &ThreadPool<Self::Job> {
        &self.pool
    }

    fn service(&self) -> &dyn Service {
        self.service
    }

    fn tools(&self, _index: usize) -> Tools<'_> {
        let sleeper = Sleeper::new();
        Tools { waker: Waker::from(sleeper.clone()), sleeper, _inside: self.handle.enter() }
    }

    fn run(&self, tools: &mut Tools<'_>, task: Self::Job) {
        let outcome = loop {
            match task.poll_serve(&tools.waker) {
                Poll::Ready(outcome) => break outcome,
                Poll::Pending if tools.sleeper.is_roused() => tools.sleeper.wait(),
                Poll::Pending => self.pool.waits(|| {
                    self.service.before_wait();
                    if self.pool.idle() == 0 {
                        self.workers.all_taken();
                    }
                    tools.sleeper.wait();
                }),
            }
        };
        if outcome == PollOutcome::Serving {
            // Its next request is already there; others were there before it.
            self.pool.push([task].into_iter());
        }
    }

    /// The limit as documented for `AsyncRequestWorkerFactor`; each connection begins with a worker.
    fn room(&self) -> usize {
        self.limit().saturating_sub(self.counting()).min(self.pool.idle())
    }
}
