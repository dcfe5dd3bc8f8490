//! Checks whether a request may use another virtual host than its connection.
//!
//! The connection has the certificate, the protocols and the verified client of the virtual host named in the handshake
//! (SNI). `SSLVHostSNIPolicy` defines how much the request's virtual host may differ from it.

use std::sync::atomic::Ordering;

use conf::Level;
use server::{Flow, Request, RequestKind, VirtualHost};

use super::settings::{SslDir, SslServer, VERIFY_DEPTH};
use super::values::{CertificateCheck, CheckDepth, NamedFile, Protocols, SniPolicy, Verify};
use super::{context, suites};

/// The default policy.
const POLICY: SniPolicy = SniPolicy::Secure;

/// Refuses requests that the connection may not carry.
pub(super) fn check(request: &mut Request) -> Flow {
    let Some(named) = request.named().filter(|_| matches!(request.kind, RequestKind::Main)) else {
        return Flow::Declined;
    };
    let server = request.server;
    let (named, made_for) = (named.server_name.as_deref(), &server.hosts[named.host]);
    let policy = server.main().settings.get::<SslServer>().sni_policy.value_or(POLICY);
    match (named, request.data.hostname.as_deref()) {
        (Some(name), None) => {
            let text = format!("AH02031: Hostname {name} provided via SNI, but no hostname provided in HTTP request");
            request.log("ssl", Level::Error, text);
            return Flow::Status(400);
        }
        (None, _) if (is_strict(made_for) || is_strict(request.vhost)) && server.is_shared(request.local()) => {
            request.log("ssl", Level::Info, "AH02033: No hostname was provided via SNI for a name based virtual host");
            let note = "Reason: The client software did not provide a hostname using Server Name Indication (SNI), which is \
                        required to access this server.<br />\n";
            request.notes.set("error-notes", note);
            return Flow::Status(403);
        }
        _ if agree(made_for, request.vhost, policy) => {
            if request.logs("ssl", Level::Debug) {
                log_session(request);
            }
            return Flow::Declined;
        }
        _ => {}
    }
    let (name, how) = match named {
        Some(name) => (name, "provided via SNI"),
        None => (made_for.name.as_str(), "(default host as no SNI was provided)"),
    };
    let asked = request.data.hostname.as_deref().unwrap_or("(null)");
    let policy = policy.name();
    request.log(
        "ssl",
        Level::Error,
        format!(
            "AH02032: Hostname {name} {how} and hostname {asked} provided via HTTP have no compatible SSL setup for policy \
             '{policy}'"
        ),
    );
    Flow::Status(421)
}

/// Logs the negotiated protocol and cipher, and the number of the request on its connection.
fn log_session(request: &Request) {
    let Some(session) = request.session() else { return };
    let before = request.client().keepalives.load(Ordering::Relaxed);
    if before == 0 {
        let (version, (cipher, bits)) = (suites::version_name(session.version), suites::describe(session.suite));
        let text = format!("AH02041: Protocol: {version}, Cipher: {cipher} ({bits}/{bits} bits)");
        request.log("ssl", Level::Debug, text);
    }
    let which = if before == 0 { "Initial (No.1)".into() } else { format!("Subsequent (No.{})", before + 1) };
    let (child, host) = (std::process::id(), request.vhost.log_name());
    request.log(
        "ssl",
        Level::Debug,
        format!("AH02034: {which} HTTPS request received for child {child} (server {host})"),
    );
}

fn is_strict(host: &VirtualHost) -> bool {
    host.settings.get::<SslServer>().strict_sni_vhost_check.value_or(false)
}

/// Whether a connection made for one host is good enough for the other.
fn agree(one: &VirtualHost, other: &VirtualHost, policy: SniPolicy) -> bool {
    let is_same = one.index == other.index;
    is_same
        || match policy {
            SniPolicy::Strict => false,
            SniPolicy::Secure => clients_of(one) == clients_of(other) && encryption(one) == encryption(other),
            SniPolicy::AuthOnly => clients_of(one) == clients_of(other),
            SniPolicy::Insecure => true,
        }
}

/// The settings that decide which clients may connect.
fn clients_of(host: &VirtualHost) -> impl PartialEq + '_ {
    const UNCHECKED: CertificateCheck = CertificateCheck { depth: CheckDepth::None, unknown_is_good: false };
    let (server, base) = (host.settings.get::<SslServer>(), host.base_settings::<SslDir>());
    (
        (
            server.engine.value_or(false),
            base.verify_client.value_or(Verify::None),
            base.verify_depth.value_or(VERIFY_DEPTH),
        ),
        (base.ca_file.get(), base.ca_path.get(), server.ca_names_file.get(), server.ca_names_path.get()),
        (server.revocation_file.get(), server.revocation_path.get(), server.revocation_check.value_or(UNCHECKED)),
        (server.ocsp_enable.value_or(UNCHECKED), server.ocsp_default_responder.get()),
        // What sections want, too.
        context::of(host).and_then(|context| Some(context.clients.as_ref()?.mark())),
        server.openssl_commands.iter().collect::<Vec<_>>(),
    )
}

/// The settings of the encryption.
fn encryption(host: &VirtualHost) -> impl PartialEq + '_ {
    let (server, base) = (host.settings.get::<SslServer>(), host.base_settings::<SslDir>());
    (
        [&server.certificate_files, &server.key_files].map(|files| paths(files.get())),
        (server.protocols.value_or(Protocols::DEFAULT), base.cipher_suites.get(), server.tls13_cipher_suites.get()),
    )
}

fn paths(files: Option<&Vec<NamedFile>>) -> Vec<&str> {
    files.into_iter().flatten().map(|file| file.path.as_str()).collect()
}
