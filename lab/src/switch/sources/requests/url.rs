//! URLs of HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::switch::endpoints::{HTTP, HTTPS};

/// A URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) is_encrypted: bool,
    /// Host, and port if it is written.
    pub(super) authority: String,
    /// Path and query, as they are sent.
    pub(super) target: String,
    /// `NAME:PASSWORD`
    pub(super) user: Option<String>,
}

impl Url {
    /// Reads one; none if it is none of HTTP. Without a scheme it is one of `http`, as curl has it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let is_encrypted = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user.to_owned()), authority),
            None => (None, authority),
        };
        let slash = if target.starts_with('/') { "" } else { "/" };
        let url = Self {
            is_encrypted,
            authority: authority.to_ascii_lowercase(),
            target: format!("{slash}{}", escaped(target)),
            user,
        };
        let is_host = |byte: u8| byte > b' ' && byte != 0x7f && !b"\"<>\\^`{|}".contains(&byte);
        let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'));
        let has_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
        (has_port && !host(authority).is_empty() && authority.bytes().all(is_host)).then_some(url)
    }

    /// The port that is meant.
    pub(super) fn port(&self) -> u16 {
        let usual = if self.is_encrypted { HTTPS } else { HTTP };
        self.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(usual)
    }
}

/// The host in `host:port`, without the brackets of an address of IPv6.
pub(super) fn host(authority: &str) -> &str {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    };
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The value of `Authorization` for `NAME:PASSWORD`.
pub(in super::super) fn basic(user: &str) -> String {
    format!("Basic {}", STANDARD.encode(user))
}

/// What a client escapes before it sends a target.
fn escaped(target: &str) -> String {
    let escape = |byte: u8| match byte {
        b' ' | b'"' | b'<' | b'>' => format!("%{byte:02X}"),
        byte if byte.is_ascii() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    target.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_divided() {
        for (text, port, authority, target) in [
            ("http://Example.org", 80, "example.org", "/"),
            ("https://a:8443/x?y#z", 8443, "a:8443", "/x?y"),
            ("https://a?y=/", 443, "a", "/?y=/"),
            ("HTTP://[2001:db8::1]:81/ü b", 81, "[2001:db8::1]:81", "/%C3%BC%20b"),
            ("example.org/x", 80, "example.org", "/x"),
        ] {
            let url = Url::read(text).unwrap();
            assert_eq!((url.port(), url.authority.as_str(), url.target.as_str()), (port, authority, target), "{text}");
        }
        assert_eq!(Url::read("http://me:secret@a/").unwrap().user.as_deref(), Some("me:secret"));
        for text in ["ftp://a/", "data:,x", "", "http:///x", "http://a b/", "blob:https://a/x"] {
            assert_eq!(Url::read(text), None, "{text}");
        }
    }

    #[test]
    fn hosts_have_no_port() {
        for (authority, expected) in [("a:1", "a"), ("a", "a"), ("[::1]:1", "::1"), ("[::1]", "::1"), (":1", "")] {
            assert_eq!(host(authority), expected, "{authority}");
        }
    }
}
