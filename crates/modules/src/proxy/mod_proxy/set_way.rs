//! The functions of the directives about the way to a server.

use std::net::IpAddr;
use std::sync::Arc;

use conf::pattern::{Flags, Regex};
use conf::{Cmd, InArgument as _, Outcome, Refusal};
use sys::resolve::{Family, addresses_of};

use super::blocked::Blocked;
use super::remote::{Direct, Remote, Which, basic};
use super::settings::ProxyServer;

/// `ProxyRemote` and `ProxyRemoteMatch`
pub(super) fn remote(cmd: &mut Cmd<'_>, which: &str, proxy: &str, user: Option<&str>, is_regex: bool) -> Outcome {
    let which = match is_regex {
        false => Which::parse(which),
        true => Which::Pattern(Regex::new(which, Flags::default()).map_err(|error| {
            Refusal::pattern(1, 0, &error, "Regular expression for ProxyRemoteMatch could not be compiled.")
        })?),
    };
    let (host, port) = proxy_address(proxy).map_err(|why| format!("{}: {why}", cmd.row.name)).in_argument(2)?;
    let remote = Remote { which, host, port, credentials: user.map(basic) };
    cmd.server_push(|s: &mut ProxyServer| &mut s.remotes, Arc::new(remote))
}

/// The address of a proxy.
fn proxy_address(url: &str) -> Result<(String, u16), &'static str> {
    const SYNTAX: &str = "Bad syntax for a remote proxy server";
    const PORT: &str = "Bad syntax for a remote proxy server (bad port number)";
    let (scheme, rest) = url.split_once("://").filter(|(_, rest)| !rest.is_empty()).ok_or(SYNTAX)?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err("Tsubame speaks http to remote proxies, and through their tunnels https to servers");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err("name and password belong into a third argument, username:password");
    }
    let (host, port) = match authority.rsplit_once(':').filter(|_| !authority.ends_with(']')) {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port != 0).ok_or(PORT)?),
        None => (authority, 80),
    };
    if host.is_empty() { Err(SYNTAX) } else { Ok((host.to_ascii_lowercase(), port)) }
}

/// `NoProxy`
pub(super) fn no_proxy(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    cmd.server_push(|s: &mut ProxyServer| &mut s.direct, Direct::parse(word))
}

/// `ProxyBlock`
pub(super) fn block(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    cmd.server_push(|s: &mut ProxyServer| &mut s.blocked, Blocked::parse(word))
}

/// `ProxyDomain`
pub(super) fn domain(cmd: &mut Cmd<'_>, domain: &str) -> Outcome {
    if !domain.starts_with('.') {
        return Err("ProxyDomain: domain name must start with a dot.".into());
    }
    cmd.server_set(|s: &mut ProxyServer| &mut s.domain, domain.to_string())
}

/// `ProxySourceAddress`
pub(super) fn source(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let named = || [Family::V4, Family::V6].iter().find_map(|family| addresses_of(text, *family).ok()?.pop());
    let ip: IpAddr = text.parse().ok().or_else(named).ok_or("ProxySourceAddress invalid value")?;
    cmd.server_set(|s: &mut ProxyServer| &mut s.source, ip)
}
