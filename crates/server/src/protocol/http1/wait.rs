//! The stages that only wait for the client: the next request, and the end.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use seam::Stage;

use super::connection::{HEAD_PIECE, HttpConnection, SHORT_LINGER};
use crate::transport;
use crate::transport::tick::{self, Slices};

impl HttpConnection {
    /// Waits for the next request.
    pub(super) fn keep_alive(&mut self) -> Idle<'_> {
        Idle { connection: self, waited: false }
    }

    /// Shuts our side, and drains what the client still sends (RFC 9112 section 9.6). Where a worker waits with the connection,
    /// a client that sends nothing for a while is left, as in Apache.
    pub(super) async fn linger(&mut self, at_most: Duration) -> Stage {
        let deadline = Instant::now() + at_most;
        let silence = if self.workers.are_held() { SHORT_LINGER } else { at_most };
        if self.transport.shutdown().is_err() {
            return Stage::Closed;
        }
        let mut sink = Vec::new();
        let mut slices = Slices::new();
        loop {
            sink.clear();
            let next = deadline.min(Instant::now() + silence);
            match self.timer.until(next, transport::read(&*self.transport, &mut sink, HEAD_PIECE)).await {
                Some(Ok(read)) if read > 0 => {}
                _ => return Stage::Closed,
            }
            // A client that never stops sending must not keep us from looking at the clock, nor from the others.
            slices.step().await;
            if Instant::now() > deadline {
                return Stage::Closed;
            }
        }
    }
}

/// A connection that waits for its next request. Written by hand because thousands of them wait: it holds nothing but
/// this.
pub(super) struct Idle<'a> {
    connection: &'a mut HttpConnection,
    waited: bool,
}

impl Future for Idle<'_> {
    type Output = Stage;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Stage> {
        let HttpConnection { transport, buffer, timer, idle_until, .. } = &mut *self.connection;
        let read = match transport.poll_read(cx, buffer, HEAD_PIECE) {
            Poll::Ready(read) => read,
            Poll::Pending => {
                let passed = timer.poll_passed(cx, *idle_until);
                // One that has come in time is served, though nobody has announced it yet.
                let end = |()| {
                    if transport.has_input() {
                        return Stage::Serve;
                    }
                    transport.close();
                    Stage::Closed
                };
                let next = passed.map(end);
                self.waited = true;
                return next;
            }
        };
        let waited = self.waited;
        self.connection.announced = tick::present().filter(|_| waited);
        Poll::Ready(if read.is_ok_and(|read| read > 0) { Stage::Serve } else { Stage::Closed })
    }
}
