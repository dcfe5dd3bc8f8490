//! URLs of this server, for a request's response.

use std::borrow::Cow;

use crate::request::Request;
use crate::settings::core::options::Bits;
use crate::settings::core::{CoreDir, Tri};

impl Request {
    /// The `Accept-Ranges` value for a response with a length.
    pub fn accept_ranges(&self) -> &'static str {
        if self.dir::<CoreDir>().max_ranges() == Some(0) { "none" } else { "bytes" }
    }

    /// The options in effect.
    pub fn options(&self) -> Bits {
        self.dir::<CoreDir>().options.0.effective()
    }

    /// The name of this server for URLs it makes itself (`UseCanonicalName`).
    pub fn server_name(&self) -> Cow<'_, str> {
        match (&self.data.hostname, canonical_name(self)) {
            (Some(host), false) => Cow::Borrowed(host),
            _ => Cow::Borrowed(&self.vhost.name),
        }
    }

    /// The port that goes with [`Request::server_name`].
    pub fn server_port(&self) -> u16 {
        server_port(self)
    }

    /// An absolute URL of this server; `path` begins with `/` and is already escaped.
    pub fn url(&self, path: &str) -> String {
        let name = self.server_name();
        let name = if name.contains(':') && !name.starts_with('[') { format!("[{name}]") } else { name.into_owned() };
        let scheme = self.vhost.scheme;
        match self.server_port() {
            port if port == self.vhost.scheme_port() => format!("{scheme}://{name}{path}"),
            port => format!("{scheme}://{name}:{port}{path}"),
        }
    }

    /// The port in the client's `Host` or target.
    fn asked_port(&self) -> Option<u16> {
        let host = self.data.head.authority()?;
        http::Authority::parse(host, false)?.port
    }
}

/// Whether our own URLs use the configured name instead of the requested one.
fn canonical_name(request: &Request) -> bool {
    !matches!(request.dir::<CoreDir>().canonical_name(), Tri::Off)
}

/// The port of our own URLs (Apache manual, `UseCanonicalName`, `UseCanonicalPhysicalPort`).
fn server_port(request: &Request) -> u16 {
    let dir = request.dir::<CoreDir>();
    let physical = dir.canonical_physical_port().then(|| request.client.local().port());
    let configured = request.vhost.port;
    let port = match dir.canonical_name() {
        Tri::On => configured.or(physical),
        // `DNS` concerns the name.
        Tri::Off | Tri::Other => request.asked_port().or(physical).or(configured),
    };
    port.filter(|port| *port != 0).unwrap_or(request.vhost.scheme_port())
}
