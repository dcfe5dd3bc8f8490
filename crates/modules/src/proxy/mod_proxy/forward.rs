//! Requests to a forward proxy: their target names the server that they go to.

use conf::Level;
use server::{Flow, HandlerResult, NOCANON, Request, RequestKind, TO_BACKEND};

use super::map::canonical_port;
use super::open::restricts;
use super::schemes::scheme_named;
use super::settings::ProxyServer;
use super::target::Target;
use http::Version;

/// Finds out whether a request is for another server.
pub(super) fn detect(request: &mut Request) -> Flow {
    if !request.host::<ProxyServer>().requests() || !matches!(request.kind, RequestKind::Main) {
        return Flow::Declined;
    }
    // In HTTP/2 every target has this form.
    if request.data.version >= Version::Http2 {
        return Flow::Declined;
    }
    let sent = request.data.sent_target().into_owned();
    let filename = match &*request.data.method {
        "CONNECT" if !request.server.language.has_module("proxy_connect_module") => return Flow::Declined,
        "CONNECT" => sent.to_ascii_lowercase(),
        _ if sent.starts_with('/') || sent == "*" => return Flow::Declined,
        _ => {
            let Ok(mut target) = Target::parse(&sent) else { return Flow::Status(400) };
            if is_own(request, &target) {
                return Flow::Declined;
            }
            if let Some(scheme) = scheme_named(&target.scheme) {
                canonical_port(&mut target, scheme);
            }
            if target.path.is_empty() {
                target.path.push('/');
            }
            target.url()
        }
    };
    request.mapped.filename = format!("{TO_BACKEND}{filename}");
    request.data.forward = true;
    // The path goes on as the client has sent it.
    request.notes.set(NOCANON, "1");
    Flow::Declined
}

/// Whether a URL is one of the virtual host's own.
fn is_own(request: &Request, target: &Target) -> bool {
    let vhost = request.vhost;
    if target.scheme != vhost.scheme_of_connections() && target.scheme != vhost.scheme {
        return false;
    }
    let port = target.port.unwrap_or(if target.scheme == "https" { 443 } else { 80 });
    let ip = target.host.trim_matches(['[', ']']).parse().ok();
    let has_address = vhost
        .addresses
        .iter()
        .any(|address| ip.is_some() && address.ip == ip && address.port.is_none_or(|own| own == port));
    let own_port = vhost.port.unwrap_or(request.client().local().port());
    let is_name = |name: &String| conf::fnmatch::wildcard_ignoring_case(name, &target.host);
    has_address
        || port == own_port && (vhost.name.eq_ignore_ascii_case(&target.host) || vhost.aliases.iter().any(is_name))
}

/// Whether a section lets anybody in particular use the proxy for this URL. A URL that is in no section is for nobody.
pub(super) fn check(request: &mut Request) -> Flow {
    if restricts(&request.dir.slots).is_some() {
        return Flow::Ok;
    }
    let text = format!(
        "no <Proxy> section says who may use the proxy for {}: write one with Require",
        request.mapped.backend_url().unwrap_or_default()
    );
    request.log("proxy", Level::Error, text);
    Flow::Status(403)
}

/// `ProxyDomain`: sends a client that asks for a name without a dot to the name in this domain.
pub(super) fn with_domain(request: &mut Request, target: &Target) -> Option<HandlerResult> {
    let domain = request.host::<ProxyServer>().domain.get()?;
    let is_short = !target.host.contains(['.', ':']) && target.host != "localhost";
    if !is_short || !request.data.forward || request.data.method != "GET" {
        return None;
    }
    let whole = Target { host: format!("{}{domain}", target.host), ..target.clone() };
    let text = format!("AH01138: Domain missing: {} sent to {}", request.data.uri, whole.url());
    request.log("proxy", Level::Info, text);
    request.response.headers_out.set("Location", whole.url());
    Some(HandlerResult::Status(301))
}
