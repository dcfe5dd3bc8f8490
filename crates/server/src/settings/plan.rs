//! Values that every request of a virtual host needs, looked up once.

use std::time::Duration;

use conf::SettingsMap;

use crate::settings::core::{CoreServer, Tri};
use crate::settings::http2::Http2;
use crate::settings::read_timeout::{BodyRules, ReadTimeout, ReadTimeouts};

/// Values that every request of a virtual host needs, looked up once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) limits: http::Limits,
    /// `HttpProtocolOptions RegisteredMethods`: other methods get 501, whichever handler would take them.
    pub(crate) only_registered_methods: bool,
    pub(crate) keep_alive: bool,
    pub(crate) keep_alive_timeout: Duration,
    /// 0: endless.
    pub(crate) keep_alive_max: u32,
    pub(crate) body: BodyRules,
    pub(crate) head_timeout: Option<ReadTimeout>,
    pub(crate) handshake_timeout: Option<ReadTimeout>,
    pub(crate) timeout: Duration,
    pub(crate) path: http::uri::PathOptions,
    pub(crate) redirects_max: u32,
    pub(crate) lookups_max: u32,
    /// Whether clients may begin with HTTP/2 without encryption.
    pub(crate) h2c: bool,
    /// Whether they may change from HTTP/1.1 to it.
    pub(crate) upgrades: bool,
}

impl Plan {
    /// From the settings of a virtual host.
    pub(crate) fn of(settings: &SettingsMap) -> Plan {
        let core = settings.get::<CoreServer>();
        let limits = http::Limits {
            line: core.limit_request_line(),
            fields: core.limit_request_fields(),
            field_size: core.limit_request_field_size(),
            strict: core.strict.value_or(true),
        };
        // A clock that counts nanoseconds cannot represent much later times.
        let timeout = core.timeout().min(Duration::from_secs(u32::MAX.into()));
        let read_timeouts = settings.get::<ReadTimeouts>();
        let encoded_slashes = match core.encoded_slashes() {
            Tri::Off => http::uri::EncodedSlashes::Off,
            Tri::On => http::uri::EncodedSlashes::On,
            Tri::Other => http::uri::EncodedSlashes::NoDecode,
        };
        let (redirects_max, lookups_max) = core.internal_recursion();
        let keep_alive_timeout = core.keep_alive_timeout();
        let http2 = settings.get::<Http2>();
        Plan {
            limits,
            only_registered_methods: core.registered_methods.value_or(false),
            keep_alive: core.keep_alive() && !keep_alive_timeout.is_zero(),
            keep_alive_timeout,
            keep_alive_max: core.max_keep_alive_requests(),
            body: BodyRules { timeout, read_timeout: read_timeouts.body.value_or(None), limits },
            head_timeout: read_timeouts.header.value_or(None),
            handshake_timeout: read_timeouts.handshake.value_or(None),
            timeout,
            path: http::uri::PathOptions { merge_slashes: core.merge_slashes(), encoded_slashes },
            redirects_max,
            lookups_max,
            h2c: core.speaks("h2c") && http2.is_there() && http2.direct(),
            upgrades: core.speaks("h2c") && http2.is_there() && http2.upgrade(),
        }
    }
}
