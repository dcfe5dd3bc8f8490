//! worker: a thread for each connection, from its first byte to its last.
//!
//! The listener accepts as long as a worker is idle. A connection has its worker to itself: [`block_on`] polls it. A
//! thread that was never needed costs only an untouched stack.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use runtime::Service;
use runtime::scoreboard::{Rows, Workers};
use sys::block_on;

use crate::child::Child;
use crate::listener::{self, Dispatcher};
use crate::mpm::{LogMessages, Mpm, SizingMessages};
use crate::plan::explain::ProcessModel;
use crate::plan::{self, threaded};
use crate::policy::Counts;
use crate::thread_pool::{self, ThreadPool, Work};
use crate::{stages, tables};

/// `mpm_worker`.
pub(crate) static WORKER: Mpm = Mpm {
    info: &tables::WORKER,
    messages: LogMessages {
        configured: "AH00292: ",
        built: "AH00293: ",
        terminated: "AH00295: caught SIGTERM, shutting down",
        graceful_stop: "AH00296: caught SIGWINCH, shutting down gracefully",
        graceful: "AH00297: SIGUSR1 received.  Doing graceful restart",
        restart: "AH00298: SIGHUP received.  Attempting to restart",
        cannot_fork: "AH00283: fork: Unable to fork new process",
        sizing: Some(SizingMessages {
            limit_reached: "AH00286: server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
            limit_near: Some(
                "AH00287: server is within MinSpareThreads of MaxRequestWorkers, consider raising the MaxRequestWorkers \
                         setting",
            ),
            busy: |_rate, spawned, Counts { idle, children, .. }| {
                format!(
                    "AH00289: server seems busy, (you may need to increase StartServers, ThreadsPerChild or \
                     Min/MaxSpareThreads), spawning {spawned} children, there are around {idle} idle threads, and {children} \
                     total children"
                )
            },
        }),
    },
    plan: |settings, when| threaded(&plan::WORKER, tables::WORKER.log_name(), settings, when),
    kind: ProcessModel::Threads,
    rows: Rows::OfThreads,
    waiting_holds: true,
    serve,
};

fn serve(child: Child) -> io::Result<()> {
    let dispatcher = Arc::new(Threads {
        service: child.service,
        workers: child.workers,
        pool: ThreadPool::new(child.plan.workers, usize::MAX),
    });
    let mut event_loop = listener::event_loop(child.service)?;
    thread_pool::start(&dispatcher, child.plan.stack, child.log_name)?;
    event_loop.run(listener::live(child, dispatcher))?
}

struct Threads {
    service: &'static dyn Service,
    workers: &'static Workers,
    pool: ThreadPool<(OwnedFd, SocketAddr)>,
}

impl Dispatcher for Threads {
    fn start(&self, socket: OwnedFd, peer: SocketAddr) {
        self.pool.push([(socket, peer)].into_iter());
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        self.pool.poll_room(cx, || self.room())
    }

    fn is_answering(&self) -> bool {
        self.workers.is_answering()
    }

    fn is_serving(&self) -> bool {
        !self.pool.is_idle()
    }
}

impl Work for Threads {
    type Job = (OwnedFd, SocketAddr);
    /// Its row of the scoreboard.
    type Tools<'a> = &'static Workers;

    fn pool(&self) -> &ThreadPool<Self::Job> {
        &self.pool
    }

    fn service(&self) -> &dyn Service {
        self.service
    }

    fn tools(&self, index: usize) -> &'static Workers {
        self.workers.only(index)
    }

    fn run(&self, row: &mut &'static Workers, (socket, peer): Self::Job) {
        let life = async {
            let connection = stages::connect(self.service, row, socket, peer);
            if self.pool.idle() == 0 {
                self.workers.all_taken();
            }
            stages::run(connection, stages::Anywhere).await;
        };
        if let Err(error) = block_on::block_on(life, || self.service.before_wait()) {
            let text = sys::describe(&error);
            runtime::log!("mpm_worker", Error, "{text}: a worker cannot wait for its client: the connection is closed");
        }
    }

    fn room(&self) -> usize {
        self.pool.idle()
    }
}
