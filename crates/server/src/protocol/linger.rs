//! The end of a connection: our side is shut, and the client may still be sending.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use runtime::executor::Timer;
use runtime::{CoopBudget, Stage};
use sys::time::Instant;

use crate::transport::endpoint::Transport;
use crate::transport::park_state::WaitingFor;

/// How long our shut side waits for the client's, after a response and after a time-out (Apache: event's queues).
pub(super) const LINGER: Duration = Duration::from_secs(30);
pub(super) const SHORT_LINGER: Duration = Duration::from_secs(2);

/// The size of a drain, in bytes.
const PIECE: usize = 4096;

/// Shuts our side, and drains what the client still sends (RFC 9112 section 9.6). If a worker waits with the connection
/// (`held`), a client that is silent for a while is abandoned, as in Apache.
pub(super) async fn linger(transport: &dyn Transport, timer: &mut Timer, held: bool, at_most: Duration) -> Stage {
    let begun = Instant::now();
    transport.park_state().wait(WaitingFor::End, begun);
    let deadline = begun + at_most;
    let silence = if held { SHORT_LINGER } else { at_most };
    // The last bytes of a response may have left no room in the socket for an announcement of the end.
    let announced = timer.until(deadline.min(Instant::now() + silence), poll_fn(|cx| transport.poll_close(cx))).await;
    if !matches!(announced, Some(Ok(()))) || transport.shutdown().is_err() {
        return Stage::Closed;
    }
    let mut sink = Vec::new();
    let mut budget = CoopBudget::new();
    loop {
        sink.clear();
        let next = deadline.min(Instant::now() + silence);
        let read = poll_fn(|cx| match transport.poll_read(cx, &mut sink, PIECE) {
            Poll::Ready(read) => Poll::Ready(read.ok()),
            // Others need its descriptor.
            Poll::Pending => transport.park_state().poll_evicted(cx).map(|_| None),
        });
        match timer.until(next, read).await {
            Some(Some(read)) if read > 0 => {}
            _ => return Stage::Closed,
        }
        // A client that never stops sending must not keep us from checking the clock, nor from the other connections.
        budget.step().await;
        if Instant::now() > deadline {
            return Stage::Closed;
        }
    }
}
