//! URLs as texts: schemes, escapes, queries.

use conf::fnmatch::wildcard_ignoring_case;
use http::text::to_bytes;
use http::uri::escape_path;
use server::Request;

use super::flags::Flags;
use super::rule::Rule;

/// The schemes that make a substitution an external URL, and whether such a URL has a query.
const SCHEMES: [(&str, bool); 17] = [
    ("ajp://", true),
    ("balancer://", true),
    ("fcgi://", true),
    ("ftp://", false),
    ("gopher://", false),
    ("h2://", true),
    ("h2c://", true),
    ("http://", true),
    ("https://", true),
    ("ldap://", false),
    ("mailto:", true),
    ("news:", false),
    ("nntp://", false),
    ("scgi://", true),
    ("unix:", true),
    ("ws://", true),
    ("wss://", true),
];

/// The length of the scheme with its separator, and whether the URL has a query; `None`: it is a path.
pub(super) fn scheme(url: &str) -> Option<(usize, bool)> {
    if url.starts_with('/') || url.len() <= 5 {
        return None;
    }
    let is_meant =
        |name: &str| url.as_bytes().get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()));
    SCHEMES.iter().find(|(name, _)| is_meant(name)).map(|(name, query)| (name.len(), *query))
}

/// Escapes the part after the host of a URL.
pub(super) fn escape_absolute(url: &str, scheme: usize) -> String {
    let mut start = scheme;
    if url[..scheme].ends_with('/') {
        let Some(slash) = url[scheme..].find('/') else { return url.to_string() };
        start = scheme + slash + 1;
        // The parts of such a URL are separated by question marks (RFC 4516).
        if url.get(..4).is_some_and(|name| name.eq_ignore_ascii_case("ldap")) {
            let parts: Vec<_> = url[start..].splitn(5, '?').map(escape_path).collect();
            return format!("{}{}", &url[..start], parts.join("?"));
        }
    }
    format!("{}{}", &url[..start], escape_path(&url[start..]))
}

/// Escapes a group of a pattern, for the flag `B` and its kin.
pub(super) fn escape_group(text: &str, rule: &Rule) -> String {
    let listed = |list: &Option<String>, byte: u8| list.as_ref().map(|list| to_bytes(list).contains(&byte));
    let controls = rule.given.flags.any(Flags::ESCAPE_CONTROLS);
    let mut out = Vec::with_capacity(text.len() * 3);
    for &byte in to_bytes(text).iter() {
        let in_list = listed(&rule.given.escapes, byte);
        let is_plain = byte.is_ascii_graphic() || byte >= 0x80;
        let meant = if controls { !is_plain } else { in_list.is_none() } || in_list == Some(true);
        if !meant || listed(&rule.given.no_escapes, byte) == Some(true) || byte.is_ascii_alphanumeric() || byte == b'_'
        {
            out.push(byte);
        } else if byte == b' ' && !rule.given.flags.any(Flags::NO_PLUS) {
            out.push(b'+');
        } else {
            out.extend(format!("%{byte:02x}").bytes());
        }
    }
    http::text::from_bytes(&out).into_owned()
}

/// A URL of this server, unless it is one already.
pub(super) fn qualified(request: &Request, url: &str) -> String {
    if request.data.method == "CONNECT" || scheme(url).is_some() {
        return url.to_string();
    }
    if url.starts_with('/') { request.url(url) } else { request.url(&format!("/{url}")) }
}

/// The path of a URL that names this virtual host.
pub(super) fn reduced(request: &Request, url: &str) -> Option<String> {
    let rest = url.get(request.vhost.scheme.len()..).and_then(|rest| rest.strip_prefix("://")).filter(|rest| {
        !rest.is_empty() && url[..request.vhost.scheme.len()].eq_ignore_ascii_case(request.vhost.scheme)
    })?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, u16::try_from(conf::values::atoi(port)).unwrap_or(0)),
        None => (authority, request.vhost.scheme_port()),
    };
    is_own(request, host, port).then(|| if path.is_empty() { "/".into() } else { path.to_string() })
}

/// Whether this virtual host has that name and port: in its `<VirtualHost>` line, or as its `ServerName`, which then
/// determines the port.
fn is_own(request: &Request, host: &str, port: u16) -> bool {
    let vhost = request.vhost;
    let ip = host.parse::<std::net::IpAddr>().ok();
    let of_address = ip.is_some()
        && vhost.addresses.iter().any(|address| address.ip == ip && address.port.is_none_or(|own| own == port));
    let names = || std::iter::once(&vhost.name).chain(&vhost.aliases);
    of_address || vhost.port == Some(port) && names().any(|name| wildcard_ignoring_case(name, host))
}

/// Replaces the directory `from` at the beginning of a path by `to`.
pub(super) fn with_prefix(path: &str, from: &str, to: &str) -> Option<String> {
    let behind = path.strip_prefix(from.strip_suffix('/').unwrap_or(from))?.strip_prefix('/')?;
    let slash = if to.is_empty() || to.ends_with('/') { "" } else { "/" };
    Some(format!("{to}{slash}{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_as_apache_knows_them() {
        let table = [
            ("http://h/x", Some((7, true))),
            ("HTTPS://h", Some((8, true))),
            ("mailto:a@b", Some((7, true))),
            ("ldap://h/x", Some((7, false))),
            ("foo://h/x", None),
            ("ws://", None),
            ("/http://x", None),
        ];
        for (url, want) in table {
            assert_eq!(scheme(url), want, "{url}");
        }
    }

    #[test]
    fn escapes_after_the_host() {
        let table = [
            ("http://h/a b?", "http://h/a%20b%3f"),
            ("http://h", "http://h"),
            ("ldap://h/a b?c d?e", "ldap://h/a%20b?c%20d?e"),
            ("mailto:a b", "mailto:a%20b"),
        ];
        for (url, want) in table {
            let (length, _) = scheme(url).expect("a scheme");
            assert_eq!(escape_absolute(url, length), want);
        }
    }

    #[test]
    fn prefixes() {
        assert_eq!(with_prefix("/srv/x/y", "/srv/", "/b").as_deref(), Some("/b/y").map(|_| "/b/x/y"));
        assert_eq!(with_prefix("/srvx/y", "/srv/", "/b"), None);
        assert_eq!(with_prefix("/srv/x", "/srv", "").as_deref(), Some("x"));
    }
}
