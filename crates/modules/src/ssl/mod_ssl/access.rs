//! Access control by connection: `SSLRequireSSL`, `SSLVerifyClient` of a section, `SSLUserName`, `SSLRequire`, and
//! logging in by certificate (`SSLOptions +FakeBasicAuth`).
//!
//! Apache requests a certificate or renegotiates cipher suites when a section requires them. Here a connection keeps
//! the result of its handshake, which has asked for what any section of the virtual host may want; a request for a
//! section that requires more than the client has shown is refused, as Apache refuses it when the client cannot be asked
//! afterwards.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conf::{Level, Refusal};
use rustls::ProtocolVersion;
use server::authz::{AuthzCheck, AuthzProvider, Parsed, Verdict};
use server::{Flow, Request, RequestKind, Session, VirtualHost};

use super::settings::{SslDir, VERIFY_DEPTH};
use super::values::{SslOption, Verify};
use super::{clients, context, names, suites, variables};
use crate::aaa::mod_auth_basic;

/// The note that marks a request refused here: with `StrictRequire` a password does not help.
const FORBIDDEN: &str = "ssl-access-forbidden";

/// Checks everything except the login.
pub(super) fn check(request: &mut Request) -> Flow {
    if !request.is_secure() {
        return match request.dir::<SslDir>().require_ssl.value_or(false) {
            true => refuse(request, "SSL connection required"),
            false => Flow::Declined,
        };
    }
    let slots = request.dir.slots.clone();
    let dir = slots.get::<SslDir>();
    // What nobody demands is not asked.
    if dir.cipher_suites.is_set() || wanted(request, dir) > 0 {
        let client = request.client().clone();
        let Some(session) = client.session() else { return Flow::Declined };
        let lacking = other_suites(request, session, dir).or_else(|| lacking_certificate(request, session, dir));
        if let Some(flow) = lacking {
            return flow;
        }
    }
    if let Some(name) = dir.user_name.get().filter(|_| !dir.has(SslOption::FakeBasicAuth)) {
        match variables::any(request, name) {
            Some(user) => {
                request.login.user = Some(user);
                request.login.auth_type = Some("ClientCert".into());
            }
            None => request.log("ssl", Level::Warn, format!("AH02227: Failed to set r->user to '{name}'")),
        }
    }
    for (expr, text) in dir.requires.iter() {
        match server::evaluate(request, expr) {
            Ok(true) => {}
            Ok(false) => {
                let thing = crate::aaa::denied_thing(request);
                let ip = request.client().ip();
                let denied =
                    format!("AH02266: Access to {thing} denied for {ip} (requirement expression not fulfilled)");
                request.log("ssl", Level::Info, denied);
                request.log("ssl", Level::Info, format!("AH02228: Failed expression: {text}"));
                return refuse(request, "SSL requirement expression not fulfilled");
            }
            Err(why) => {
                let thing = crate::aaa::denied_thing(request);
                let text = format!(
                    "AH02265: access to {thing} failed, reason: Failed to execute SSL requirement expression: {why}"
                );
                request.log("ssl", Level::Error, text);
                request.notes.set(FORBIDDEN, "1");
                return Flow::Status(403);
            }
        }
    }
    Flow::Declined
}

fn refuse(request: &mut Request, why: &str) -> Flow {
    let thing = crate::aaa::denied_thing(request);
    let number = if request.is_secure() { "AH02229" } else { "AH02219" };
    request.log("ssl", Level::Error, format!("{number}: access to {thing} failed, reason: {why}"));
    request.notes.set(FORBIDDEN, "1");
    Flow::Status(403)
}

/// Refuses a connection whose cipher suite is not among the section's. Apache would renegotiate; the TLS 1.3 suites can
/// only be set for the server.
fn other_suites(request: &mut Request, session: &Session, dir: &SslDir) -> Option<Flow> {
    if session.version == ProtocolVersion::TLSv1_3 || suites::tls12(dir.cipher_suites.get()?).0.contains(&session.suite)
    {
        return None;
    }
    let (thing, cipher) = (crate::aaa::denied_thing(request), suites::describe(session.suite).0);
    let text = format!("AH02264: SSL cipher suite not renegotiated: access to {thing} denied using cipher {cipher}");
    request.log("ssl", Level::Error, text);
    Some(Flow::Status(403))
}

/// Refuses a connection whose client was not asked for the certificate that the section requires, or whose chain is too
/// long.
fn lacking_certificate(request: &mut Request, session: &Session, dir: &SslDir) -> Option<Flow> {
    let wanted = wanted(request, dir);
    if wanted == 0 {
        return None;
    }
    let (of_all, asked) = request.server.hosts.get(session.host).map_or((0, 0), asked_of);
    let trust = clients::trust(request, session);
    let depth = dir.verify_depth.value_or(VERIFY_DEPTH) as usize;
    let takes_strangers = dir.verify_client.value_or(Verify::None) == Verify::OptionalNoCa;
    let has_enough = match trust {
        None => asked >= wanted && session.client_chain.is_empty(),
        Some(trust) => (trust.flaw.is_none() || takes_strangers || of_all >= wanted) && trust.depth <= depth,
    };
    if has_enough {
        return None;
    }
    if trust.is_some_and(|trust| trust.depth > depth) {
        request.log("ssl", Level::Debug, "AH10128: Reduced client verification depth will force renegotiation");
    }
    let hint = match asked {
        0 => "; set SSLVerifyClient optional in the virtual host, so that the handshake asks for one",
        _ => "",
    };
    let text = format!(
        "AH10158: cannot perform post-handshake authentication: the client has shown no certificate that meets the \
         requirements{hint}"
    );
    request.log("ssl", Level::Error, text);
    request.notes.set("error-notes", "Reason: Cannot perform Post-Handshake Authentication.<br />");
    Some(Flow::Status(403))
}

/// The strictness of what the section and the virtual host want from the client.
fn wanted(request: &Request, dir: &SslDir) -> u8 {
    let both = [dir, request.vhost.base_settings::<SslDir>()];
    both.map(|one| strictness(one.verify_client.value_or(Verify::None))).into_iter().max().unwrap_or(0)
}

/// The strictness of what a virtual host wants from all clients, and of what the handshake asks them for: what its
/// sections want is optional there.
fn asked_of(host: &VirtualHost) -> (u8, u8) {
    let of_all = strictness(host.base_settings::<SslDir>().verify_client.value_or(Verify::None));
    let context = context::of(host);
    (of_all, of_all.max(context.is_some_and(|context| context.clients.is_some()).into()))
}

/// The strictness of a mode; modes that do not require a certificate accept its absence.
fn strictness(mode: Verify) -> u8 {
    match mode {
        Verify::None => 0,
        Verify::Optional | Verify::OptionalNoCa => 1,
        Verify::Require => 2,
    }
}

/// `SSLOptions +FakeBasicAuth`: logs in as the certificate's name, with `password` as the password. Typed credentials
/// of that form are refused.
pub(super) fn log_in(request: &mut Request) -> Flow {
    if is_out(request) {
        return Flow::Status(403);
    }
    if !matches!(request.kind, RequestKind::Main) {
        return Flow::Declined;
    }
    // Parsed as mod_auth_basic does. Some hashes only consider the first eight characters of a password.
    let typed = request.header("Authorization").and_then(|field| mod_auth_basic::typed(&field));
    if let Some((user, password)) = typed
        && user.starts_with('/')
        && password.starts_with("password")
    {
        request.log("ssl", Level::Error, format!("AH02035: Encountered FakeBasicAuth spoof: {user}"));
        return Flow::Status(403);
    }
    if !request.dir::<SslDir>().has(SslOption::FakeBasicAuth) || request.login.user.is_some() {
        return Flow::Declined;
    }
    let client = request.client().clone();
    let Some(session) = client.session().filter(|session| !session.client_chain.is_empty()) else {
        return Flow::Declined;
    };
    let Some(certificate) = clients::parse(&session.client_chain[0]) else { return Flow::Declined };
    let user = names::one_line(certificate.subject());
    if user.contains(':') {
        let text = format!("AH10096: Cannot use FakeBasicAuth for username containing a colon: {user}");
        request.log("ssl", Level::Error, text);
        return Flow::Status(403);
    }
    let credentials = STANDARD.encode(http::text::to_bytes(&format!("{user}:password")));
    let line = format!("Basic {credentials}");
    request.log("ssl", Level::Info, format!("AH02036: Faking HTTP Basic Auth header: \"Authorization: {line}\""));
    request.headers_mut().set("Authorization", line);
    Flow::Declined
}

/// `SSLOptions +StrictRequire`: keeps out requests refused here, regardless of `Satisfy Any`.
pub(super) fn stay_out(request: &mut Request) -> Flow {
    if is_out(request) { Flow::Status(403) } else { Flow::Declined }
}

fn is_out(request: &Request) -> bool {
    request.dir::<SslDir>().has(SslOption::StrictRequire) && request.notes.contains(FORBIDDEN)
}

/// `Require ssl`
pub(super) static SSL: AuthzProvider = AuthzProvider {
    name: "ssl",
    parse: |_, rest| alone("ssl", rest),
    check: AuthzCheck::Now(|request, _| verdict(request.is_secure())),
};

/// `Require ssl-verify-client`
pub(super) static SSL_VERIFY_CLIENT: AuthzProvider = AuthzProvider {
    name: "ssl-verify-client",
    parse: |_, rest| alone("ssl-verify-client", rest),
    check: AuthzCheck::Now(|request, _| {
        let client = request.client().clone();
        verdict(
            client
                .session()
                .is_some_and(|session| clients::trust(request, session).is_some_and(|trust| trust.flaw.is_none())),
        )
    }),
};

fn verdict(is_granted: bool) -> Verdict {
    if is_granted { Verdict::Granted } else { Verdict::Denied }
}

fn alone(name: &str, rest: &str) -> Result<Parsed, Refusal> {
    if rest.is_empty() { Ok(Arc::new(())) } else { Err(format!("'Require {name}' does not take arguments").into()) }
}
