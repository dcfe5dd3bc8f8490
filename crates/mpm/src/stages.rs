//! Runs a connection from its first stage to its last, and counts what it is doing.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use seam::scoreboard::{Gauge, State, Workers};
use seam::{Accepted, Connection, Service, Stage};

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

/// Where a connection is polled: a module that moves connections between threads is asked before every stage.
pub(crate) trait Place: Send + Sync {
    /// Ready where `stage` may be polled. Not ready means that the one who polls must pass the connection on.
    fn poll_enter(&self, _stage: Stage) -> Poll<()> {
        Poll::Ready(())
    }

    /// Whether the connection is to be closed, though its client might still send a request.
    fn is_unwanted(&self) -> bool {
        false
    }
}

/// The connection stays where it is.
pub(crate) struct Anywhere;

impl Place for Anywhere {}

/// Runs a connection until it is closed. The future is small: what a stage needs is boxed by the stage.
pub(crate) async fn run((mut connection, open): (Box<dyn Connection>, Open), place: impl Place) {
    let mut stage = Stage::Serve;
    while stage != Stage::Closed {
        poll_fn(|_| place.poll_enter(stage)).await;
        let _waiting = open.enter(stage);
        let mut step = connection.step(stage);
        // A request that is there already is wanted. Otherwise the client sees an end in good order, and what it may be
        // sending just now is no reason for a reset.
        stage = poll_fn(|cx| match Pin::new(&mut step).poll(cx) {
            Poll::Pending if place.is_unwanted() => Poll::Ready(Stage::Linger),
            polled => polled,
        })
        .await;
    }
    drop(connection);
}
