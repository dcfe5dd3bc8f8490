//! Interim responses (RFC 9110 section 15.2): what a client hears before the final answer to its request.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use http1::Version;

use crate::request::{Fields, Request, RequestHead};

/// An interim response on its way; how many bytes it was.
pub type SendingInterim<'a> = Pin<Box<dyn Future<Output = io::Result<u64>> + Send + 'a>>;

/// A protocol's way to the client of one request before its final answer. `100 Continue` is not sent here: reading the
/// [body](crate::BodySource) does that.
pub trait Interim: Send + Sync {
    /// Sends an interim response to the request with this head, or nothing where the client could not make sense of it. Where
    /// it cannot be sent as a whole within `time` nothing else goes out any more.
    fn send<'a>(&'a self, head: &'a RequestHead, status: u16, fields: &'a Fields, time: Duration)
    -> SendingInterim<'a>;

    /// The protocols with which the client would go on over a tunnel instead of this one, separated by commas.
    fn tunnel_for<'h>(&self, head: &'h RequestHead) -> Option<Cow<'h, [u8]>>;
}

impl Request {
    /// Sends an interim response: a status of 1xx other than 100 and 101, with its fields. Not to be given up half-way. It is
    /// the caller's error where the final answer has begun, or where the request is not the client's own.
    pub async fn send_interim(&mut self, status: u16, fields: &Fields) -> io::Result<()> {
        if self.asked.version < Version::Http11 {
            // So the client says, or the configuration of it (`downgrade-1.0`): it knows none.
            return Ok(());
        }
        let Some(interim) = self.interim.as_ref().filter(|_| matches!(status, 102..=199)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let sent = interim.send(&self.asked.head, status, fields, self.vhost.plan.timeout).await?;
        self.account.sent.interim += sent;
        Ok(())
    }
}
