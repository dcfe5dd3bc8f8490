//! The URL of a member that is added while the server runs.

use std::net::Ipv6Addr;

use server::Server;

use super::member::URL_MAX;
use super::schemes::scheme_named;
use super::set::not_spoken;
use super::target::Target;

/// The target of a new member with this URL. `Err`: why it cannot be one.
pub(crate) fn new_member(server: &Server, url: &str) -> Result<Target, String> {
    if url.len() > URL_MAX {
        return Err(format!("the URL is longer than {URL_MAX} bytes"));
    }
    if url.chars().any(|c| c.is_control() || c == ' ') {
        return Err("the URL has blanks or control characters in it".into());
    }
    if url.contains(['?', '#']) {
        return Err("the URL of a member has no query and no fragment".into());
    }
    let parsed = Target::parse(url).ok().filter(|target| is_host(&target.host));
    let mut target = parsed.ok_or_else(|| format!("{url} is no absolute URL, such as http://10.0.0.1:8080"))?;
    let scheme = scheme_named(&target.scheme).filter(|scheme| scheme.handler.is_some());
    let scheme = scheme.ok_or_else(|| not_spoken(&target.scheme))?;
    if !server.language.has_module(scheme.module) {
        return Err(format!("the protocol {} needs the module {}", scheme.name, scheme.module));
    }
    // The form in which the configuration has its URLs.
    target.port = target.port.filter(|port| *port != scheme.port);
    target.socket = target.socket.map(|path| conf::paths::join(&server.language.runtime_dir(), &path));
    match target.name().len() {
        0..=URL_MAX => Ok(target),
        _ => Err(format!("the URL is longer than {URL_MAX} bytes")),
    }
}

/// Whether a text may be the name or the address of a host.
fn is_host(text: &str) -> bool {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(number) => number.parse::<Ipv6Addr>().is_ok(),
        None => text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    }
}
