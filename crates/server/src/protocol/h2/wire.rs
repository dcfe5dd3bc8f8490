//! The stream of frames between the protocol and the transport.
//!
//! The protocol writes one frame at a time. The wire collects frames and sends them when the protocol has nothing more
//! to write, so that many small responses share one system call and one TLS record.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::meter::Meter;
use crate::message::buffers;
use crate::transport::endpoint::Transport;
use crate::transport::stream::TransportStream;

/// The most bytes collected: four frames of the usual size.
const ROOM: usize = 64 * 1024;

/// The byte stream that the `h2` crate reads and writes.
pub(super) struct WireStream {
    stream: TransportStream,
    wire: Arc<Wire>,
    /// Read before anything else: what a client would have sent if it had begun with HTTP/2.
    first: Vec<u8>,
    /// How much of the client preface is still to come, and not to be passed on: it was among the first.
    preface: usize,
}

/// What a connection sends and receives, as all its streams see it.
pub(super) struct Wire {
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
    /// The first acknowledgement of settings is to be left out: how many bytes of the present frame are still to come.
    owes: Option<usize>,
    /// The number of reads since the connection was last polled.
    reads: u32,
}

impl Wire {
    pub(super) fn new(transport: Arc<dyn Transport>) -> Arc<Wire> {
        let state = State {
            outgoing: Vec::new(),
            sent: 0,
            carried: (0, 0),
            meter: Meter::new(),
            flood_is_known: false,
            owes: None,
            reads: 0,
        };
        Arc::new(Wire { transport, state: Mutex::new(state) })
    }

    /// The stream for the `h2` crate. `early`: bytes already received. `frames`: the client spoke HTTP/1.1 before, and these
    /// tell of its request; its settings came with that, so they are not acknowledged (RFC 7540 section 3.2.1).
    pub(super) fn stream(self: &Arc<Self>, early: Vec<u8>, frames: Option<Vec<u8>>) -> WireStream {
        let stream = TransportStream::new(self.transport.clone(), early, Arc::default());
        let (mut first, mut preface) = (Vec::new(), 0);
        if let Some(frames) = frames {
            (first, preface) = ([PREFACE, &frames].concat(), PREFACE.len());
            self.lock().owes = Some(0);
        }
        WireStream { stream, wire: self.clone(), first, preface }
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

impl WireStream {
    /// Takes the client preface, if it was among the first bytes already.
    fn poll_preface(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.preface > 0 {
            let mut bytes = [0; PREFACE.len()];
            let mut into = ReadBuf::new(&mut bytes[..self.preface]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut into))?;
            let (came, at) = (into.filled(), PREFACE.len() - self.preface);
            if came.is_empty() || PREFACE[at..at + came.len()] != *came {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            self.preface -= came.len();
        }
        Poll::Ready(Ok(()))
    }
}

/// The size of a frame header, in bytes.
const HEAD: usize = 9;

impl State {
    /// Collects frames up to the first acknowledgement of settings, and leaves that out. `left`: the bytes that still belong
    /// to the last frame.
    fn collect_without_acknowledgement(&mut self, mut left: usize, mut from: &[u8]) {
        loop {
            let (part, rest) = from.split_at(left.min(from.len()));
            self.outgoing.extend_from_slice(part);
            left -= part.len();
            // The protocol writes a header in one piece.
            let Some(&[a, b, c, kind, flags, ..]) = rest.get(..HEAD) else {
                self.outgoing.extend_from_slice(rest);
                self.owes = if rest.is_empty() { Some(left) } else { None };
                return;
            };
            if (kind, flags & 1) == (4, 1) {
                self.owes = None;
                return self.outgoing.extend_from_slice(&rest[HEAD..]);
            }
            (left, from) = (HEAD + u32::from_be_bytes([0, a, b, c]) as usize, rest);
        }
    }

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

impl AsyncRead for WireStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.wire.lock().meter.flood().is_some() {
            // After a flood nothing more is read; the connection ends.
            return Poll::Pending;
        }
        let before = into.filled().len();
        if this.first.is_empty() {
            ready!(this.poll_preface(cx))?;
            ready!(Pin::new(&mut this.stream).poll_read(cx, into))?;
        } else {
            let rest = this.first.split_off(this.first.len().min(into.remaining()));
            into.put_slice(&this.first);
            this.first = rest;
        }
        let received = &into.filled()[before..];
        let mut state = this.wire.lock();
        state.reads += 1;
        state.carried.1 += received.len() as u64;
        state.meter.received(received);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WireStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.wire.lock();
        if state.outgoing.len() >= ROOM {
            ready!(state.poll_flush(cx, &*self.wire.transport))?;
        }
        if state.outgoing.capacity() == 0 {
            state.outgoing = buffers::take();
        }
        match state.owes {
            None => state.outgoing.extend_from_slice(from),
            Some(left) => state.collect_without_acknowledgement(left, from),
        }
        Poll::Ready(Ok(from.len()))
    }

    /// Does nothing: the connection flushes once the protocol has nothing more to write.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Flushes the last frame; the connection closes later.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_flush(cx)
    }
}

/// The beginning of the client preface.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
