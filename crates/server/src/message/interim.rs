//! Interim responses (RFC 9110 section 15.2), sent before the final answer to a request.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use http::Version;

use crate::message::fields::Fields;
use crate::message::head::RequestHead;
use crate::request::Request;

/// Sends an interim response; returns its length in bytes.
pub type SendingInterim<'a> = Pin<Box<dyn Future<Output = io::Result<u64>> + Send + 'a>>;

/// A protocol's way to the client before the final answer to one request. `100 Continue` is not sent here: reading the
/// [body](crate::BodySource) does that.
pub trait Interim: Send + Sync {
    /// Sends an interim response to the request with this head, or nothing if the client could not understand it. If it
    /// cannot be sent as a whole within `time`, nothing else goes out any more.
    fn send<'a>(&'a self, head: &'a RequestHead, status: u16, fields: &'a Fields, time: Duration)
    -> SendingInterim<'a>;

    /// The protocols that the client would like to speak over a tunnel instead, separated by commas.
    fn tunnel_for<'h>(&self, head: &'h RequestHead) -> Option<Cow<'h, [u8]>>;
}

impl Request {
    /// Sends an interim response: a status of 1xx other than 100 and 101, with its fields. Do not drop it halfway. It
    /// is the caller's error if the final answer has begun, or if the request is not the client's own.
    pub async fn send_interim(&mut self, status: u16, fields: &Fields) -> io::Result<()> {
        if self.asked.version < Version::Http11 {
            // The client, or its configuration (`downgrade-1.0`), says that it understands none.
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
