//! Runs a connection from its first stage to its last, and counts what it is doing.

use std::sync::Arc;

use seam::scoreboard::{Gauge, State, Workers};
use seam::{Accepted, Connection, Service, Stage};

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A connection that is open, for the scoreboard.
#[derive(Debug)]
pub(crate) struct Open(Arc<Workers>);

impl Open {
    fn new(workers: Arc<Workers>) -> Open {
        workers.enter(Gauge::Connections);
        workers.show(State::Read);
        Open(workers)
    }

    /// Counts the connection among those of a waiting stage, until the returned value is dropped.
    fn enter(&self, stage: Stage) -> Option<Waiting<'_>> {
        let (gauge, state) = match stage {
            Stage::WriteCompletion => (Gauge::Writing, State::Write),
            Stage::KeepAlive => (Gauge::KeepAlive, State::KeepAlive),
            Stage::Linger | Stage::ShortLinger => (Gauge::Closing, State::Closing),
            Stage::Serve | Stage::Closed => return None,
        };
        self.0.enter(gauge);
        self.0.show(state);
        Some(Waiting(&self.0, gauge))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.leave(Gauge::Connections);
        self.0.show(State::Ready);
    }
}

struct Waiting<'a>(&'a Workers, Gauge);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// Makes a connection of an accepted socket and counts it.
pub(crate) fn connect(
    service: &'static dyn Service,
    workers: &Arc<Workers>,
    socket: OwnedFd,
    peer: SocketAddr,
) -> (Box<dyn Connection>, Open) {
    let open = Open::new(workers.clone());
    (service.connect(Accepted { socket, peer, workers: workers.clone() }), open)
}

/// Runs a connection until it is closed. The future is small: what a stage needs is boxed by the stage.
pub(crate) async fn run((mut connection, open): (Box<dyn Connection>, Open)) {
    let mut stage = Stage::Serve;
    while stage != Stage::Closed {
        let _waiting = open.enter(stage);
        stage = connection.step(stage).end().await;
    }
    drop(connection);
}
