//! Tunnels: a request whose client continues with another protocol (RFC 9110 section 7.8, RFC 8441).

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

/// The client's end of a tunnel: its bytes after the request's head, and the bytes to it.
pub trait TunnelStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> TunnelStream for T {}

/// Speaks over a tunnel, which ends when this does. It may be dropped at any wait: the client is gone, nothing has
/// moved for `Timeout`, or the server ends.
pub type TunnelFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Speaks the protocol of a tunnel with a client.
pub type SpeakTunnel = Box<dyn FnOnce(Box<dyn TunnelStream>) -> TunnelFuture + Send>;

/// A handler's response to a request that [may become a tunnel](crate::Request::tunnel_for), or to the `CONNECT` of a forward
/// proxy's client. Further fields are the request's.
pub struct Tunnel {
    /// The protocol spoken over it, one of those that the client named; `None` after `CONNECT`, which names none.
    pub protocol: Option<String>,
    /// Speaks it.
    pub speak: SpeakTunnel,
    /// How long it may be silent, if that is longer than `Timeout`.
    pub timeout: Option<Duration>,
}

impl Tunnel {
    /// How long it may be silent, where `Timeout` is this.
    pub(crate) fn silence(&self, timeout: Duration) -> Duration {
        self.timeout.map_or(timeout, |own| own.max(timeout))
    }
}
