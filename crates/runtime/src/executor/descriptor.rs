//! Descriptors to read from and write to, for libraries that are written against tokio's traits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sys::time::Instant;
use sys::watch::{Interest, Ready, Watched, watch};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::timeout::{sleep, timeout_at};

/// How soon to try a server again whose queue was full. The kernel does not report when a unix socket has room.
const RETRY: Duration = Duration::from_millis(5);

/// Connects to a server at a path (unix(7)). While the server's queue is full, tries again for as long as the caller
/// waits.
pub async fn connect_local(path: &Path, kind: sys::local::SocketKind) -> io::Result<OwnedFd> {
    loop {
        match sys::local::connect(path, kind) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(RETRY).await,
            result => return result,
        }
    }
}

/// A socket, or another descriptor that can be read or written without blocking.
#[derive(Debug)]
pub struct Descriptor(Watched);

impl Descriptor {
    /// Takes a non-blocking descriptor. Works only where an MPM polls.
    pub fn new(fd: OwnedFd) -> io::Result<Descriptor> {
        Ok(Descriptor(watch(Arc::new(fd), Interest::READABLE | Interest::WRITABLE)?))
    }

    /// Connects to a TCP server, until `deadline` at most.
    pub async fn connect(address: SocketAddr, deadline: Instant) -> io::Result<Descriptor> {
        Descriptor::connect_from(None, address, deadline).await
    }

    /// The same, from this address of the machine.
    pub async fn connect_from(
        source: Option<IpAddr>,
        address: SocketAddr,
        deadline: Instant,
    ) -> io::Result<Descriptor> {
        let socket = Descriptor::new(sys::socket::connect_from(source, address)?)?;
        timeout_at(deadline, async {
            let mut ready = std::future::poll_fn(|cx| socket.0.poll_write_ready(cx)).await?;
            // A socket that is not connected yet can never be written to, even if the reactor thought so.
            while !sys::socket::is_connected(socket.0.get_ref())? {
                ready.clear_ready();
                ready = std::future::poll_fn(|cx| socket.0.poll_write_ready(cx)).await?;
            }
            io::Result::Ok(())
        })
        .await??;
        Ok(socket)
    }

    /// Connects to a server at a path (unix(7)), until `deadline` at most.
    pub async fn connect_unix(path: &Path, deadline: Instant) -> io::Result<Descriptor> {
        Descriptor::new(timeout_at(deadline, connect_local(path, sys::local::SocketKind::Stream)).await??)
    }

    /// Duplicates the socket, for code that watches it itself.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.get_ref().try_clone()
    }

    fn poll<'a, T>(
        mut poll: impl FnMut() -> Poll<io::Result<Ready<'a>>>,
        mut act: impl FnMut(&OwnedFd) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            match ready!(poll())?.try_io(&mut act) {
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Some(result) => return Poll::Ready(result),
                None => {}
            }
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

impl AsyncRead for Descriptor {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = |fd: &OwnedFd| sys::file::read(fd, into.initialize_unfilled());
        let count = ready!(Descriptor::poll(|| self.0.poll_read_ready(cx), read))?;
        into.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Descriptor {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Descriptor::poll(|| self.0.poll_write_ready(cx), |fd| sys::file::write(fd, from))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// On a socket: the other side sees the end. On other descriptors, dropping does that.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match sys::socket::shutdown_write(self.0.get_ref()) {
            Err(error) if sys::socket::is_no_socket(&error) || error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        })
    }
}
