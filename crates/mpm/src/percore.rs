//! percore: a child for each processor, and in it one event loop for many connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use conf::{Face, Notice, Slots};
use seam::Service;
use seam::scoreboard::{Rows, Workers};

use crate::child::{Child, exit_status};
use crate::limits::{Plan, When, percore};
use crate::listener::{self, Host};
use crate::{Mpm, Words, stages, tables};

/// How many requests of a child the status page can list at once; more are served and counted all the same.
const ROWS: usize = 64;

/// The module.
pub(crate) struct Percore;

impl Mpm for Percore {
    fn face(&self) -> &'static Face {
        &tables::PERCORE
    }

    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn plan(&self, settings: &Slots, _: When) -> (Plan, Vec<Notice>) {
        (percore(settings, sys::affinity::cpus(), ROWS), Vec::new())
    }

    fn rows(&self) -> Rows {
        Rows::OfRequests
    }

    fn serve(&self, child: Child) -> i32 {
        exit_status(child.log_name, serve(child))
    }
}

static WORDS: Words = Words {
    configured: "",
    built: "",
    terminated: "caught SIGTERM, shutting down",
    graceful_stop: "caught SIGWINCH, shutting down gracefully",
    graceful: "SIGUSR1 received.  Doing graceful restart",
    restart: "SIGHUP received.  Attempting to restart",
    cannot_fork: "fork: Unable to fork new process",
    limit_reached: "",
    limit_near: None,
    busy: |_, _, _| String::new(),
};

fn serve(child: Child) -> io::Result<()> {
    let here = Loop { service: child.service, workers: child.workers.clone() };
    listener::runtime(child.service)?.block_on(listener::live(child, Arc::new(here)))
}

/// What becomes of a connection: a task of the event loop that accepted it.
struct Loop {
    service: &'static dyn Service,
    workers: Arc<Workers>,
}

impl Host for Loop {
    fn start(&self, socket: OwnedFd, peer: SocketAddr) {
        let connection = stages::connect(self.service, &self.workers, socket, peer);
        // What never waits lets others have their turn by itself; tokio need not count.
        tokio::spawn(tokio::task::unconstrained(stages::run(connection, stages::Anywhere)));
    }

    fn is_serving(&self) -> bool {
        self.workers.connections() > 0
    }
}
