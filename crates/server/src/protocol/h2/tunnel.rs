//! A stream that has become a tunnel (RFC 8441).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::h2::Reason;
use runtime::executor::Timer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::open_stream::{Came, OpenStream};
use super::response::begin;
use crate::exchange::Exchange;
use crate::message::response::{Body, BodyStream, Piece};
use crate::message::tunnel::Tunnel;
use crate::protocol::h2::response::Transferred;
use crate::protocol::h2::stream::Common;
use crate::protocol::tunnel::until_silent;
use crate::transport;

/// Answers 200, and hands the stream to the handler.
pub(super) async fn speak(
    exchange: &mut Exchange,
    stream: &Arc<OpenStream>,
    tunnel: Tunnel,
    received: &Arc<AtomicU64>,
    common: &Common,
) -> Transferred {
    let request = &mut exchange.request;
    request.response.set_status(200);
    let failed = Transferred { head: 0, body: 0, complete: false };
    let head = match begin(request, stream, &Body::Stream(Box::new(Endless))) {
        Ok(Some(begun)) => begun.size,
        Ok(None) => return failed,
        Err(_) => {
            stream.reset(Reason::INTERNAL_ERROR);
            return failed;
        }
    };
    exchange.row.park();
    let carried = Arc::new(transport::stream::TunnelTraffic::default());
    let stream = Stream {
        stream: stream.clone(),
        buffer: Bytes::new(),
        carried: carried.clone(),
        largest: common.largest,
        is_ended: false,
    };
    let timeout = tunnel.silence(exchange.request.vhost.plan.timeout);
    let speaking = (tunnel.speak)(Box::new(stream));
    let spoken = async {
        speaking.await;
        Some(())
    };
    let complete = until_silent(&mut Timer::default(), timeout, &carried, spoken).await;
    received.store(carried.received(), Ordering::Relaxed);
    Transferred { head, body: carried.sent(), complete }
}

/// A body of unknown length.
struct Endless;

impl BodyStream for Endless {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async { None })
    }
}

/// The client's end, as the handler sees it.
struct Stream {
    stream: Arc<OpenStream>,
    /// Bytes received, but not read yet.
    buffer: Bytes,
    carried: Arc<transport::stream::TunnelTraffic>,
    largest: usize,
    is_ended: bool,
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        while stream.buffer.is_empty() {
            match ready!(stream.stream.poll_received(cx)).map_err(io::Error::from)? {
                Came::End(_) => return Poll::Ready(Ok(())),
                Came::Piece(piece) => {
                    stream.carried.received.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    // The handler now owns the piece: the client may send as much again.
                    stream.stream.consume(piece.len());
                    stream.buffer = piece;
                }
            }
        }
        let count = stream.buffer.len().min(into.remaining());
        into.put_slice(&stream.buffer[..count]);
        stream.buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let wanted = from.len().min(stream.largest);
        let Some(room) = ready!(stream.stream.poll_room(cx, wanted)) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        stream.stream.data(&from[..room], false)?;
        stream.carried.sent.fetch_add(room as u64, Ordering::Relaxed);
        Poll::Ready(Ok(room))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if !std::mem::replace(&mut stream.is_ended, true) {
            stream.stream.data(&[], true)?;
        }
        Poll::Ready(Ok(()))
    }
}

/// Ends our side of the stream when the handler drops it.
impl Drop for Stream {
    fn drop(&mut self) {
        if !self.is_ended {
            // An error means that the client is gone.
            let _ = self.stream.data(&[], true);
        }
    }
}
