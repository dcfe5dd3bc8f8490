//! Why a head is refused, whatever protocol it came in.

use conf::Level;
use http::{HeadError, Version};

use crate::request::Request;

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Malformed, or too large.
    Head(HeadError),
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

impl Refusal {
    /// The status of the response.
    pub fn status(self, version: Version) -> u16 {
        match self {
            // As in Apache, whose mod_http2 has no texts of its own for these.
            Refusal::Head(HeadError::FieldTooLong | HeadError::TooManyFields) if version == Version::Http2 => 431,
            Refusal::Head(error) => error.status(),
            Refusal::Timeout => 408,
            Refusal::NoRoom => 503,
            Refusal::Truncated | Refusal::UnknownHost => 400,
            Refusal::UnregisteredMethod => 501,
        }
    }

    /// A clause for the error log.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::Head(error) => error.reason(),
            Refusal::Timeout => "AH01382: Request header read timeout",
            Refusal::NoRoom => "unfinished requests hold as much memory as they may; this one has waited longest",
            Refusal::Truncated => "the client stopped sending in the middle of a head",
            Refusal::UnknownHost => "no virtual host has the requested name (StrictHostCheck)",
            Refusal::UnregisteredMethod => "the method is not registered (HttpProtocolOptions)",
        }
    }

    /// Whether the head is whole, so that the host in it names the virtual host that answers.
    pub(super) fn has_host(self) -> bool {
        matches!(self, Refusal::UnknownHost | Refusal::UnregisteredMethod)
    }

    /// Logs it, and leaves the error page a note.
    pub(super) fn note(self, request: &mut Request) {
        let is_http2 = request.data.head.version() == Version::Http2;
        let (module, level) = match self {
            Refusal::Head(_) if is_http2 => ("http2", Level::Debug),
            Refusal::Timeout => ("reqtimeout", Level::Info),
            Refusal::NoRoom => ("core", Level::Error),
            Refusal::UnknownHost => ("core", Level::Warn),
            Refusal::Head(_) | Refusal::Truncated | Refusal::UnregisteredMethod => ("core", Level::Debug),
        };
        match self {
            Refusal::UnknownHost => request.log(module, level, unknown_host(request)),
            _ => request.log(module, level, self.reason()),
        }
        if let Refusal::Head(error) = self
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
