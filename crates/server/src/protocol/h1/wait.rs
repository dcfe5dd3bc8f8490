//! The stages that only wait for the client: the next request, and the end.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use runtime::Stage;

use super::connection::{HEAD_PIECE, Http1Connection};
use crate::protocol::linger::linger;
use crate::transport::park_state::WaitingFor;
use runtime::tick;

impl Http1Connection {
    /// Waits for the next request.
    pub(super) fn keep_alive(&mut self) -> Idle<'_> {
        Idle { connection: self, waited: false }
    }

    /// Shuts our side, and drains what the client still sends.
    pub(super) async fn linger(&mut self, at_most: Duration) -> Stage {
        linger(&*self.transport, &mut self.timer, self.workers.are_held(), at_most).await
    }
}

/// A connection that waits for its next request. Written by hand because thousands of them wait: it holds only this.
pub(super) struct Idle<'a> {
    connection: &'a mut Http1Connection,
    waited: bool,
}

impl Future for Idle<'_> {
    type Output = Stage;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Stage> {
        let Http1Connection { transport, buffer, timer, idle_until, idle_since, .. } = &mut *self.connection;
        let read = match transport.poll_read(cx, buffer, HEAD_PIECE) {
            Poll::Ready(read) => read,
            Poll::Pending => {
                let park_state = transport.park_state();
                park_state.wait(WaitingFor::Request, *idle_since);
                let away = park_state.poll_evicted(cx).map(drop);
                let passed = if away.is_ready() { away } else { timer.poll_passed(cx, *idle_until) };
                // A request that has come in time is served, even if no event has announced it yet.
                let end = |()| {
                    if transport.has_input() {
                        return Stage::Serve;
                    }
                    transport.close();
                    Stage::Closed
                };
                let next = passed.map(end);
                if next.is_ready() {
                    park_state.go_on();
                }
                self.waited = true;
                return next;
            }
        };
        let next = match read {
            Ok(0) => {
                // The client's announcement of its end is answered with ours (RFC 8446 section 6.1).
                transport.close();
                Stage::Closed
            }
            Ok(_) => Stage::Serve,
            Err(_) => Stage::Closed,
        };
        let waited = self.waited;
        if waited {
            self.connection.transport.park_state().go_on();
        }
        self.connection.announced = tick::present().filter(|_| waited);
        Poll::Ready(next)
    }
}
