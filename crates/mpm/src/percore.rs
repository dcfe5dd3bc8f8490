//! percore: a child for each processor, and in it one event loop for many connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use runtime::Service;
use runtime::scoreboard::{Rows, Workers};
use sys::event_loop;

use crate::child::Child;
use crate::listener::{self, Dispatcher};
use crate::mpm::{LogMessages, Mpm};
use crate::plan::explain::ProcessModel;
use crate::plan::percore;
use crate::{stages, tables};

/// How many requests of a child the status page can list at once. The child serves and counts more than that.
const ROWS: usize = 64;

/// `mpm_percore`.
pub(crate) static PERCORE: Mpm = Mpm {
    info: &tables::PERCORE,
    messages: LogMessages {
        configured: "",
        built: "",
        terminated: "caught SIGTERM, shutting down",
        graceful_stop: "caught SIGWINCH, shutting down gracefully",
        graceful: "SIGUSR1 received.  Doing graceful restart",
        restart: "SIGHUP received.  Attempting to restart",
        cannot_fork: "fork: Unable to fork new process",
        sizing: None,
    },
    plan: |settings, _| (percore(settings, sys::affinity::cpus(), ROWS), Vec::new()),
    kind: ProcessModel::PerProcessor,
    rows: Rows::OfRequests,
    waiting_holds: false,
    serve,
};

fn serve(child: Child) -> io::Result<()> {
    let here = Loop { service: child.service, workers: child.workers };
    listener::event_loop(child.service)?.run(listener::live(child, Arc::new(here)))?
}

/// Makes each connection a task of the event loop that accepted it.
struct Loop {
    service: &'static dyn Service,
    workers: &'static Workers,
}

/// The event loop, for a connection of it.
struct Here;

impl stages::PollSite for Here {}

impl Drop for Here {
    /// The event loop does not report that a task panicked.
    fn drop(&mut self) {
        if std::thread::panicking() {
            runtime::log!("mpm_percore", Crit, "a panic: the connection is closed, the child goes on");
        }
    }
}

impl Dispatcher for Loop {
    fn start(&self, socket: OwnedFd, peer: SocketAddr) {
        let connection = stages::connect(self.service, self.workers, socket, peer);
        #[expect(clippy::disallowed_methods, reason = "the event loop itself")]
        event_loop::spawn(stages::run(connection, Here));
    }

    fn is_serving(&self) -> bool {
        self.workers.connections() > 0
    }
}
