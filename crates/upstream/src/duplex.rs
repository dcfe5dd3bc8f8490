//! A connection on which another protocol goes on, as an asynchronous reader and writer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;
use crate::stream::Stream;

/// The room for what is received at once, in bytes.
const PIECE: usize = 16 * 1024;

/// A connection, read and written in both directions at the same time.
#[derive(Debug)]
pub struct Duplex {
    stream: Stream,
    /// Received, and not yet read.
    rest: Bytes,
}

impl Duplex {
    /// Takes a connection.
    pub fn new(connection: Connection) -> Duplex {
        Duplex { stream: Stream::for_both_directions(connection), rest: Bytes::new() }
    }
}

impl AsyncRead for Duplex {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Duplex { stream, rest } = self.get_mut();
        if rest.is_empty() {
            let mut piece = Vec::with_capacity(PIECE);
            ready!(stream.poll_read(cx, &mut piece))?;
            *rest = Bytes::from(piece);
        }
        let length = rest.len().min(into.remaining());
        into.put_slice(&rest[..length]);
        rest.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().stream.poll_write(cx, from)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_end(cx)
    }
}
