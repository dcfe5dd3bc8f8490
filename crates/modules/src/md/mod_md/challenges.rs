//! The children's part in managed domains: they answer the challenges of certificate authorities, and serve nothing
//! under a self-signed certificate.

use std::sync::Arc;

use conf::Level;
use http::text::from_bytes;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use server::{Body, Flow, HandlerResult, Request, Server};

use super::acme::ALPN;
use super::domains::{self, Domain};
use super::store::{HTTP01, TLS_ALPN01_CERTIFICATE, TLS_ALPN01_KEY};
use super::values::RequireHttps;

/// The path of `http-01` challenges (RFC 8555 section 8.3).
const PREFIX: &str = "/.well-known/acme-challenge/";
const WELL_KNOWN: &str = "/.well-known/";
/// The handler that answers below [`PREFIX`].
const HANDLER: &str = "acme-http-01";
/// The header value for `MDRequireHttps permanent`: half a year, as in mod_md.
const TRANSPORT_SECURITY: &str = "max-age=15768000";

/// The configuration that answers a `tls-alpn-01` challenge. `None`: the client does not ask for one, or there is none
/// for the name.
pub(super) fn respond(server: &Server, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
    let mut protocols = hello.alpn()?;
    if protocols.next() != Some(ALPN.as_bytes()) || protocols.next().is_some() {
        return None;
    }
    let name = hello.server_name()?.to_ascii_lowercase();
    let config = find(domains::all(server), &name).and_then(|domain| challenge_config(domain, &name));
    if config.is_none() {
        runtime::log!("md", Info, "AH10080: {name}: unknown tls-alpn-01 challenge host");
    }
    config
}

fn challenge_config(domain: &Domain, name: &str) -> Option<Arc<ServerConfig>> {
    let read = |file| domain.store.read(&["challenges", name, file]).ok().flatten();
    let certificate = CertificateDer::from_pem_slice(&read(TLS_ALPN01_CERTIFICATE)?).ok()?;
    let key = PrivateKeyDer::from_pem_slice(&read(TLS_ALPN01_KEY)?).ok()?;
    let provider = aws_lc_rs::default_provider();
    // Skips rustls's checks of the certificate: its critical extension is meant for the authority alone.
    let certified = CertifiedKey::new(vec![certificate], provider.key_provider.load_private_key(key).ok()?);
    let builder = ServerConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_safe_default_protocol_versions().ok()?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![ALPN.into()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.enable_secret_extraction = true;
    Some(config.into())
}

/// The domain that a name belongs to.
fn find<'d>(all: &'d [Arc<Domain>], name: &str) -> Option<&'d Arc<Domain>> {
    // The name becomes part of a path.
    all.iter().find(|domain| domain.is_named(name)).filter(|_| domains::is_name(name))
}

/// Answers challenges before the configuration decides anything about the request.
pub(super) fn is_challenge(request: &mut Request) -> Flow {
    if request.data.method != "GET" || request.previous().is_some() {
        return Flow::Declined;
    }
    let Some(token) = request.data.uri.strip_prefix(PREFIX) else { return Flow::Declined };
    let Some(name) = &request.data.hostname else { return Flow::Declined };
    let Some(domain) = find(domains::all(request.server), name) else { return Flow::Declined };
    request.asks_beyond_head();
    match domain.store.read(&["challenges", name, HTTP01]) {
        Ok(Some(text)) if text.strip_prefix(token.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'.')) => {
            request.mapped.handler = Some(HANDLER.into());
            request.notes.set(HANDLER, from_bytes(text.trim_ascii()));
            Flow::Ok
        }
        // Another program may answer challenges for a domain whose certificates we do not order.
        Ok(_) if !domain.is_driven() => Flow::Declined,
        Ok(_) => Flow::Status(404),
        Err(error) => {
            request.log("md", Level::Error, format!("AH10081: loading challenge {token} from store: {error}"));
            Flow::Status(500)
        }
    }
}

/// Sends the challenge response.
pub(super) fn handle(request: &mut Request) -> HandlerResult {
    if request.handler_name() != Some(HANDLER) {
        return HandlerResult::Declined;
    }
    match request.notes.get(HANDLER).map(str::to_string) {
        Some(text) => {
            request.response.set_content_type("application/octet-stream");
            HandlerResult::Body(Body::text(text))
        }
        None => HandlerResult::Status(404),
    }
}

/// Refuses requests over TLS while the host only has our fallback certificate, and on connections made for a challenge.
pub(super) fn is_unready(request: &mut Request) -> Flow {
    let Some(named) = request.named() else { return Flow::Declined };
    if named.protocol.as_deref() == Some(ALPN.as_bytes()) {
        return Flow::Status(503);
    }
    let host = request.server.hosts.get(named.host).unwrap_or(request.vhost);
    let Some(domain) = domains::of(&host.settings) else { return Flow::Declined };
    if !domain.is_static() {
        // Its certificates come, and may go, at any time.
        request.asks_beyond_head();
    }
    if domain.is_ready() { Flow::Declined } else { Flow::Status(503) }
}

/// `MDRequireHttps`
pub(super) fn require_https(request: &mut Request) -> Flow {
    // A name that no domain of the host has does not get a certificate.
    let name = request.server_name().to_ascii_lowercase();
    let Some(domain) = domains::of_name(&request.vhost.settings, &name) else { return Flow::Declined };
    let mode = domain.conf().require_https();
    let origin = domain.conf().require_https.origin().filter(|_| request.is_hypothetical()).cloned();
    if mode == RequireHttps::Off || request.data.uri.starts_with(WELL_KNOWN) {
        return Flow::Declined;
    }
    if request.is_secure() {
        if mode == RequireHttps::Permanent && request.response.headers_out.get("Strict-Transport-Security").is_none() {
            request.response.headers_out.set("Strict-Transport-Security", TRANSPORT_SECURITY);
        }
        return Flow::Declined;
    }
    let query = request.data.args.iter().map(|query| format!("?{query}")).collect::<String>();
    let location = format!("https://{}{}{query}", request.server_name(), request.data.uri);
    request.response.headers_out.set("Location", location);
    // 307 and 308 make a client repeat the request with the same method.
    let status = match (mode, matches!(&*request.data.method, "GET" | "HEAD")) {
        (RequireHttps::Permanent, true) => 301,
        (RequireHttps::Permanent, false) => 308,
        (_, true) => 302,
        (_, false) => 307,
    };
    request.note_reason(status, "md", origin.as_ref(), |_| ("MDRequireHttps".into(), String::new()));
    Flow::Status(status)
}
