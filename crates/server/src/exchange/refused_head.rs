//! Why a head is refused, whatever protocol it came in.

use conf::Level;
use http::{HeadError, Version};

use crate::request::Request;

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedHead {
    /// Malformed, or too large.
    Invalid(HeadError),
    /// The client took too long to send it.
    Timeout,
    /// The unfinished heads of this process use all the memory they may, and this one has waited longest.
    NoRoom,
    /// The client stopped sending in the middle of it.
    Truncated,
    /// The host in it is unknown, and `StrictHostCheck` demands a known one.
    UnknownHost,
    /// `HttpProtocolOptions RegisteredMethods`, and the method is not registered.
    UnregisteredMethod,
}

impl RefusedHead {
    /// The status of the response.
    pub fn status(self, version: Version) -> u16 {
        match self {
            // As in Apache, whose mod_http2 has no texts of its own for these.
            RefusedHead::Invalid(HeadError::FieldTooLong | HeadError::TooManyFields) if version == Version::Http2 => {
                431
            }
            RefusedHead::Invalid(error) => error.status(),
            RefusedHead::Timeout => 408,
            RefusedHead::NoRoom => 503,
            RefusedHead::Truncated | RefusedHead::UnknownHost => 400,
            RefusedHead::UnregisteredMethod => 501,
        }
    }

    /// A clause for the error log.
    pub fn reason(self) -> &'static str {
        match self {
            RefusedHead::Invalid(error) => error.reason(),
            RefusedHead::Timeout => "AH01382: Request header read timeout",
            RefusedHead::NoRoom => "unfinished requests hold as much memory as they may; this one has waited longest",
            RefusedHead::Truncated => "the client stopped sending in the middle of a head",
            RefusedHead::UnknownHost => "no virtual host has the requested name (StrictHostCheck)",
            RefusedHead::UnregisteredMethod => "the method is not registered (HttpProtocolOptions)",
        }
    }

    /// Whether the head is whole, so that the host in it names the virtual host that answers.
    pub(super) fn has_host(self) -> bool {
        matches!(self, RefusedHead::UnknownHost | RefusedHead::UnregisteredMethod)
    }

    /// Logs it, and leaves the error page a note.
    pub(super) fn note(self, request: &mut Request) {
        let is_http2 = request.data.head.version() == Version::Http2;
        let (module, level) = match self {
            RefusedHead::Invalid(_) if is_http2 => ("http2", Level::Debug),
            RefusedHead::Timeout => ("reqtimeout", Level::Info),
            RefusedHead::NoRoom => ("core", Level::Error),
            RefusedHead::UnknownHost => ("core", Level::Warn),
            RefusedHead::Invalid(_) | RefusedHead::Truncated | RefusedHead::UnregisteredMethod => {
                ("core", Level::Debug)
            }
        };
        match self {
            RefusedHead::UnknownHost => request.log(module, level, unknown_host(request)),
            _ => request.log(module, level, self.reason()),
        }
        if let RefusedHead::Invalid(error) = self
            && !is_http2
            && !error.note().is_empty()
        {
            request.notes.set("error-notes", error.note());
        }
    }
}

/// The error log's text for a request with an unknown host.
fn unknown_host(request: &Request) -> String {
    let name = request.data.hostname.as_deref().unwrap_or_default();
    match &request.vhost.origin {
        None => format!(
            "AH10156: Requested hostname '{name}' did not match any ServerName/ServerAlias in the global server \
             configuration "
        ),
        Some(origin) => format!(
            "AH10157: Requested hostname '{name}' did not match any ServerName/ServerAlias in the matching virtual host \
             (default vhost for current connection is {origin})"
        ),
    }
}
