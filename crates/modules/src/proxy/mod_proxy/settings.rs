//! The settings of the proxy: which URLs go to which backend.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use conf::fnmatch::{Flags, fnmatch};
use conf::pattern::{MatchError, Regex};
use conf::{Listed, Setting, settings};
use server::Layer;

use super::balancer_lines::{NamedLine, PREFIX};
use super::blocked::Blocked;
use super::health::{HealthExpr, HealthTemplate};
use super::remote::{Direct, Remote};
use super::worker::Worker;

pub(super) const REQUESTS: bool = false;
pub(super) const INTERPOLATE: bool = false;
pub(super) const INHERIT: bool = true;
pub(super) const BALANCER_INHERIT: bool = true;
pub(super) const BALANCER_PERSIST: bool = false;
pub(super) const PRESERVE_HOST: bool = false;
pub(super) const ADD_HEADERS: bool = true;
pub(super) const FORWARD_CONTINUE: bool = true;
pub(super) const VIA: Via = Via::Off;
pub(super) const MAX_FORWARDS: i32 = -1;
pub(super) const STATUS: bool = false;
pub(super) const IO_BUFFER: usize = 0;

settings! {
    /// The settings of a server.
    pub struct ProxyServer {
        /// Whether the server is a forward proxy.
        pub(super) requests: Setting<bool> = REQUESTS,
        /// The proxies behind this one, searched in order.
        pub(super) remotes: Listed<Arc<Remote>>,
        /// The hosts that are connected to without them.
        pub(super) direct: Listed<Direct>,
        /// The hosts that are never connected to.
        pub(super) blocked: Listed<Blocked>,
        /// What a name without a dot lacks.
        pub(super) domain: Setting<String>,
        /// The address that connections come from.
        pub(super) source: Setting<IpAddr>,
        /// Searched in order.
        /// The lines of the main server come first, as in Apache.
        pub(super) passes: Listed<Arc<Pass>>,
        /// Whether a line of the server, or of a section in it, is about paths before they are decoded.
        pub(super) maps_undecoded: Setting<bool> = false,
        pub(super) sections: Listed<Arc<ProxySection>>,
        /// The settings of backends; the last one counts.
        pub(super) workers: Listed<Arc<Worker>>,
        /// The lines about balancers.
        pub(super) balancers: Listed<Arc<NamedLine>>,
        pub(super) health_exprs: Listed<Arc<HealthExpr>>,
        pub(super) health_templates: Listed<Arc<HealthTemplate>>,
        pub(super) balancer_inherit: Setting<bool> = BALANCER_INHERIT,
        /// Whether what the page balancer-manager has changed outlives the server.
        pub(super) balancer_persist: Setting<bool> = BALANCER_PERSIST,
        pub(super) timeout: Setting<Duration>,
        pub(super) inherit: Setting<bool> = INHERIT,
        pub(super) via: Setting<Via> = VIA,
        pub(super) max_forwards: Setting<i32> = MAX_FORWARDS,
        /// The length of packets; 0 is the usual one.
        pub(super) io_buffer: Setting<usize> = IO_BUFFER,
        pub(super) status: Setting<bool> = STATUS,
    }
}

settings! {
    /// The settings of a section.
    pub struct ProxyDir {
        pub(super) pass: Setting<Arc<Pass>>,
        pub(super) error_override: Setting<ErrorOverride>,
        pub(super) interpolate: Setting<bool> = INTERPOLATE,
        pub(super) preserve_host: Setting<bool> = PRESERVE_HOST,
        pub(super) add_headers: Setting<bool> = ADD_HEADERS,
        pub(super) forward_continue: Setting<bool> = FORWARD_CONTINUE,
        pub(super) reverse: Listed<Arc<Reverse>>,
        pub(super) cookie_paths: Listed<Arc<Reverse>>,
        pub(super) cookie_domains: Listed<Arc<Reverse>>,
    }
}

/// `ProxyVia`: what is done with the field `Via` (RFC 9110 section 7.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// It is passed on as it is.
    Off,
    /// This server is added to it.
    On,
    /// The same, with the server's software.
    Full,
    /// It is removed from requests.
    Block,
}

/// `ProxyPassReverse` and the like: a text of the backend, and what takes its place.
#[derive(Debug)]
pub(super) struct Reverse {
    /// A URL, path or domain of the backend.
    pub(super) inner: String,
    /// That of this server.
    pub(super) outer: String,
    /// Variables in both are replaced.
    pub(super) interpolate: bool,
}

/// `ProxyPass` or `ProxyPassMatch`.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) matcher: Matcher,
    /// The URL, with groups and perhaps variables in it; `None`: these requests stay here (`!`).
    pub(super) url: Option<String>,
    /// Whether the path is passed on as the client sent it.
    pub(super) nocanon: bool,
    /// Variables in the URL are replaced.
    pub(super) interpolate: bool,
    /// Which path matches, if it is not the decoded one.
    pub(super) mapping: Option<Mapping>,
    /// Whether it is in a virtual host.
    pub(super) in_host: bool,
}

/// `mapping`: the path that a line is about, and that goes to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// The path before it is decoded.
    Encoded,
    /// The same as a servlet container sees it.
    Servlet,
}

impl Pass {
    /// The path of requests that go to the balancer of this name.
    pub(super) fn path_to(&self, balancer: &str) -> Option<String> {
        let rest = self.url.as_deref()?.strip_prefix(PREFIX)?;
        let Matcher::Prefix(path) = &self.matcher else { return None };
        (rest.split('/').next()?.eq_ignore_ascii_case(balancer)).then(|| path.clone())
    }
}

/// The URL paths it applies to.
#[derive(Debug)]
pub(super) enum Matcher {
    Prefix(String),
    Pattern(Regex),
}

/// `<Proxy>` or `<ProxyMatch>`.
#[derive(Debug)]
pub(super) struct ProxySection {
    pub(super) matcher: Url,
    pub(super) layer: Layer,
}

/// The backend URLs it applies to.
#[derive(Debug)]
pub(super) enum Url {
    Prefix(String),
    Wild(String),
    Pattern(Regex),
}

impl Url {
    /// Whether a section of this URL is about a request for that one.
    pub(super) fn is_for(&self, url: &str) -> Result<bool, MatchError> {
        match self {
            Url::Prefix(prefix) => Ok(url.starts_with(prefix.as_str())),
            Url::Wild(pattern) => Ok(fnmatch(pattern, url, Flags::default())),
            Url::Pattern(regex) => regex.is_match(url),
        }
    }
}

/// `ProxyErrorOverride`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorOverride {
    pub(super) on: bool,
    /// All that mean an error, if none is listed.
    pub(super) statuses: Vec<u16>,
}

impl ErrorOverride {
    pub(super) fn covers(&self, status: u16) -> bool {
        self.on && if self.statuses.is_empty() { (400..600).contains(&status) } else { self.statuses.contains(&status) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_whose_pages_are_replaced() {
        let all = ErrorOverride { on: true, statuses: Vec::new() };
        let some = ErrorOverride { on: true, statuses: vec![404, 600] };
        for (status, by_all, by_some) in
            [(399, false, false), (404, true, true), (599, true, false), (600, false, true)]
        {
            assert_eq!((all.covers(status), some.covers(status)), (by_all, by_some), "{status}");
        }
        assert!(!ErrorOverride::default().covers(404));
    }
}
