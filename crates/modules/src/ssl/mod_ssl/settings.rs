//! The settings of servers, of sections, and of connections to other servers.

use std::sync::Arc;

use conf::expr::Expr;
use conf::{Listed, Setting, settings};
use server::VirtualHost;
use server::module::NamedCache;

use super::values::{
    Cache, CertificateCheck, NamedFile, PassPhrase, Protocols, Seed, Sign, SniPolicy, SslOption, Verify,
};

/// The default of `SSLVerifyDepth`.
pub(super) const VERIFY_DEPTH: u32 = 1;

settings! {
    /// The settings that apply to a whole server.
    pub struct SslServer {
        pub engine: Setting<bool>,
        pub fips: Setting<bool>,
        pub pass_phrase: Setting<PassPhrase>,
        pub random_seeds: Listed<Seed>,
        /// `None`: sessions are not cached.
        pub session_cache: Setting<Option<Cache>>,
        pub cache_timeout: Setting<u32>,
        pub sni_policy: Setting<SniPolicy>,
        pub strict_sni_vhost_check: Setting<bool>,
        pub protocols: Setting<Protocols>,
        pub tls13_cipher_suites: Setting<String>,
        pub honor_cipher_order: Setting<bool>,
        pub insecure_renegotiation: Setting<bool>,
        pub session_tickets: Setting<bool>,
        pub ticket_key_file: Setting<String>,
        /// The lines of a virtual host replace all of the main server's.
        pub certificate_files: Setting<Vec<NamedFile>>,
        pub key_files: Setting<Vec<NamedFile>>,
        pub chain_file: Setting<String>,
        pub ca_names_path: Setting<String>,
        pub ca_names_file: Setting<String>,
        pub revocation_path: Setting<String>,
        pub revocation_file: Setting<String>,
        pub revocation_check: Setting<CertificateCheck>,
        pub srp_verifier_file: Setting<String>,
        pub srp_unknown_user_seed: Setting<String>,
        pub ocsp_enable: Setting<CertificateCheck>,
        pub ocsp_default_responder: Setting<String>,
        pub ocsp_override_responder: Setting<bool>,
        pub ocsp_time_skew: Setting<u32>,
        pub ocsp_max_age: Setting<u32>,
        pub ocsp_responder_timeout: Setting<u32>,
        pub ocsp_request_nonce: Setting<bool>,
        pub ocsp_proxy_url: Setting<String>,
        pub ocsp_no_verify: Setting<bool>,
        pub ocsp_responder_certificate_file: Setting<String>,
        pub stapling_cache: Setting<NamedCache>,
        pub use_stapling: Setting<bool>,
        pub stapling_time_skew: Setting<u32>,
        pub stapling_responder_timeout: Setting<u32>,
        pub stapling_max_age: Setting<u32>,
        pub stapling_cache_timeout: Setting<u32>,
        pub stapling_return_errors: Setting<bool>,
        pub stapling_fake_try_later: Setting<bool>,
        pub stapling_error_cache_timeout: Setting<u32>,
        pub stapling_force_url: Setting<String>,
        pub openssl_commands: Listed<(String, String)>,
        /// `SSLVerifyClient` and `SSLVerifyDepth` in sections: the handshake asks for what they will want.
        pub verify_in_sections: Listed<Verify>,
        pub depths_in_sections: Listed<u32>,
    }
}

settings! {
    /// The settings of a section, or of a server outside sections.
    pub struct SslDir {
        pub cipher_suites: Setting<String>,
        pub ca_path: Setting<String>,
        pub ca_file: Setting<String>,
        pub verify_client: Setting<Verify>,
        pub verify_depth: Setting<u32>,
        pub user_name: Setting<String>,
        pub options: Listed<(Sign, SslOption)>,
        pub require_ssl: Setting<bool>,
        /// The expressions with their texts.
        pub requires: Listed<(Arc<Expr>, Arc<str>)>,
        pub renegotiation_buffer: Setting<u32>,
    }
}

settings! {
    /// The settings of a section for connections to other servers.
    pub struct SslProxy {
        pub engine: Setting<bool>,
        pub protocols: Setting<Protocols>,
        pub cipher_suites: Setting<String>,
        pub tls13_cipher_suites: Setting<String>,
        pub verify: Setting<Verify>,
        pub verify_depth: Setting<u32>,
        pub ca_file: Setting<String>,
        pub ca_path: Setting<String>,
        pub revocation_path: Setting<String>,
        pub revocation_file: Setting<String>,
        pub revocation_check: Setting<CertificateCheck>,
        pub machine_file: Setting<String>,
        pub machine_path: Setting<String>,
        pub machine_chain_file: Setting<String>,
        pub check_peer_expire: Setting<bool>,
        pub check_peer_cn: Setting<bool>,
        pub check_peer_name: Setting<bool>,
    }
}

/// Whether the connections of a virtual host are to be encrypted (`SSLEngine`).
pub(super) fn is_expected(host: &VirtualHost) -> bool {
    host.settings.get::<SslServer>().engine.value_or(false)
}

impl SslDir {
    /// Whether an option is on. A word without a sign discards the words before it.
    pub(super) fn has(&self, wanted: SslOption) -> bool {
        self.options.iter().fold(false, |is_on, (sign, option)| match sign {
            Sign::None => *option == wanted,
            Sign::Plus => is_on || *option == wanted,
            Sign::Minus => is_on && *option != wanted,
        })
    }
}
