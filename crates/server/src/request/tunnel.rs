//! Whether a request may become a tunnel.

use std::borrow::Cow;

use http::{KnownField, Version};

use crate::request::Request;

impl Request {
    /// The protocols that the client would like to speak, separated by commas; `None`: this request cannot become a
    /// tunnel.
    pub fn tunnel_for(&self) -> Option<Cow<'_, str>> {
        // If a module has removed the field, the client's wish is void.
        let taken = self.data.head.has(KnownField::Upgrade)
            && self.data.changed_fields().is_some_and(|fields| !fields.contains("Upgrade"));
        let asks = self.data.version >= Version::Http11 && !taken;
        let interim = self.interim.as_ref().filter(|_| asks && self.body.is_none())?;
        Some(match interim.tunnel_for(&self.data.head)? {
            Cow::Borrowed(bytes) => http::text::from_bytes(bytes),
            Cow::Owned(bytes) => Cow::Owned(http::text::from_bytes(&bytes).into_owned()),
        })
    }
}
