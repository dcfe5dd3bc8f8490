//! How long a client may take to send something.

use std::time::{Duration, Instant};

/// How long a head or a body may take (`RequestReadTimeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTimeout {
    /// From the beginning on.
    pub first: Duration,
    /// However much arrives; `None`: without end.
    pub most: Option<Duration>,
    /// Bytes a second that earn more time; 0: none do.
    pub rate: u32,
}

impl ReadTimeout {
    /// When reading must be over, `received` bytes after `start`.
    pub fn deadline(&self, start: Instant, received: u64) -> Instant {
        let earned = match self.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs(received / u64::from(rate)),
        };
        let allowed = self.first + earned;
        start + self.most.map_or(allowed, |most| allowed.min(most))
    }
}

/// How bodies of a connection are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyRules {
    /// `Timeout`: between two pieces.
    pub(crate) timeout: Duration,
    /// `RequestReadTimeout body=`
    pub(crate) read_timeout: Option<ReadTimeout>,
    pub(crate) limits: http1::Limits,
}

conf::settings! {
    /// `RequestReadTimeout`, filled by mod_reqtimeout and obeyed by the connection.
    pub struct ReadTimeouts {
        /// For a TLS handshake.
        pub handshake: conf::Setting<Option<ReadTimeout>>,
        /// For the head.
        pub header: conf::Setting<Option<ReadTimeout>>,
        /// For the body.
        pub body: conf::Setting<Option<ReadTimeout>>,
    }
}
