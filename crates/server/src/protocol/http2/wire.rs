//! The stream of frames between the protocol and the transport.
//!
//! The protocol writes one frame at a time. The wire collects frames and sends them when the protocol has nothing more
//! to write, so that many small answers share one system call and one TLS record.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::meter::Meter;
use crate::transport::stream::Stream;
use crate::transport::{Transport, buffers};

/// The most bytes collected: four frames of the usual size.
const ROOM: usize = 64 * 1024;

/// The byte stream that the protocol reads and writes.
pub(super) struct Wire {
    stream: Stream,
    line: Arc<Line>,
}

/// The connection's view of its wire.
pub(super) struct Line {
    transport: Arc<dyn Transport>,
    state: Mutex<State>,
}

struct State {
    outgoing: Vec<u8>,
    sent: usize,
    /// Bytes sent and received so far.
    carried: (u64, u64),
    meter: Meter,
    flood_is_known: bool,
    /// The number of reads since the connection was last polled.
    reads: u32,
}

impl Line {
    pub(super) fn new(transport: Arc<dyn Transport>) -> Arc<Line> {
        let state = State {
            outgoing: Vec::new(),
            sent: 0,
            carried: (0, 0),
            meter: Meter::new(),
            flood_is_known: false,
            reads: 0,
        };
        Arc::new(Line { transport, state: Mutex::new(state) })
    }

    /// The protocol's end. `early`: bytes already received.
    pub(super) fn wire(self: &Arc<Self>, early: Vec<u8>) -> Wire {
        Wire { stream: Stream::new(self.transport.clone(), early, Arc::default()), line: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the collected bytes. Ready once none are left.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_flush(cx, &*self.transport)
    }

    /// Collected bytes that are yet to be sent.
    pub(super) fn unsent(&self) -> usize {
        let state = self.lock();
        state.outgoing.len() - state.sent
    }

    /// Bytes sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.lock().carried.0
    }

    /// Bytes sent and received so far.
    pub(super) fn traffic(&self) -> u64 {
        let (sent, received) = self.lock().carried;
        sent + received
    }

    /// The kind of frame that the client sends too many of. Returned only once.
    pub(super) fn new_flood(&self) -> Option<&'static str> {
        let mut state = self.lock();
        let flood = state.meter.flood();
        flood.filter(|_| !std::mem::replace(&mut state.flood_is_known, true))
    }

    /// Resets the count of reads before the connection is polled.
    pub(super) fn begin(&self) {
        self.lock().reads = 0;
    }

    /// Whether at most one read has returned data since [`begin`](Self::begin).
    pub(super) fn came_at_once(&self) -> bool {
        self.lock().reads <= 1
    }
}

impl State {
    fn poll_flush(&mut self, cx: &mut Context<'_>, transport: &dyn Transport) -> Poll<io::Result<()>> {
        while self.sent < self.outgoing.len() {
            let sent = ready!(transport.poll_send(cx, &self.outgoing[self.sent..], false))?;
            self.sent += sent;
            self.carried.0 += sent as u64;
            self.meter.sent(sent);
        }
        self.sent = 0;
        buffers::give(std::mem::take(&mut self.outgoing));
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.line.lock().meter.flood().is_some() {
            // After a flood nothing more is read; the connection ends.
            return Poll::Pending;
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut wire.stream).poll_read(cx, into))?;
        let received = &into.filled()[before..];
        let mut state = wire.line.lock();
        state.reads += 1;
        state.carried.1 += received.len() as u64;
        state.meter.received(received);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.line.lock();
        if state.outgoing.len() >= ROOM {
            ready!(state.poll_flush(cx, &*self.line.transport))?;
        }
        if state.outgoing.capacity() == 0 {
            state.outgoing = buffers::take();
        }
        state.outgoing.extend_from_slice(from);
        Poll::Ready(Ok(from.len()))
    }

    /// Does nothing: the connection flushes once the protocol has nothing more to write.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Flushes the last frame; the connection closes later.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.poll_flush(cx)
    }
}
