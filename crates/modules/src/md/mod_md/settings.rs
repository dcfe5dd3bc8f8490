//! The settings of servers and managed domains.

use std::time::Duration;

use conf::{Listed, Setting, settings};

use super::keys::KeyKind;
use super::values::{Names, RenewMode, RequireHttps, Span};

settings! {
    /// The settings of a server or of a managed domain.
    pub struct MdServer {
        pub authorities: Setting<Vec<String>>,
        pub agreement: Setting<String>,
        pub challenges: Setting<Vec<String>>,
        pub contact: Setting<String>,
        pub renew_mode: Setting<RenewMode>,
        pub members_auto: Setting<bool>,
        pub must_staple: Setting<bool>,
        pub(crate) private_keys: Setting<Vec<KeyKind>>,
        pub renew_window: Setting<Span>,
        pub warn_window: Setting<Span>,
        pub require_https: Setting<RequireHttps>,
        pub certificate_files: Listed<String>,
        pub key_files: Listed<String>,
        /// Key identifier and MAC key of an existing external account.
        pub account_binding: Setting<Option<(String, String)>>,
        pub dns01: Setting<String>,
        pub stapling: Setting<bool>,
        pub staple_others: Setting<bool>,
        pub profile: Setting<String>,
        pub profile_is_mandatory: Setting<bool>,
        pub ca_file: Setting<Option<String>>,
        // The settings below can only be set for the whole server.
        pub http_port: Setting<Option<u16>>,
        pub https_port: Setting<Option<u16>>,
        pub http_proxy: Setting<String>,
        pub store_dir: Setting<String>,
        pub notify: Setting<String>,
        pub message: Setting<String>,
        pub base_server: Setting<bool>,
        pub status: Setting<bool>,
        pub dns01_version: Setting<u32>,
        pub retry_delay: Setting<Duration>,
        pub retry_failover: Setting<u32>,
        pub match_names: Setting<Names>,
        pub initial_delay: Setting<Duration>,
        pub check_interval: Setting<Duration>,
    }
}
