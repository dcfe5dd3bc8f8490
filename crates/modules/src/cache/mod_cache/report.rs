//! What the cache has done for a request: for logs, and if that is wanted for the client.

use std::borrow::Cow;

use conf::Level;
use server::Request;

use super::settings::{CacheDir, CacheServer};
use crate::cache_counts::{Counted, count};

/// The kinds of what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Hit,
    Revalidate,
    Miss,
    Invalidate,
}

impl Outcome {
    /// The variable of the environment, and the word of `X-Cache`.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Outcome::Hit => ("cache-hit", "HIT"),
            Outcome::Revalidate => ("cache-revalidate", "REVALIDATE"),
            Outcome::Miss => ("cache-miss", "MISS"),
            Outcome::Invalidate => ("cache-invalidate", "INVALIDATE"),
        }
    }
}

/// Why a request is passed on (RFC 9211 section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The cache is not for this request.
    Bypass,
    /// The method is none of which responses are stored.
    Method,
    /// Nothing is stored for the URL.
    UriMiss,
    /// What is stored for the URL is for other requests.
    VaryMiss,
    /// The client insists on it.
    Request,
    /// What is stored has to be confirmed.
    Stale,
}

/// How a request is passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forward {
    pub(super) why: Why,
    /// The request has waited for the response to another one: whether it got that.
    pub(super) collapsed: Option<bool>,
}

impl Forward {
    /// The parameters of `Cache-Status`. `status`: that of the response which has come, if another one goes out.
    pub(super) fn parameters(self, status: Option<u16>, is_stored: bool) -> String {
        let why = match self.why {
            Why::Bypass => "bypass",
            Why::Method => "method",
            Why::UriMiss => "uri-miss",
            Why::VaryMiss => "vary-miss",
            Why::Request => "request",
            Why::Stale => "stale",
        };
        let status = status.map_or_else(String::new, |status| format!("; fwd-status={status}"));
        let collapsed = match self.collapsed {
            None => "",
            Some(true) => "; collapsed",
            Some(false) => "; collapsed=?0",
        };
        format!("fwd={why}{status}{}{collapsed}", if is_stored { "; stored" } else { "" })
    }
}

/// Appends what the cache has done to `Cache-Status`, if that is configured; `of_error`: the response is one of the server's own
/// pages.
pub(super) fn tell(request: &mut Request, of_error: bool, parameters: impl FnOnce() -> String) {
    if !request.host::<CacheServer>().status_header() {
        return;
    }
    let member = format!("{}; {}", name(&request.vhost.name), parameters());
    let response = &mut request.response;
    let fields = if of_error { &mut response.err_headers_out } else { &mut response.headers_out };
    fields.merge("Cache-Status", &member);
}

/// The name of this cache: a token or a string (RFC 8941 section 3.3).
fn name(host: &str) -> String {
    let is_token = host.starts_with(|first: char| first.is_ascii_alphabetic())
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    match is_token {
        true => host.to_string(),
        false => format!("\"{}\"", host.replace(|at: char| !(' '..='~').contains(&at) || at == '"' || at == '\\', "?")),
    }
}

/// Records an outcome, and why it is that one.
pub(super) fn report(request: &mut Request, outcome: Outcome, reason: impl Into<Cow<'static, str>>) {
    let (variable, word) = outcome.names();
    count(match outcome {
        Outcome::Hit => Counted::Hit,
        Outcome::Revalidate => Counted::Revalidate,
        Outcome::Miss => Counted::Miss,
        Outcome::Invalidate => Counted::Invalidate,
    });
    let reason = reason.into();
    if request.logs("cache", Level::Debug) {
        request.log("cache", Level::Debug, format!("{}: {reason}", request.data.unparsed_uri()));
    }
    for name in [variable, "cache-status"] {
        request.env.set(name, reason.to_string());
    }
    let dir = request.dir::<CacheDir>();
    let (header, detail) = (dir.header(), dir.detail_header());
    let name = &request.vhost.name;
    let fields = &mut request.response.headers_out;
    if header {
        fields.set("X-Cache", format!("{word} from {name}"));
    }
    if detail {
        fields.set("X-Cache-Detail", format!("\"{reason}\" from {name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_cache_status() {
        assert_eq!(
            [name("www.example.com"), name("127.0.0.1"), name("a\"b")],
            ["www.example.com", "\"127.0.0.1\"", "\"a?b\""]
        );
        let forward = |why, collapsed| Forward { why, collapsed };
        assert_eq!(forward(Why::UriMiss, None).parameters(None, true), "fwd=uri-miss; stored");
        assert_eq!(forward(Why::Stale, None).parameters(Some(304), false), "fwd=stale; fwd-status=304");
        assert_eq!(forward(Why::VaryMiss, Some(false)).parameters(None, false), "fwd=vary-miss; collapsed=?0");
    }
}
