//! URLs as people type them: `[http[s]://]host[:port][/path]`.

use std::net::{SocketAddr, ToSocketAddrs as _};

use crate::machine::error::{Context as _, Error, Result};

/// A URL of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// `https`.
    pub(crate) is_secure: bool,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// With the query; at least `/`.
    pub(crate) path: String,
    /// `user:password`, if the URL has that.
    pub(crate) user: Option<String>,
}

impl Url {
    /// Reads a URL. The scheme may be missing, and so may the path.
    ///
    /// # Errors
    /// The text is no URL, or not one of HTTP.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::new(format!("{text:?} is not a URL: {why}")).advise("a URL like http://localhost:8080/index.html")
        };
        let (is_secure, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => return Err(wrong(&format!("{scheme} is not a supported protocol"))),
            None => (false, text),
        };
        if text.chars().any(|char| char.is_ascii_control() || char == ' ') {
            return Err(wrong("it contains a blank; write %20"));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(decoded(user)), authority),
            None => (None, authority),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("its address has no closing bracket"))?;
                (host, rest.strip_prefix(':').or((!rest.is_empty()).then_some(rest)))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let port = match port {
            None | Some("") => usual_port(is_secure),
            Some(port) => port.parse().map_err(|_| wrong("its port is not a number from 1 to 65535"))?,
        };
        Ok(Self { is_secure, host: host.to_owned(), port, path, user })
    }

    /// The value of `Host`.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == usual_port(self.is_secure) { host } else { format!("{host}:{}", self.port) }
    }

    /// The identity of its server: scheme, host and port.
    pub(crate) fn origin(&self) -> (bool, &str, u16) {
        (self.is_secure, &self.host, self.port)
    }

    /// The scheme at the beginning of the URL.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }

    /// An address of the host: its first one of IPv4, if it has any, or of IPv6.
    ///
    /// # Errors
    /// The host has no address.
    pub(crate) fn resolve(&self, only_six: bool) -> Result<SocketAddr> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found = found.context(|| format!("find the address of {}", self.host))?;
        let fitting = found.filter(|address| address.is_ipv6() || !only_six);
        fitting.min_by_key(SocketAddr::is_ipv6).ok_or_else(|| Error::new(format!("{} has no address", self.host)))
    }
}

/// A name or a password decoded from a URL: `%40` is `@`. Invalid escapes stay as they are.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let pair = behind.get(..2).filter(|pair| *first == b'%' && pair.iter().all(u8::is_ascii_hexdigit));
        let byte = pair.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The default port.
fn usual_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_as_people_type_them() {
        let read = |text: &str| {
            let url = Url::parse(text).unwrap();
            format!("{} {} {} {}", url.authority(), url.port, url.path, url.user.unwrap_or_default())
        };
        assert_eq!(read("http://localhost/"), "localhost 80 / ");
        assert_eq!(read("HTTP://localhost:8080"), "localhost:8080 8080 / ");
        assert_eq!(read("host/hello.cgi?a=b#c"), "host 80 /hello.cgi?a=b ");
        assert_eq!(read("host?a=b"), "host 80 /?a=b ");
        assert_eq!(read("http://me:secret@[::1]:81/x@y"), "[::1]:81 81 /x@y me:secret");
        assert_eq!(read("http://u:p%40x%zz%4@h/%40"), "h 80 /%40 u:p@x%zz%4");
        assert_eq!(read("[::1]"), "[::1] 80 / ");
        assert_eq!(read("https://localhost"), "localhost 443 / ");
        assert_eq!(read("HTTPS://localhost:80/x"), "localhost:80 80 /x ");
    }

    #[test]
    fn malformed_urls_are_reported() {
        for (text, why) in [
            ("ftp://localhost/", "ftp is not a supported protocol"),
            ("http://", "no host"),
            ("http://a:b/", "port"),
            ("http://[::1/", "closing bracket"),
            ("http://a/b c", "blank"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
