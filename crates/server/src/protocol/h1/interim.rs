//! Interim responses in the form of HTTP/1.1, over any transport.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::time::Duration;

use http::h1::framing::Persistence;
use http::h1::response::HeadWriter;
use http::{KnownField, Version};
use runtime::executor::timeout;

use crate::message::fields::Fields;
use crate::message::head::RequestHead;
use crate::message::interim::{Interim, SendingInterim};
use crate::transport::endpoint::Transport;

impl<T: Transport> Interim for T {
    fn send<'a>(
        &'a self,
        head: &'a RequestHead,
        status: u16,
        fields: &'a Fields,
        time: Duration,
    ) -> SendingInterim<'a> {
        Box::pin(async move {
            // HTTP/1.0 knows none (RFC 9110 section 15.2).
            if head.version() < Version::Http11 {
                return Ok(0);
            }
            let mut bytes = Vec::new();
            let mut written = HeadWriter::start(&mut bytes, status);
            for (name, value) in fields.iter() {
                written.field(name, &http::text::to_bytes(value)).map_err(io::Error::other)?;
            }
            written.end();
            let mut sent = 0;
            let all = async {
                while sent < bytes.len() {
                    sent += poll_fn(|cx| self.poll_send(cx, &bytes[sent..], false)).await?;
                }
                Ok(sent as u64)
            };
            let result = timeout(time, all).await.map_err(io::Error::from).and_then(|sent| sent);
            if result.is_err() {
                // The client may have received half a head. An error means that the connection is already gone.
                let _ = self.shutdown();
            }
            result
        })
    }

    /// `Upgrade` counts only if `Connection` names it (RFC 9110 section 7.8).
    fn tunnel_for<'h>(&self, head: &'h RequestHead) -> Option<Cow<'h, [u8]>> {
        let (table, text) = head.parts();
        let asks = head.version() >= Version::Http11 && Persistence::of(table, text).upgrade;
        head.combined(KnownField::Upgrade).filter(|_| asks)
    }
}
