//! Tunnels: a request whose client continues with another protocol (RFC 9110 section 7.8, RFC 8441).

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use http::{Known, Version};

use crate::request::Request;

/// The client's end of a tunnel: its bytes after the request's head, and the bytes to it.
pub trait TunnelStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> TunnelStream for T {}

/// Speaks over a tunnel, which ends when this does. It may be dropped at any wait: the client is gone, nothing has
/// moved for `Timeout`, or the server ends.
pub type Speaking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handler's answer to a request that [may become a tunnel](Request::tunnel_for). Further fields are the request's.
pub struct Tunnel {
    /// The protocol spoken over it, one of those that the client named.
    pub protocol: String,
    /// Speaks it.
    pub speak: Box<dyn FnOnce(Box<dyn TunnelStream>) -> Speaking + Send>,
}

impl Request {
    /// The protocols that the client would like to speak, separated by commas; `None`: this request cannot become a
    /// tunnel.
    pub fn tunnel_for(&self) -> Option<Cow<'_, str>> {
        // If a module has removed the field, the client's wish is void.
        let taken = self.asked.head.has(Known::Upgrade)
            && self.asked.changed_fields().is_some_and(|fields| !fields.contains("Upgrade"));
        let asks = self.asked.version >= Version::Http11 && !taken;
        let interim = self.interim.as_ref().filter(|_| asks && self.body.is_none())?;
        Some(match interim.tunnel_for(&self.asked.head)? {
            Cow::Borrowed(bytes) => http::text::from_bytes(bytes),
            Cow::Owned(bytes) => Cow::Owned(http::text::from_bytes(&bytes).into_owned()),
        })
    }
}
