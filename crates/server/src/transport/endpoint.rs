//! The traits [`Transport`] and [`Endpoint`]: what a protocol and a request know of what carries their bytes.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::task::{Context, Poll};

use runtime::scoreboard::CountedConnection;
use sys::pipe::Pipe;

use crate::transport::park_state::ParkState;
use crate::transport::tls::session::Session;

/// The ends of a connection: all that a request may know of its transport.
pub trait Endpoint: Send + Sync {
    /// Our own address.
    fn local(&self) -> io::Result<SocketAddr>;

    /// The TLS session with the client, which protects the connection against reading and changes. `None`: there is no
    /// protection.
    fn session(&self) -> Option<&Session> {
        None
    }

    /// Whether the client has stopped sending, or is gone, and all its bytes were received.
    fn has_ended(&self) -> bool;
}

/// The ends of a connection that does not exist: of a request that no client has sent, or that is over.
pub(crate) struct NoConnection {
    pub(crate) local: SocketAddr,
    pub(crate) session: Option<Session>,
}

impl Endpoint for NoConnection {
    fn local(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    fn has_ended(&self) -> bool {
        false
    }
}

/// What a connection is counted among as long as it is open.
pub type Counted = Vec<CountedConnection>;

/// Carries bytes in both directions. All methods take `&self`, so that a body can be read while a response is written.
pub trait Transport: Endpoint {
    /// Appends received bytes to `buffer`, for which it makes room for at least `room`. `Ok(0)` is the end. An empty buffer
    /// occupies no memory during a wait.
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut Vec<u8>, room: usize) -> Poll<io::Result<usize>>;

    /// Sends; `more` says that further bytes follow at once. Returns how many bytes went out.
    fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8], more: bool) -> Poll<io::Result<usize>>;

    /// Sends two pieces, one behind the other, as [`poll_send`](Transport::poll_send) sends one.
    fn poll_send_both(&self, cx: &mut Context<'_>, first: &[u8], second: &[u8], more: bool) -> Poll<io::Result<usize>>;

    /// Sends a part of a file; advances `offset`.
    fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &OwnedFd,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>>;

    /// Whether it takes bytes from a pipe.
    fn splices(&self) -> bool {
        false
    }

    /// Sends what is in a pipe; `more` says that further bytes follow at once. Returns how many bytes went out.
    fn poll_splice(&self, _cx: &mut Context<'_>, _pipe: &mut Pipe, _more: bool) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Ready once the client has reset the connection. A client that has only stopped sending waits for its response; that
    /// is no reset.
    fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether there are bytes to receive, even if the reactor has not seen them yet.
    fn has_input(&self) -> bool;

    /// Shuts our side: the client sees the end of the response.
    fn shutdown(&self) -> io::Result<()>;

    /// Ready once the announcement of our end has gone out, which [`shutdown`](Transport::shutdown) does not wait for.
    fn poll_close(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The connection's record of what it waits for, and what it holds meanwhile.
    fn park_state(&self) -> &ParkState;

    /// Keeps what counts the connection until its socket is closed. Called only once.
    fn keep(&self, counted: Counted);

    /// Sends a message that nothing may come in between, and that is not tried again: it goes out as a whole, if not at
    /// once then before anything else. Pending: nothing of it was sent.
    fn poll_say(&self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, message, false)
    }

    /// Called before the connection is closed, when everything was sent: announces the end if an attacker could fake a
    /// plain one.
    fn close(&self) {}
}

/// Receives, and waits for it.
#[cfg(test)]
pub(crate) async fn read(transport: &dyn Transport, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
    poll_fn(|cx| transport.poll_read(cx, buffer, room)).await
}

/// The result of `task`; `None` once the client has reset the connection, so that there is nobody to answer.
pub(crate) async fn unless_reset<T>(transport: &dyn Transport, task: impl Future<Output = T>) -> Option<T> {
    let mut task = pin!(task);
    poll_fn(|cx| match task.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => transport.poll_reset(cx).map(|()| None),
    })
    .await
}
