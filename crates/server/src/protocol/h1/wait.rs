//! The stages that only wait for the client: the next request, and the end.

use std::task::{Context, Poll};
use std::time::Duration;

use runtime::Stage;

use super::connection::{HEAD_PIECE, Http1Connection};
use crate::protocol::linger::linger;
use crate::transport::park_state::WaitingFor;
use runtime::tick;

impl Http1Connection {
    /// Waits for the next request. Thousands of connections wait: none of them takes memory for that.
    pub(super) fn poll_next_request(&mut self, cx: &mut Context<'_>) -> Poll<Stage> {
        let Http1Connection { transport, buffer, timer, idle_until, idle_since, .. } = self;
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
                self.has_waited = true;
                return next;
            }
        };
        self.announced = tick::present().filter(|_| self.has_waited);
        self.go_on();
        Poll::Ready(match read {
            Ok(0) => {
                // The client's announcement of its end is answered with ours (RFC 8446 section 6.1).
                self.transport.close();
                Stage::Closed
            }
            Ok(_) => Stage::Serve,
            Err(_) => Stage::Closed,
        })
    }

    /// The wait for the next request is over, or was given up.
    pub(super) fn go_on(&mut self) {
        if std::mem::take(&mut self.has_waited) {
            self.transport.park_state().go_on();
        }
    }

    /// Shuts our side, and drains what the client still sends.
    pub(super) async fn linger(&mut self, at_most: Duration) -> Stage {
        linger(&*self.transport, &mut self.timer, self.workers.are_held(), at_most).await
    }
}
