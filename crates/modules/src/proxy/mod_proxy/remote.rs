//! The lines of `ProxyRemote`, `ProxyRemoteMatch` and `NoProxy`: which requests go through another proxy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conf::ip::Subnet;
use conf::pattern::{MatchError, Regex};

/// `ProxyRemote` or `ProxyRemoteMatch`.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) which: Which,
    /// In lower case.
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`.
    pub(super) credentials: Option<String>,
}

/// The URLs that go to a proxy.
#[derive(Debug)]
pub(super) enum Which {
    All,
    Scheme(String),
    /// Those that begin like this, in whatever case.
    Prefix(String),
    Pattern(Regex),
}

impl Which {
    /// Reads the first argument of `ProxyRemote`.
    pub(super) fn parse(text: &str) -> Which {
        match text {
            "*" => Which::All,
            text if text.contains(':') => Which::Prefix(text.to_string()),
            text => Which::Scheme(text.to_string()),
        }
    }

    /// Whether a URL goes to the proxy.
    pub(super) fn covers(&self, url: &str) -> Result<bool, MatchError> {
        Ok(match self {
            Which::All => true,
            Which::Scheme(name) => url.split(':').next().is_some_and(|scheme| scheme.eq_ignore_ascii_case(name)),
            Which::Prefix(start) => url.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)),
            Which::Pattern(regex) => return regex.is_match(url),
        })
    }
}

/// The field for a name and a password.
pub(super) fn basic(credentials: &str) -> String {
    format!("Basic {}", STANDARD.encode(http::text::to_bytes(credentials)))
}

/// A word of `NoProxy`.
#[derive(Clone, Debug)]
pub(super) enum Direct {
    Network(Subnet),
    /// With its dot, in lower case.
    Domain(String),
    /// In lower case.
    Host(String),
}

impl Direct {
    pub(super) fn parse(word: &str) -> Direct {
        let name = word.trim_end_matches('.').to_ascii_lowercase();
        match Subnet::parse(word) {
            Ok(network) => Direct::Network(network),
            Err(_) if name.starts_with('.') => Direct::Domain(name),
            Err(_) => Direct::Host(name),
        }
    }

    pub(super) fn has_name(&self, host: &str) -> bool {
        match self {
            Direct::Network(_) => false,
            Direct::Domain(domain) => host.ends_with(domain.as_str()),
            Direct::Host(name) => host.trim_end_matches('.') == name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_go_to_a_proxy() {
        for (which, url, want) in [
            ("*", "a.example:443", true),
            ("http", "http://a.example/", true),
            ("http", "https://a.example/", false),
            ("http://good.", "HTTP://Good.example/", true),
            ("http://good.", "http://bad.example/", false),
        ] {
            assert_eq!(Which::parse(which).covers(url).ok(), Some(want), "{which} {url}");
        }
    }

    #[test]
    fn hosts_that_need_no_proxy() {
        for (word, host, want) in [
            (".Corp.example", "a.corp.example", true),
            (".corp.example", "corp.example", false),
            ("intra", "intra", true),
            ("intra.", "intra", true),
            ("intra", "intranet", false),
            ("10.0.0.0/8", "10.0.0.1", false),
        ] {
            assert_eq!(Direct::parse(word).has_name(host), want, "{word} {host}");
        }
    }
}
