//! Encrypted connections: their configuration, certificates and keys.
//! tidy: table
//!
//! Apache manual: mod_ssl. Checks and messages of the configuration were measured on 2.4.71; help texts are those of
//! Debian's build. `-t` does not read certificates and keys, as in Apache.

mod access;
pub(crate) mod backends;
mod certificates;
mod choice;
mod clients;
mod context;
mod examine;
mod expiry;
mod health;
mod keys;
mod loading;
mod managed;
mod names;
mod notation;
mod ocsp;
mod openssl;
mod pair;
mod pass_phrases;
mod paths;
mod pem;
mod published;
mod responder;
mod set;
mod settings;
mod shared_staples;
mod shown;
mod sni;
mod staples;
mod stapling;
mod suites;
mod tickets;
mod values;
mod variables;

use std::net::SocketAddr;

use conf::directive::Args::{Flag, Raw, Take1, Take2, Take12, Take23, Words};
use conf::{Allowed, Directive, ModuleInfo, SettingsMap, row};
use rustls::server::ClientHello;
use server::PhaseHook::Now;
use server::core::CoreServer;
use server::{Configured, Draft, Encryption, Flow, HelperHook, Hook, Module, Order, Phase, Request, Server};

pub use self::certificates::{end_of, has_key};
pub use self::expiry::{Expiry, all as expiries};
pub use self::loading::Reloader;
pub(crate) use self::managed::{Managed, Served, manage};
#[cfg(fuzzing)]
pub use self::ocsp::fuzzing;
use self::settings::is_expected;
pub use self::settings::{SslDir, SslProxy, SslServer};
pub use self::shown::{ShownCertificate, shown as shown_certificates};
pub use self::values::NamedFile;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "ssl_module", source: "mod_ssl.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Mutex("ssl-cache"),
        Hook::Mutex("ssl-stapling"),
        Hook::Mutex("ssl-stapling-refresh"),
        Hook::BeforeStart(pass_phrases::starts_a_server),
        Hook::Tick(expiry::tell),
        Hook::Examine(examine::files),
        Hook::Fingerprints(shown::fingerprints),
        Hook::Connect(health::connect),
        Hook::Command("reload-certificates", loading::reload_on_command),
        Hook::Check(make_places),
        Hook::Start(loading::prepare),
        Hook::OpenLogs(loading::log_notes),
        Hook::HelperProcess(&STAPLING),
        Hook::Encryption(&ENCRYPTION),
        Hook::Variable(variables::find),
        Hook::Extension(variables::peer_extensions),
        Hook::Phase(Phase::PostRead, Order::ReallyFirst, Now(is_encrypted)),
        Hook::Phase(Phase::PostRead, Order::ReallyFirst, Now(sni::check)),
        Hook::Dump("DUMP_CERTS", certificate_files),
        Hook::Phase(Phase::AccessChecker, Order::Middle, Now(access::check)),
        Hook::Phase(Phase::CheckUser, Order::First, Now(access::log_in)),
        Hook::Phase(Phase::AuthChecker, Order::Middle, Now(access::stay_out)),
        Hook::Phase(Phase::Fixups, Order::Middle, Now(variables::into_environment)),
        Hook::Authz(&access::SSL),
        Hook::Authz(&access::SSL_VERIFY_CLIENT),
    ],
};

static STAPLING: HelperHook = stapling::helper;
static ENCRYPTION: Encryption = Encryption { is_used, is_expected, configure, admit: clients::admit };

fn is_used(server: &Server) -> bool {
    server.hosts.iter().any(is_expected)
}

/// Selects the virtual host that the ClientHello names, and its configuration. A host without TLS is refused.
fn configure(server: &Server, local: SocketAddr, hello: &ClientHello<'_>) -> Result<Configured, String> {
    let name = hello.server_name().map(str::to_ascii_lowercase);
    let (asked, _) = server.host_at(local, name.as_deref());
    let host = if is_expected(asked) { asked } else { server.host_at(local, None).0 };
    let challenge = managed::manager(&server.main().settings).and_then(|manager| manager.challenge(server, hello));
    if let Some(config) = challenge {
        return Ok(Configured { host: host.index, config });
    }
    match context::of(host) {
        Some(context) => Ok(Configured { host: host.index, config: context.config.clone() }),
        None => Err("its certificates were not read".into()),
    }
}

/// Gives each server a context of its own.
fn make_places(draft: &mut Draft, _: &mut conf::Context) -> Result<(), conf::Error> {
    make_place(&mut draft.main);
    backends::make_place(&mut draft.main);
    draft.hosts.iter_mut().for_each(|host| make_place(&mut host.server));
    Ok(())
}

fn make_place(settings: &mut SettingsMap) {
    let engine = settings.get::<SslServer>().engine.clone();
    context::make_place(settings);
    if let (Some(on), Some(origin)) = (engine.get(), engine.origin()) {
        settings.edit::<CoreServer>().encrypted.set(*on, origin);
    }
}

/// Refuses clients that speak HTTP on a TLS port, with Apache's error text.
fn is_encrypted(request: &mut Request) -> Flow {
    if !request.is_misdirected() {
        return Flow::Declined;
    }
    let note = "Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />\n Instead use the HTTPS scheme to access \
                this URL, please.<br />\n";
    request.notes.set("error-notes", note);
    request.note_reason(400, "ssl", None, |_| ("the client speaks HTTP on a port for HTTPS".into(), String::new()));
    Flow::Status(400)
}

/// The certificate files of all servers in Apache's order: the main server's, then those of the virtual hosts from last
/// to first.
fn certificate_files(server: &Server) -> String {
    let (main, others) = server.hosts.split_at(1);
    let files = main.iter().chain(others.iter().rev()).flat_map(|host| {
        let files = host.settings.get::<SslServer>().certificate_files.get();
        files.into_iter().flatten().map(|file| format!("  {}\n", file.path))
    });
    std::iter::once("Server certificates:\n".to_string()).chain(files).collect()
}

const SERVER: Allowed = Allowed::SERVER;
const PROXY: Allowed = Allowed::SERVER.or(Allowed::PROXY);
const GLOBAL: Allowed = Allowed::GLOBAL;
const AUTH: Allowed = Allowed::AUTH;
const CONF_AUTH: Allowed = Allowed::CONF.or(Allowed::AUTH);
const OPTIONS: Allowed = Allowed::OPTIONS;
const ANY: Allowed = Allowed::ANY;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SSLPassPhraseDialog", GLOBAL, Take1(set::pass_phrase), "builtin", "SSL dialog mechanism for the pass phrase query ('builtin', '|/path/to/pipe_program', or 'exec:/path/to/cgi_program')"),
    row("SSLSessionCache", GLOBAL, Take1(set::session_cache), "none", "SSL Session Cache storage ('none', 'nonenotnull', 'dbm:/path/to/file')").differs("Sessions are resumed by tickets, which need no cache. A client of TLS 1.2 that has no tickets makes a full handshake each time."),
    row("SSLCryptoDevice", GLOBAL, Take1(set::crypto_device), "builtin", "SSL external Crypto Device usage ('builtin', '...')").without_effect("There are no devices."),
    row("SSLRandomSeed", GLOBAL, Take23(set::random_seed), "", "SSL Pseudo Random Number Generator (PRNG) seeding source ('startup|connect builtin|file:/path|exec:/path [bytes]')").without_effect("The system's random numbers need no seed."),
    row("SSLVHostSNIPolicy", GLOBAL, Take1(set::sni_policy), "secure", "SSL VirtualHost SNI compatibility policy setting"),
    row("SSLEngine", SERVER, Take1(set::engine), "off", "SSL switch for the protocol engine ('on', 'off')"),
    row("SSLFIPS", GLOBAL, Flag(set::fips), "off", "Enable FIPS-140 mode (`on', `off')").differs("The server does not start with `on`."),
    row("SSLCipherSuite", CONF_AUTH, Take12(set::cipher_suite), "DEFAULT", "Colon-delimited list of permitted SSL Ciphers, optional preceded by protocol identifier ('XXX:...:XXX' - see manual)").differs("TLS 1.2 has the six suites with ECDHE and an AEAD, TLS 1.3 its three. The error log names the suites of a list that are not offered; the server does not start with a list that leaves nothing."),
    row("SSLCertificateFile", SERVER, Take1(|c, v| paths::key_material(c, |s: &mut SslServer| &mut s.certificate_files, v)), "", "SSL Server Certificate file ('/path/to/file' - PEM or DER encoded)").differs("Files may be DER, too. Names of objects in security modules (`pkcs11:`) are refused when the server starts."),
    row("SSLCertificateKeyFile", SERVER, Take1(|c, v| paths::key_material(c, |s: &mut SslServer| &mut s.key_files, v)), "", "SSL Server Private Key file ('/path/to/file' - PEM or DER encoded)").differs("Keys that are encrypted with PBES1, scrypt or single DES, and names of objects in security modules (`pkcs11:`), are refused when the server starts."),
    row("SSLCertificateChainFile", SERVER, Take1(|c, v| paths::file(c, |s: &mut SslServer| &mut s.chain_file, v)), "", "SSL Server CA Certificate Chain file ('/path/to/file' - PEM encoded)"),
    row("SSLSessionTicketKeyFile", SERVER, Take1(|c, v| paths::file(c, |s: &mut SslServer| &mut s.ticket_key_file, v)), "", "TLS session ticket encryption/decryption key file (RFC 5077) ('/path/to/file' - file with 48 bytes of random data)").differs("Ticket keys are derived from it, and change each `SSLSessionCacheTimeout`."),
    row("SSLCACertificatePath", CONF_AUTH, Take1(|c, v| paths::ca(c, paths::section_directory, |d: &mut SslDir| &mut d.ca_path, v)), "", "SSL CA Certificate path ('/path/to/dir' - contains PEM encoded files)").differs("All files with hashed names are read when the server starts, not while it runs."),
    row("SSLCACertificateFile", CONF_AUTH, Take1(|c, v| paths::ca(c, paths::section_file, |d: &mut SslDir| &mut d.ca_file, v)), "", "SSL CA Certificate file ('/path/to/file' - PEM encoded)"),
    row("SSLCADNRequestPath", SERVER, Take1(|c, v| paths::directory(c, |s: &mut SslServer| &mut s.ca_names_path, v)), "", "SSL CA Distinguished Name path ('/path/to/dir' - symlink hashes to PEM of acceptable CA names to request)"),
    row("SSLCADNRequestFile", SERVER, Take1(|c, v| paths::file(c, |s: &mut SslServer| &mut s.ca_names_file, v)), "", "SSL CA Distinguished Name file ('/path/to/file' - PEM encoded to derive acceptable CA names to request)"),
    row("SSLCARevocationPath", SERVER, Take1(|c, v| paths::directory(c, |s: &mut SslServer| &mut s.revocation_path, v)), "", "SSL CA Certificate Revocation List (CRL) path ('/path/to/dir' - contains PEM encoded files)").differs("All files with hashed names are read when the server starts, not while it runs."),
    row("SSLCARevocationFile", SERVER, Take1(|c, v| paths::file(c, |s: &mut SslServer| &mut s.revocation_file, v)), "", "SSL CA Certificate Revocation List (CRL) file ('/path/to/file' - PEM encoded)"),
    row("SSLCARevocationCheck", SERVER, Raw(|c, line| { let value = set::revocation(c, line)?; c.server_set(|s: &mut SslServer| &mut s.revocation_check, value) }), "none", "SSL CA Certificate Revocation List (CRL) checking mode"),
    row("SSLVerifyClient", CONF_AUTH, Take1(set::verify_client), "none", "SSL Client verify type ('none', 'optional', 'require', 'optional_no_ca')").differs("The server asks for a certificate in the handshake only. If only a section wants one, all clients of the virtual host are asked, and only that section demands it. A `.htaccess` file can demand what the configuration asks for, and otherwise answers 403."),
    row("SSLVerifyDepth", CONF_AUTH, Take1(set::verify_depth), "1", "SSL Client verify depth ('N' - number of intermediate certificates)"),
    row("SSLSessionCacheTimeout", SERVER, Take1(set::cache_timeout), "300", "SSL Session Cache object lifetime ('N' - number of seconds)"),
    row("SSLProtocol", SERVER, Raw(|c, line| { let value = set::protocols(c, line)?; c.server_set(|s: &mut SslServer| &mut s.protocols, value) }), "all -SSLv3", "Enable or disable various SSL protocols ('[+-][TLSv1|TLSv1.1|TLSv1.2] ...' - see manual)").differs("TLS 1.2 and 1.3 are offered. If a list other than `all` names older versions, the error log says so; the server does not start with a list that names only those."),
    row("SSLHonorCipherOrder", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.honor_cipher_order, on)), "off", "Use the server's cipher ordering preference"),
    row("SSLCompression", SERVER, Flag(set::compression), "off", "Enable SSL level compression (`on', `off')"),
    row("SSLSessionTickets", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.session_tickets, on)), "on", "Enable or disable TLS session tickets(`on', `off')"),
    row("SSLInsecureRenegotiation", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.insecure_renegotiation, on)), "off", "Enable support for insecure renegotiation").without_effect("Connections are never renegotiated."),
    row("SSLUserName", CONF_AUTH, Take1(|c, v| { let name = v.to_string(); c.set(|d: &mut SslDir| &mut d.user_name, name) }), "", "Set user name to SSL variable value"),
    row("SSLStrictSNIVHostCheck", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.strict_sni_vhost_check, on)), "off", "Strict SNI virtual host checking"),
    row("SSLSRPVerifierFile", SERVER, Take1(|c, v| paths::file(c, |s: &mut SslServer| &mut s.srp_verifier_file, v)), "", "SRP verifier file ('/path/to/file' - created by srptool)").differs("The server does not start with it: there is no login by SRP."),
    row("SSLSRPUnknownUserSeed", SERVER, Take1(|c, v| set::text(c, |s: &mut SslServer| &mut s.srp_unknown_user_seed, v)), "", "SRP seed for unknown users (to avoid leaking a user's existence) ('some secret text')").without_effect("There is no login by SRP."),
    row("SSLProxyEngine", PROXY, Flag(|c, on| c.set(|p: &mut SslProxy| &mut p.engine, on)), "off", "SSL switch for the proxy protocol engine ('on', 'off')"),
    row("SSLProxyProtocol", PROXY, Raw(|c, line| { let value = set::protocols(c, line)?; c.set(|p: &mut SslProxy| &mut p.protocols, value) }), "all -SSLv3", "SSL Proxy: enable or disable SSL protocol flavors ('[+-][TLSv1|TLSv1.1|TLSv1.2] ...' - see manual)").differs("TLS 1.2 and 1.3 are offered. If a list other than `all` names older versions, the error log says so; the server does not start with a list that names only those."),
    row("SSLProxyCipherSuite", PROXY, Take12(set::proxy_cipher_suite), "", "SSL Proxy: colon-delimited list of permitted SSL ciphers , optionally preceded by protocol specifier ('XXX:...:XXX' - see manual)").differs("TLS 1.2 has the six suites with ECDHE and an AEAD, TLS 1.3 its three. The error log names the suites of a list that are not offered; the server does not start with a list that leaves nothing."),
    row("SSLProxyVerify", PROXY, Take1(|c, v| { let value = set::verify(c, v)?; c.set(|p: &mut SslProxy| &mut p.verify, value) }), "none", "SSL Proxy: whether to verify the remote certificate ('on' or 'off')"),
    row("SSLProxyVerifyDepth", PROXY, Take1(|c, v| { let value = set::depth(c, v)?; c.set(|p: &mut SslProxy| &mut p.verify_depth, value) }), "1", "SSL Proxy: maximum certificate verification depth ('N' - number of intermediate certificates)"),
    row("SSLProxyCACertificateFile", PROXY, Take1(|c, v| paths::section_file(c, |p: &mut SslProxy| &mut p.ca_file, v)), "", "SSL Proxy: file containing server certificates ('/path/to/file' - PEM encoded certificates)"),
    row("SSLProxyCACertificatePath", PROXY, Take1(|c, v| paths::section_directory(c, |p: &mut SslProxy| &mut p.ca_path, v)), "", "SSL Proxy: directory containing server certificates ('/path/to/dir' - contains PEM encoded certificates)").differs("All files with hashed names are read when the server starts, not while it runs."),
    row("SSLProxyCARevocationPath", PROXY, Take1(|c, v| paths::section_directory(c, |p: &mut SslProxy| &mut p.revocation_path, v)), "", "SSL Proxy: CA Certificate Revocation List (CRL) path ('/path/to/dir' - contains PEM encoded files)").differs("All files with hashed names are read when the server starts, not while it runs."),
    row("SSLProxyCARevocationFile", PROXY, Take1(|c, v| paths::section_file(c, |p: &mut SslProxy| &mut p.revocation_file, v)), "", "SSL Proxy: CA Certificate Revocation List (CRL) file ('/path/to/file' - PEM encoded)"),
    row("SSLProxyCARevocationCheck", PROXY, Raw(|c, line| { let value = set::revocation(c, line)?; c.set(|p: &mut SslProxy| &mut p.revocation_check, value) }), "none", "SSL Proxy: CA Certificate Revocation List (CRL) checking mode"),
    row("SSLProxyMachineCertificateFile", PROXY, Take1(|c, v| paths::section_file(c, |p: &mut SslProxy| &mut p.machine_file, v)), "", "SSL Proxy: file containing client certificates ('/path/to/file' - PEM encoded certificates)").differs("The server does not start if no certificate in the file has its key."),
    row("SSLProxyMachineCertificatePath", PROXY, Take1(|c, v| paths::section_directory(c, |p: &mut SslProxy| &mut p.machine_path, v)), "", "SSL Proxy: directory containing client certificates ('/path/to/dir' - contains PEM encoded certificates)").differs("The server does not start if no certificate in the files has its key."),
    row("SSLProxyMachineCertificateChainFile", PROXY, Take1(|c, v| paths::section_file(c, |p: &mut SslProxy| &mut p.machine_chain_file, v)), "", "SSL Proxy: file containing issuing certificates of the client certificate (`/path/to/file' - PEM encoded certificates)"),
    row("SSLProxyCheckPeerExpire", PROXY, Flag(|c, on| c.set(|p: &mut SslProxy| &mut p.check_peer_expire, on)), "on", "SSL Proxy: check the peer certificate's expiration date"),
    row("SSLProxyCheckPeerCN", PROXY, Flag(|c, on| c.set(|p: &mut SslProxy| &mut p.check_peer_cn, on)), "on", "SSL Proxy: check the peer certificate's CN"),
    row("SSLProxyCheckPeerName", PROXY, Flag(|c, on| c.set(|p: &mut SslProxy| &mut p.check_peer_name, on)), "on", "SSL Proxy: check the peer certificate's name (must be present in subjectAltName extension or CN").differs("If the URL has an IP address, the certificate may name that (`iPAddress`)."),
    row("SSLOptions", OPTIONS, Raw(set::options), "", "Set one or more options to configure the SSL engine('[+-]option[=value] ...' - see manual)").differs("The option `OptRenegotiate` has no effect: connections are not renegotiated."),
    row("SSLRequireSSL", AUTH, Words(|c, _| c.set(|d: &mut SslDir| &mut d.require_ssl, true)), "", "Require the SSL protocol for the per-directory context (no arguments)"),
    row("SSLRequire", AUTH, Raw(set::require), "", "Require a boolean expression to evaluate to true for granting access(arbitrary complex boolean expression - see manual)"),
    row("SSLRenegBufferSize", AUTH, Take1(set::renegotiation_buffer), "131072", "Configure the amount of memory that will be used for buffering the request body if a per-location SSL renegotiation is required due to changed access control requirements").without_effect("Connections are not renegotiated."),
    row("SSLOCSPEnable", SERVER, Raw(set::ocsp_enable), "off", "Enable use of OCSP to verify certificate revocation mode ('on', 'leaf', 'off')").differs("Resumed sessions are asked about, too. Only `http` responders are asked."),
    row("SSLOCSPDefaultResponder", SERVER, Take1(|c, v| set::text(c, |s: &mut SslServer| &mut s.ocsp_default_responder, v)), "", "URL of the default OCSP Responder"),
    row("SSLOCSPOverrideResponder", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.ocsp_override_responder, on)), "off", "Force use of the default responder URL ('on', 'off')"),
    row("SSLOCSPResponseTimeSkew", SERVER, Take1(|c, v| set::seconds(c, |s: &mut SslServer| &mut s.ocsp_time_skew, v)), "300", "Maximum time difference in OCSP responses"),
    row("SSLOCSPResponseMaxAge", SERVER, Take1(|c, v| set::seconds(c, |s: &mut SslServer| &mut s.ocsp_max_age, v)), "", "Maximum age of OCSP responses"),
    row("SSLOCSPResponderTimeout", SERVER, Take1(|c, v| set::seconds(c, |s: &mut SslServer| &mut s.ocsp_responder_timeout, v)), "10", "OCSP responder query timeout"),
    row("SSLOCSPUseRequestNonce", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.ocsp_request_nonce, on)), "on", "Whether OCSP queries use a nonce or not ('on', 'off')"),
    row("SSLOCSPProxyURL", SERVER, Take1(set::ocsp_proxy_url), "", "Proxy URL to use for OCSP requests"),
    row("SSLOCSPNoVerify", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.ocsp_no_verify, on)), "off", "Do not verify OCSP Responder certificate ('on', 'off')"),
    row("SSLOCSPResponderCertificateFile", SERVER, Take1(|c, v| paths::file(c, |s: &mut SslServer| &mut s.ocsp_responder_certificate_file, v)), "", "Trusted OCSP responder certificates(`/path/to/file' - PEM encoded certificates)"),
    row("SSLStaplingCache", GLOBAL, Take1(set::stapling_cache), "", "SSL Stapling Response Cache storage (`dbm:/path/to/file')").differs("Responses are in memory that all children share, with or without this line. With `redis:HOST` or `memcache:HOST` several machines share them as well."),
    row("SSLUseStapling", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.use_stapling, on)), "off", "SSL switch for the OCSP Stapling protocol (`on', `off')").differs("A separate process asks the responders ahead of time. A handshake never waits for one."),
    row("SSLStaplingResponseTimeSkew", SERVER, Take1(|c, v| set::seconds(c, |s: &mut SslServer| &mut s.stapling_time_skew, v)), "300", "SSL stapling option for maximum time difference in OCSP responses"),
    row("SSLStaplingResponderTimeout", SERVER, Take1(|c, v| set::seconds(c, |s: &mut SslServer| &mut s.stapling_responder_timeout, v)), "10", "SSL stapling option for OCSP responder timeout"),
    row("SSLStaplingResponseMaxAge", SERVER, Take1(|c, v| set::seconds(c, |s: &mut SslServer| &mut s.stapling_max_age, v)), "", "SSL stapling option for maximum age of OCSP responses"),
    row("SSLStaplingStandardCacheTimeout", SERVER, Take1(|c, v| set::seconds(c, |s: &mut SslServer| &mut s.stapling_cache_timeout, v)), "3600", "SSL stapling option for normal OCSP Response Cache Lifetime"),
    row("SSLStaplingReturnResponderErrors", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.stapling_return_errors, on)), "on", "SSL stapling switch to return Status Errors Back to Client(`on', `off')").without_effect("A response is stapled if it says that the certificate is good, otherwise none."),
    row("SSLStaplingFakeTryLater", SERVER, Flag(|c, on| c.server_set(|s: &mut SslServer| &mut s.stapling_fake_try_later, on)), "on", "SSL stapling switch to send tryLater response to client on error (`on', `off')").without_effect("A response is stapled if it says that the certificate is good, otherwise none."),
    row("SSLStaplingErrorCacheTimeout", SERVER, Take1(|c, v| set::seconds(c, |s: &mut SslServer| &mut s.stapling_error_cache_timeout, v)), "600", "SSL stapling option for OCSP Response Error Cache Lifetime"),
    row("SSLStaplingForceURL", SERVER, Take1(|c, v| set::text(c, |s: &mut SslServer| &mut s.stapling_force_url, v)), "", "SSL stapling option to Force the OCSP Stapling URL"),
    row("SSLOpenSSLConfCmd", SERVER, Take2(paths::openssl_command), "", "OpenSSL configuration command").differs("These commands work: `Groups` (`Curves`, `ECDHParameters`), `MinProtocol`, `MaxProtocol`, `Protocol`, `CipherString`, `Ciphersuites`, `SignatureAlgorithms`, `Options` and `NumTickets`. `DHParameters` is passed over: no suite needs them. The server does not start with any other."),
    row("SSLLog", ANY, Raw(set::removed), "", "SSLLog directive is no longer supported - use ErrorLog."),
    row("SSLLogLevel", ANY, Raw(set::removed), "", "SSLLogLevel directive is no longer supported - use LogLevel."),
];
