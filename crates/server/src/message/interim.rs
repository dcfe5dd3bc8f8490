//! Interim responses (RFC 9110 section 15.2), sent before the final response to a request.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use crate::message::fields::Fields;
use crate::message::head::RequestHead;

/// Sends an interim response; returns its length in bytes.
pub type SendingInterim<'a> = Pin<Box<dyn Future<Output = io::Result<u64>> + Send + 'a>>;

/// A protocol's way to the client before the final response to one request. `100 Continue` is not sent here: reading the
/// [body](crate::BodySource) does that.
pub trait Interim: Send + Sync {
    /// Sends an interim response to the request with this head, or nothing if the client could not understand it. If it
    /// cannot be sent as a whole within `time`, nothing else goes out any more.
    fn send<'a>(&'a self, head: &'a RequestHead, status: u16, fields: &'a Fields, time: Duration)
    -> SendingInterim<'a>;

    /// The protocols that the client would like to speak over a tunnel instead, separated by commas.
    fn tunnel_for<'h>(&self, head: &'h RequestHead) -> Option<Cow<'h, [u8]>>;
}
