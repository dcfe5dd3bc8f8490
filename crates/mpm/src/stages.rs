//! Runs a connection from its first stage to its last, and counts it by stage.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::Poll;

use runtime::scoreboard::{Gauge, State, Workers};
use runtime::{Accepted, Connection, Service, Stage};

/// A connection that is open, for the scoreboard.
#[derive(Debug)]
pub(crate) struct Open(&'static Workers);

impl Open {
    fn new(workers: &'static Workers) -> Open {
        workers.enter(Gauge::Connections);
        workers.show(State::Read);
        Open(workers)
    }

    /// Counts the connection among those of a waiting stage, until the returned value is dropped.
    fn enter(&self, stage: Stage) -> Option<Waiting<'_>> {
        let (gauge, state) = match stage {
            Stage::ReadHead => (Gauge::Reading, State::Read),
            Stage::WriteCompletion | Stage::Tunnel => (Gauge::Writing, State::Write),
            Stage::KeepAlive => (Gauge::KeepAlive, State::KeepAlive),
            Stage::Linger | Stage::ShortLinger => (Gauge::Closing, State::Closing),
            Stage::Serve | Stage::Closed => return None,
        };
        self.0.enter(gauge);
        self.0.show(state);
        Some(Waiting(self.0, gauge))
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

/// Makes a connection from an accepted socket and counts it.
pub(crate) fn connect(
    service: &'static dyn Service,
    workers: &'static Workers,
    socket: OwnedFd,
    peer: SocketAddr,
) -> (Box<dyn Connection>, Open) {
    let open = Open::new(workers);
    (service.connect(Accepted { socket, peer, workers }), open)
}

/// The place that polls a connection: a module that moves connections between threads decides before every stage.
pub(crate) trait PollSite: Send + Sync {
    /// Ready if `stage` may be polled here. Pending means that the poller must pass the connection on.
    fn poll_enter(&self, _stage: Stage) -> Poll<()> {
        Poll::Ready(())
    }

    /// Whether to close the connection, though its client might still send a request.
    fn is_unwanted(&self) -> bool {
        false
    }
}

/// The connection stays where it is.
pub(crate) struct Anywhere;

impl PollSite for Anywhere {}

/// Runs a connection until it is closed. The future is small: what a stage needs is boxed by the stage.
pub(crate) async fn run((mut connection, open): (Box<dyn Connection>, Open), place: impl PollSite) {
    let mut stage = Stage::Serve;
    while stage != Stage::Closed {
        poll_fn(|_| place.poll_enter(stage)).await;
        let _waiting = open.enter(stage);
        let mut step = connection.step(stage);
        let next = poll_fn(|cx| match Pin::new(&mut step).poll(cx) {
            Poll::Pending if place.is_unwanted() => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let next = next.await;
        drop(step);
        stage = match next {
            Some(next) => next,
            // The request has already arrived, so serve it.
            None if connection.has_input() => Stage::Serve,
            // The client sees an orderly end; data that it may be sending right now is no reason for a reset.
            None => Stage::Linger,
        };
    }
    drop(connection);
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Waker};

    use runtime::Stepping;
    use runtime::scoreboard::{self, Rows};

    use super::*;

    /// A place that closes waiting connections.
    struct Unwelcoming;

    impl PollSite for Unwelcoming {
        fn is_unwanted(&self) -> bool {
            true
        }
    }

    /// Waits for ever for its next request, whether that has come or not.
    struct Waiting {
        has_input: bool,
        stages: Arc<Mutex<Vec<Stage>>>,
    }

    impl Connection for Waiting {
        fn step(&mut self, stage: Stage) -> Stepping<'_> {
            let mut stages = self.stages.lock().expect("stages");
            stages.push(stage);
            match stage {
                Stage::Serve if stages.len() == 1 => Stepping::Done(Stage::KeepAlive),
                Stage::KeepAlive => Stepping::waiting(pending()),
                _ => Stepping::Done(Stage::Closed),
            }
        }

        fn has_input(&self) -> bool {
            self.has_input
        }
    }

    #[test]
    fn a_client_that_has_to_leave_gets_its_answer() {
        let board = scoreboard::create(1, 1, false).expect("scoreboard");
        board.claim(0, 0, 1);
        let workers = Workers::start(board, 0, Rows::OfRequests);
        for (has_input, then) in [(true, Stage::Serve), (false, Stage::Linger)] {
            let stages = Arc::default();
            let connection = Box::new(Waiting { has_input, stages: Arc::clone(&stages) });
            let mut life = std::pin::pin!(run((connection, Open::new(workers)), Unwelcoming));
            assert_eq!(life.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
            assert_eq!(*stages.lock().expect("stages"), [Stage::Serve, Stage::KeepAlive, then]);
        }
        assert_eq!(workers.connections(), 0);
    }
}
