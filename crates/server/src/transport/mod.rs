//! Transports: how bytes come from a client and go to it, and how long that may take.
//!
//! A transport knows nothing of the protocol that is spoken over it, and no protocol knows what carries its bytes.

pub(crate) mod buffers;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tick;
pub mod tls;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// The ends of a connection: all that a request may know of what carries it.
pub trait Endpoint: Send + Sync {
    /// Our own address.
    fn local(&self) -> io::Result<SocketAddr>;

    /// What the client and we have agreed on, so that nobody between us can read or change what is sent. `None`: anybody can.
    fn session(&self) -> Option<&tls::Session> {
        None
    }

    /// Whether the client sends nothing more, or is gone, and all that it sent was received.
    fn has_ended(&self) -> bool;
}

/// Carries bytes in both directions. All methods take `&self`, so that a body can be read while an answer is written.
pub trait Transport: Endpoint {
    /// Receives into the spare room of `buffer`, at least `room` bytes of it. `Ok(0)` is the end. An empty buffer has no memory
    /// while it waits.
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut Vec<u8>, room: usize) -> Poll<io::Result<usize>>;

    /// Sends; `more` says that further bytes follow at once. Returns how many bytes went out.
    fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8], more: bool) -> Poll<io::Result<usize>>;

    /// Sends a part of a file; moves `offset` on.
    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &OwnedFd,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>>;

    /// Ends once the client has reset the connection. That it only sends nothing more is no reset: it waits for its answer.
    fn reset(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Whether bytes have come that nobody has received, also those that the reactor has not seen yet.
    fn has_input(&self) -> bool;

    /// Shuts our side: the client sees the end of the answer.
    fn shutdown(&self) -> io::Result<()>;

    /// The connection is closed next, and what was sent is all: says so where the end alone could be somebody else's doing.
    fn close(&self) {}
}

/// Receives, waiting for it.
pub(crate) async fn read(transport: &dyn Transport, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
    poll_fn(|cx| transport.poll_read(cx, buffer, room)).await
}

/// The result of `task`; `None` once the client has reset the connection, when nobody is there to be answered.
pub(crate) async fn unless_reset<T>(transport: &dyn Transport, task: impl Future<Output = T>) -> Option<T> {
    let mut task = pin!(task);
    // Most tasks do not wait, and then nothing has to be watched.
    let mut reset = None;
    poll_fn(|cx| match task.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => reset.get_or_insert_with(|| transport.reset()).as_mut().poll(cx).map(|()| None),
    })
    .await
}
