//! The settings of servers and managed domains.

use std::time::Duration;

use conf::{Listed, Setting, settings};

use super::keys::KeyKind;
use super::values::{Names, RenewMode, RequireHttps, Span};

// The defaults that the table of directives shows.
pub(super) const MUST_STAPLE: bool = false;
pub(super) const STAPLING: bool = false;
pub(super) const STAPLE_OTHERS: bool = true;
pub(super) const PROFILE_IS_MANDATORY: bool = false;
pub(super) const STORE_DIR: &str = "md";
pub(super) const BASE_SERVER: bool = false;
pub(super) const STATUS: bool = true;
pub(super) const DNS01_VERSION: u32 = 1;
pub(super) const RETRY_FAILOVER: u32 = 13;

settings! {
    /// The settings of a server or of a managed domain.
    pub struct MdServer {
        pub authorities: Setting<Vec<String>>,
        pub agreement: Setting<String>,
        pub challenges: Setting<Vec<String>>,
        pub contact: Setting<String>,
        pub renew_mode: Setting<RenewMode> = RenewMode::Auto,
        pub members_auto: Setting<bool> = true,
        pub must_staple: Setting<bool> = MUST_STAPLE,
        pub(crate) private_keys: Setting<Vec<KeyKind>>,
        pub renew_window: Setting<Span> = Span::Percent(33),
        pub warn_window: Setting<Span> = Span::Percent(10),
        pub require_https: Setting<RequireHttps> = RequireHttps::Off,
        pub certificate_files: Listed<String>,
        pub key_files: Listed<String>,
        /// Key identifier and MAC key of an existing external account.
        pub account_binding: Setting<Option<(String, String)>>,
        pub dns01: Setting<String>,
        pub stapling: Setting<bool> = STAPLING,
        pub staple_others: Setting<bool> = STAPLE_OTHERS,
        pub profile: Setting<String>,
        pub profile_is_mandatory: Setting<bool> = PROFILE_IS_MANDATORY,
        pub ca_file: Setting<Option<String>>,
        // The settings below can only be set for the whole server.
        pub http_port: Setting<Option<u16>> = Some(80),
        pub https_port: Setting<Option<u16>> = Some(443),
        pub http_proxy: Setting<String>,
        pub store_dir: Setting<String>,
        pub notify: Setting<String>,
        pub message: Setting<String>,
        pub base_server: Setting<bool> = BASE_SERVER,
        pub status: Setting<bool> = STATUS,
        pub dns01_version: Setting<u32> = DNS01_VERSION,
        pub retry_delay: Setting<Duration> = Duration::from_secs(30),
        pub retry_failover: Setting<u32> = RETRY_FAILOVER,
        pub match_names: Setting<Names> = Names::All,
        pub initial_delay: Setting<Duration> = Duration::ZERO,
        pub check_interval: Setting<Duration> = Duration::from_secs(12 * 60 * 60),
    }
}
