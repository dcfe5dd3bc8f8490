//! A transport as a stream, for libraries that work on streams.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::message::tunnel::TunnelFuture;
use crate::transport::endpoint::Transport;

/// The size of a read, in bytes.
const PIECE: usize = 16 * 1024;
/// After this many bytes of one client, others get their turn.
const TURN_BYTES: u64 = 1024 * 1024;

/// Bytes that a stream has carried.
#[derive(Default)]
pub(crate) struct TunnelTraffic {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

impl TunnelTraffic {
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// A transport, as a stream. Long transfers give others their turn in between.
pub(crate) struct TransportStream {
    transport: Arc<dyn Transport>,
    /// Received, but not read yet.
    buffer: Vec<u8>,
    used: usize,
    carried: Arc<TunnelTraffic>,
    /// Bytes carried since the last turn of others, and the turn that is due after too many of them. A wait does not
    /// count as a turn: it may be that of one direction, while the other one continues.
    since: u64,
    turn: Option<TunnelFuture>,
}

impl TransportStream {
    /// Makes one; `buffer` holds bytes that were already received, and are read first.
    pub(crate) fn new(transport: Arc<dyn Transport>, buffer: Vec<u8>, carried: Arc<TunnelTraffic>) -> TransportStream {
        carried.received.store(buffer.len() as u64, Ordering::Relaxed);
        TransportStream { transport, buffer, used: 0, carried, since: 0, turn: None }
    }

    /// Ready unless it is the turn of others.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.since >= TURN_BYTES {
            self.since = 0;
            self.turn = Some(Box::pin(runtime::yield_now()));
        }
        if let Some(turn) = &mut self.turn {
            ready!(turn.as_mut().poll(cx));
            self.turn = None;
        }
        Poll::Ready(())
    }

    /// Counts the bytes moved.
    fn note(&mut self, polled: &Poll<io::Result<usize>>, which: fn(&TunnelTraffic) -> &AtomicU64) {
        if let Poll::Ready(Ok(count)) = polled {
            self.since += *count as u64;
            which(&self.carried).fetch_add(*count as u64, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for TransportStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if stream.used == stream.buffer.len() {
            ready!(stream.poll_turn(cx));
            stream.buffer.clear();
            stream.used = 0;
            let received = stream.transport.poll_read(cx, &mut stream.buffer, PIECE);
            stream.note(&received, |carried| &carried.received);
            ready!(received)?;
        }
        let rest = &stream.buffer[stream.used..];
        let count = rest.len().min(into.remaining());
        into.put_slice(&rest[..count]);
        stream.used += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TransportStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        ready!(stream.poll_turn(cx));
        let sent = stream.transport.poll_send(cx, from, false);
        stream.note(&sent, |carried| &carried.sent);
        sent
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.transport.shutdown())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::os::fd::OwnedFd;
    use std::task::Waker;

    use super::super::park_state::ParkState;
    use super::*;
    use crate::transport::endpoint::{Counted, Endpoint};

    /// A client that sends without end and accepts everything.
    #[derive(Default)]
    struct Tireless(ParkState);

    impl Endpoint for Tireless {
        fn local(&self) -> io::Result<SocketAddr> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn has_ended(&self) -> bool {
            false
        }
    }

    impl Transport for Tireless {
        fn poll_read(&self, _: &mut Context<'_>, buffer: &mut Vec<u8>, room: usize) -> Poll<io::Result<usize>> {
            buffer.resize(buffer.len() + room, 0);
            Poll::Ready(Ok(room))
        }

        fn poll_send(&self, _: &mut Context<'_>, bytes: &[u8], _: bool) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_send_both(
            &self,
            cx: &mut Context<'_>,
            first: &[u8],
            second: &[u8],
            more: bool,
        ) -> Poll<io::Result<usize>> {
            self.poll_send(cx, &[first, second].concat(), more)
        }

        fn poll_send_file(&self, _: &mut Context<'_>, _: &OwnedFd, _: &mut u64, _: usize) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_reset(&self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }

        fn has_input(&self) -> bool {
            true
        }

        fn shutdown(&self) -> io::Result<()> {
            Ok(())
        }

        fn park_state(&self) -> &ParkState {
            &self.0
        }

        fn keep(&self, _: Counted) {}
    }

    #[test]
    fn a_stream_without_end_leaves_others_their_turn() {
        let carried = Arc::new(TunnelTraffic::default());
        let mut stream = TransportStream::new(Arc::new(Tireless::default()), b"early".to_vec(), carried.clone());
        let mut cx = Context::from_waker(Waker::noop());
        let mut piece = [0; 4096];
        // Twice: it continues after its turn.
        for turns in 1..=2 {
            while Pin::new(&mut stream).poll_read(&mut cx, &mut ReadBuf::new(&mut piece)).is_ready()
                && Pin::new(&mut stream).poll_write(&mut cx, &piece).is_ready()
            {
                assert!(carried.received() + carried.sent() < turns * 2 * TURN_BYTES, "nobody else has a turn");
            }
        }
        assert!(carried.received() + carried.sent() >= 2 * TURN_BYTES);
    }
}
