//! `RequestReadTimeout`: the deadlines for a handshake and for a request's head and body.

use std::time::Duration;

use sys::time::Instant;

/// How long a head or a body may take (`RequestReadTimeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTimeout {
    /// The time allowed from the beginning.
    pub first: Duration,
    /// The maximum, however much arrives; `None`: without end.
    pub most: Option<Duration>,
    /// Bytes per second that earn more time; 0: none do.
    pub rate: u32,
}

impl ReadTimeout {
    /// The deadline for reading, if `received` bytes have come since `start`.
    pub fn deadline(&self, start: Instant, received: u64) -> Instant {
        let earned = match self.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs(received / u64::from(rate)),
        };
        let allowed = self.first + earned;
        start + self.most.map_or(allowed, |most| allowed.min(most))
    }
}

/// The rules for reading the bodies of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyRules {
    /// `Timeout`: between two pieces.
    pub(crate) timeout: Duration,
    /// `RequestReadTimeout body=`
    pub(crate) read_timeout: Option<ReadTimeout>,
    pub(crate) limits: http::Limits,
}

conf::settings! {
    /// `RequestReadTimeout`, set by mod_reqtimeout and applied by the connection.
    pub struct ReadTimeouts {
        /// For a TLS handshake.
        pub handshake: conf::Setting<Option<ReadTimeout>>,
        /// For the head.
        pub header: conf::Setting<Option<ReadTimeout>>,
        /// For the body.
        pub body: conf::Setting<Option<ReadTimeout>>,
    }
}
