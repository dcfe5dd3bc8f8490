//! Managed domains: the server obtains certificates from a certificate authority and renews them automatically.
//! tidy: table
//!
//! Apache manual: mod_md; checks and messages were measured on 2.4.71. A helper process does the work ([`renewal`]): it
//! orders certificates by ACME (RFC 8555) and stores them with their keys, out of the children's reach ([`store`]).
//! Meanwhile the children answer the challenges ([`challenges`]).

mod acme;
mod certificates;
mod challenges;
mod client;
mod domains;
#[cfg(fuzzing)]
pub mod fuzzing;
mod keys;
mod notify;
mod order;
mod proofs;
mod provider;
mod renewal;
mod set;
mod settings;
mod status;
mod store;
mod values;

use conf::directive::Args::{Raw, Section, Take1, Take2, Take12, Words};
use conf::{Allowed, Directive, ModuleInfo, on_or_off, row, shown};
use server::PhaseHook::Now;
use server::{Handler, Hook, Module, Order, Phase};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "md_module", source: "mod_md.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(provider::provide),
        Hook::Check(domains::resolve),
        Hook::HelperProcess(&renewal::HELPER),
        Hook::Phase(Phase::PostRead, Order::ReallyFirst, Now(challenges::is_challenge)),
        Hook::Phase(Phase::PostRead, Order::First, Now(challenges::is_unready)),
        Hook::Phase(Phase::PostRead, Order::Middle, Now(challenges::require_https)),
        Hook::Handler(Order::ReallyFirst, Handler::Now(challenges::handle)),
        Hook::Handler(Order::Middle, Handler::Now(status::handle)),
    ],
};

const SERVER: Allowed = Allowed::SERVER;
const STAPLED: &str = "Stapling is done by mod_ssl: see SSLUseStapling and SSLStaplingStandardCacheTimeout.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("MDCertificateAuthority", SERVER, Words(set::authorities), "letsencrypt", "URL(s) or known name(s) of CA issuing the certificates"),
    row("MDCertificateAgreement", SERVER, Take1(|c, v| set::text(c, |s| &mut s.agreement, v)), "", "either 'accepted' or the URL of CA Terms-of-Service agreement you accept"),
    row("MDCAChallenges", SERVER, Words(set::challenges), "tls-alpn-01 http-01 dns-01", "A list of challenge types to be used."),
    row("MDCertificateProtocol", SERVER, Take1(|_, _| Ok(())), "ACME", "Protocol used to obtain/renew certificates").without_effect("ACME version 2 (RFC 8555) is the only protocol."),
    row("MDContactEmail", SERVER, Take1(|c, v| set::text(c, |s| &mut s.contact, v)), "", "Email address used for account registration"),
    row("MDDriveMode", SERVER, Take1(set::renew_mode), "auto", "deprecated, older name for MDRenewMode"),
    row("MDRenewMode", SERVER, Take1(set::renew_mode), "auto", "Controls how renewal of Managed Domain certificates shall be handled."),
    row("MDomain", SERVER, Words(set::domain), "", "A group of server names with one certificate"),
    row("<MDomainSet", SERVER, Section(set::domain_set), "", "Container for a managed domain with common settings and certificate."),
    row("<MDomain", SERVER, Section(set::domain_set), "", "Short form for <MDomainSet> container."),
    row("MDMember", SERVER, Words(set::members), "", "Define domain name(s) part of the Managed Domain. Use 'auto' or 'manual' to enable/disable auto adding names from virtual hosts."),
    row("MDMembers", SERVER, Words(set::members), "auto", "Define domain name(s) part of the Managed Domain. Use 'auto' or 'manual' to enable/disable auto adding names from virtual hosts."),
    row("MDMustStaple", SERVER, Take1(|c, v| set::on_off(c, |s| &mut s.must_staple, v)), on_or_off(settings::MUST_STAPLE), "Enable/Disable the Must-Staple flag for new certificates."),
    row("MDPortMap", SERVER, Take12(set::port_map), "http:80 https:443", "Declare the mapped ports 80 and 443 on the local server. E.g. 80:8000 to indicate that the server port 8000 is reachable as port 80 from the internet. Use 80:- to indicate that port 80 is not reachable from the outside."),
    row("MDPrivateKeys", SERVER, Words(set::private_keys), "RSA 2048", "set the type and parameters for private key generation").differs("An RSA key has 2048, 3072 or 4096 bits: a number between two of them counts as the larger one, and one above them is refused. Curves are secp256r1 (P-256), secp384r1 (P-384) and secp521r1 (P-521); others are refused."),
    row("MDHttpProxy", SERVER, Take1(set::http_proxy), "", "URL of a HTTP(S) proxy to use for outgoing connections").differs("The connection to the proxy is not encrypted. What goes through it is, since the certificate authority is reached by https."),
    row("MDStoreDir", SERVER, Take1(|c, v| set::global_text(c, |s| &mut s.store_dir, v)), settings::STORE_DIR, "the directory for file system storage of managed domain data.").differs("Only root can read the keys in it. Accounts are not shared with Apache, whose account keys are encrypted; certificates are."),
    row("MDRenewWindow", SERVER, Take1(|c, v| set::span(c, |s| &mut s.renew_window, v)), "33%", "Time length for renewal before certificate expires (defaults to days)."),
    row("MDRequireHttps", SERVER.or(Allowed::AUTH).or(Allowed::KEPT_NOWHERE), Take1(set::require_https), "off", "Redirect non-secure requests to the https: equivalent."),
    row("MDNotifyCmd", SERVER, Raw(|c, v| set::global_text(c, |s| &mut s.notify, v)), "", "Set the command to run when signup/renew of domain is complete."),
    row("MDBaseServer", SERVER, Take1(|c, v| set::global_on_off(c, |s| &mut s.base_server, v)), on_or_off(settings::BASE_SERVER), "Allow managing of base server outside virtual hosts."),
    row("MDChallengeDns01", SERVER, Raw(|c, v| set::text(c, |s| &mut s.dns01, v)), "", "Set the command for setup/teardown of dns-01 challenges"),
    row("MDChallengeDns01Version", SERVER, Take1(set::dns01_version), shown!(settings::DNS01_VERSION), "Set the type of arguments to call `MDChallengeDns01` with"),
    row("MDCertificateFile", SERVER, Take1(|c, v| set::own_file(c, |s| &mut s.certificate_files, v)), "", "set the static certificate (chain) file to use for this domain."),
    row("MDCertificateKeyFile", SERVER, Take1(|c, v| set::own_file(c, |s| &mut s.key_files, v)), "", "set the static private key file to use for this domain."),
    row("MDServerStatus", SERVER, Take1(|c, v| set::global_on_off(c, |s| &mut s.status, v)), on_or_off(settings::STATUS), "On to see Managed Domains in server-status.").differs("It allows the handler `md-status`. The status page does not show managed domains."),
    row("MDCertificateStatus", SERVER, Take1(set::any_on_off), on_or_off(true), "On to see Managed Domain expose /.httpd/certificate-status.").without_effect("Nothing is published at /.httpd/certificate-status: see the handler `md-status`."),
    row("MDWarnWindow", SERVER, Take1(|c, v| set::span(c, |s| &mut s.warn_window, v)), "10%", "When less time remains for a certificate, send our/log a warning (defaults to days)"),
    row("MDMessageCmd", SERVER, Raw(|c, v| set::global_text(c, |s| &mut s.message, v)), "", "Set the command run when a message about a domain is issued."),
    row("MDStapling", SERVER, Take1(|c, v| set::on_off(c, |s| &mut s.stapling, v)), on_or_off(settings::STAPLING), "Enable/Disable OCSP Stapling for this/all Managed Domain(s).").differs("It means SSLUseStapling on for the virtual hosts of the domain."),
    row("MDStapleOthers", SERVER, Take1(|c, v| set::global_on_off(c, |s| &mut s.staple_others, v)), on_or_off(settings::STAPLE_OTHERS), "Enable/Disable OCSP Stapling for certificates not in Managed Domains.").differs("With MDStapling on, it means SSLUseStapling on for the other virtual hosts."),
    row("MDStaplingKeepResponse", SERVER, Take1(set::any_span), "7d", "The amount of time to keep an OCSP response in the store.").without_effect(STAPLED),
    row("MDStaplingRenewWindow", SERVER, Take1(set::any_span), "33%", "Time length for renewal before OCSP responses expire (defaults to days).").without_effect(STAPLED),
    row("MDCertificateCheck", SERVER, Take2(|_, _, _| Ok(())), "", "Set name and URL pattern for a certificate monitoring site.").without_effect("The status page does not show managed domains."),
    row("MDActivationDelay", SERVER, Take1(set::activation_delay), "", "How long to delay activation of new certificates").without_effect("A new certificate is used at once."),
    row("MDCACertificateFile", SERVER, Take1(set::ca_file), "none", "Set the CA file to use for connections"),
    row("MDHttpProxyCACertificateFile", SERVER, Take1(|_, _| Ok(())), "none", "Set the CA file to use for connections to the HTTP(S) proxy").without_effect("The connection to the proxy is not encrypted."),
    row("MDExternalAccountBinding", SERVER, Take12(set::account_binding), "none", "Set the external account binding keyid and hmac values to use at CA"),
    row("MDRetryDelay", SERVER, Take1(set::retry_delay), "30s", "Time length for first retry, doubled on every consecutive error."),
    row("MDRetryFailover", SERVER, Take1(set::retry_failover), shown!(settings::RETRY_FAILOVER), "The number of errors before a failover to another CA is triggered."),
    row("MDStoreLocks", SERVER, Take1(set::store_locks), "off", "Configure locking of store for updates.").differs("The store is always locked during work on it."),
    row("MDMatchNames", SERVER, Take1(set::match_names), "all", "Determines how DNS names are matched to vhosts."),
    row("MDInitialDelay", SERVER, Take1(set::initial_delay), "0s", "How long to delay the first certificate check."),
    row("MDCheckInterval", SERVER, Take1(set::check_interval), "12h", "Time between certificate checks."),
    row("MDProfile", SERVER, Take1(|c, v| set::text(c, |s| &mut s.profile, v)), "", "The name of an CA profile to order certificates for."),
    row("MDProfileMandatory", SERVER, Take1(|c, v| set::on_off(c, |s| &mut s.profile_is_mandatory, v)), on_or_off(settings::PROFILE_IS_MANDATORY), "Determines if a configured CA profile is mandatory."),
    row("MDRenewViaARI", SERVER, Take1(set::any_on_off), on_or_off(true), "Enable/Disable ACME ARI (RFC 9773) to trigger renewals.").without_effect("The authority is not asked when to renew: MDRenewWindow decides."),
];

#[cfg(test)]
mod tests {
    /// The messages are those of Apache 2.4.71, except for features not supported here.
    #[test]
    fn directives() {
        let on_off = "unknown 'x', supported parameter values are 'on' and 'off'";
        let outside = "is only valid inside a '<MDomainSet' context, not here";
        let inside = "is not allowed inside an '<MDomainSet' context";
        let table: &[(&str, &str)] = &[
            ("MDomain", "needs at least one domain name"),
            ("MDomain auto", "needs at least one domain name"),
            ("MDomain a.example b.example manual", ""),
            ("<MDomainSet>\n</MDomainSet>", "<MDomainSet > section must specify a unique domain name"),
            ("<MDomainSet a\n</MDomainSet>", "<MDomainSet> directive missing closing '>'"),
            ("<MDomainSet a>\nMDomain x\n</MDomainSet>", &format!("MDomain {inside}")),
            ("<MDomainSet a>\nMDMember b manual\nMDRenewMode always\nMDRequireHttps temporary\n</MDomainSet>", ""),
            ("<MDomain a>\nMDPortMap 80:80\n</MDomain>", &format!("MDPortMap {inside}")),
            ("MDMember x", r#"unknown value, use "auto|manual""#),
            ("MDMember x y", &format!("MDMember {outside}")),
            ("MDMembers auto", ""),
            ("MDCertificateAuthority LetsEncrypt https://ca.example/dir", ""),
            (
                "MDCertificateAuthority foo",
                "The CA name 'foo' is not known and it is not a URL either (missing uri scheme). Known CA names are: LetsEncrypt \
                 LetsEncrypt-Test Buypass Buypass-Test.",
            ),
            ("MDRenewMode x", "unknown MDDriveMode x"),
            ("MDMustStaple x", on_off),
            ("MDServerStatus x", on_off),
            ("MDBaseServer x", on_off),
            ("MDRequireHttps on", "unknown 'on', supported parameter values are 'temporary' and 'permanent'"),
            (
                "<Directory />\nMDRequireHttps off\n</Directory>",
                "MDRequireHttps cannot occur within <Directory> section",
            ),
            ("MDRenewWindow 5x", "MDRenewWindow has unrecognized format"),
            ("MDRenewWindow 5m", "MDRenewWindow has unrecognized format"),
            ("MDRenewWindow 100%", "MDRenewWindow a length of 100% or more is not allowed."),
            ("MDRenewWindow -5", ""),
            ("MDWarnWindow 5D", ""),
            ("MDWarnWindow x%", "MDWarnWindow has unrecognized format"),
            ("MDPrivateKeys", "needs to specify the private key type"),
            ("MDPrivateKeys Default x", "'Default' allows no other parameter"),
            ("MDPrivateKeys RSA 1024", "must be 2048 or higher in order to be considered safe."),
            ("MDPrivateKeys RSA 8192", "8192 is too large for an RSA key length: 4096 is the most."),
            ("MDPrivateKeys RSA 2048 RSA 4096", "two keys of type 'RSA' are not possible."),
            ("MDPrivateKeys secp384r1 rsa3072 P-256", ""),
            ("MDPrivateKeys X25519", "'X25519' is not a supported kind of key: RSA, secp256r1, secp384r1, secp521r1"),
            ("MDPortMap 80", "no ':' after first port number"),
            ("MDPortMap x:1", "no ':' after first port number"),
            ("MDPortMap 81:80", "mapped port number must be 80 or 443"),
            ("MDPortMap 80:0", "invalid number for port map, must be in ]0,65535]"),
            ("MDPortMap http:- 443:8443", ""),
            ("MDHttpProxy x", "missing uri scheme"),
            ("MDHttpProxy ftp://a", "uri scheme must be http or https"),
            ("MDChallengeDns01Version 3", "Only versions `1` and `2` are supported"),
            ("MDCertificateFile /x", &format!("MDCertificateFile {outside}")),
            ("MDStaplingKeepResponse x", "MDStaplingKeepResponse has unrecognized format"),
            ("MDActivationDelay x", "unrecognized duration format"),
            ("MDExternalAccountBinding none", ""),
            ("MDExternalAccountBinding /nowhere", "MDExternalAccountBinding: file not found: /nowhere"),
            ("MDRetryDelay 0", "minimum delay must be greater than 0"),
            ("MDRetryFailover 0", "invalid argument, must be a number > 0"),
            ("MDStoreLocks x", "neither 'on', 'off' or a duration specified"),
            ("MDStoreLocks 5s", ""),
            ("MDMatchNames x", "invalid argument, must be a 'all' or 'servernames'"),
            ("MDInitialDelay -1", "initial delay must not be negative"),
            ("MDCheckInterval 1ms", "check interval cannot be less than one second"),
        ];
        crate::testing::check(table);
    }
}
