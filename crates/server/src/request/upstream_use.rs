//! The server behind this one that made a response, for access logs.

use std::sync::OnceLock;
use std::time::Duration;

/// A server that a request was passed on to, and its times.
#[derive(Debug)]
pub struct UpstreamUse {
    /// Its name in the configuration.
    pub name: String,
    /// Where it was reached: host and port, or the path of a socket.
    pub address: String,
    connected: OnceLock<Duration>,
    begun: OnceLock<Duration>,
}

impl UpstreamUse {
    /// For a request that goes to this server.
    pub fn new(name: String, address: String) -> UpstreamUse {
        UpstreamUse { name, address, connected: OnceLock::new(), begun: OnceLock::new() }
    }

    /// Records how long it took to connect.
    pub fn set_connected(&self, time: Duration) {
        // The request may be sent again over another connection: the first one tells how the server was.
        let _ = self.connected.set(time);
    }

    /// Records how long after the request the response began.
    pub fn set_begun(&self, time: Duration) {
        let _ = self.begun.set(time);
    }

    /// How long it took to connect. `None`: the connection was there, or could not be made.
    pub fn connected(&self) -> Option<Duration> {
        self.connected.get().copied()
    }

    /// How long after the request the response began.
    pub fn begun(&self) -> Option<Duration> {
        self.begun.get().copied()
    }
}
