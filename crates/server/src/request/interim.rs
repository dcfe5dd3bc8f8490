//! Sending interim responses.

use std::io;

use http::Version;

use crate::message::fields::Fields;
use crate::request::Request;

impl Request {
    /// Sends an interim response: a status of 1xx other than 100 and 101, with its fields. Do not drop it halfway. It
    /// is the caller's error if the final response has begun, or if the request is not the client's own.
    pub async fn send_interim(&mut self, status: u16, fields: &Fields) -> io::Result<()> {
        if self.data.version < Version::Http11 {
            // The client, or its configuration (`downgrade-1.0`), says that it understands none.
            return Ok(());
        }
        let Some(interim) = self.interim.as_ref().filter(|_| matches!(status, 102..=199)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let sent = interim.send(&self.data.head, status, fields, self.vhost.plan.timeout).await?;
        self.account.sent.interim += sent;
        Ok(())
    }
}
