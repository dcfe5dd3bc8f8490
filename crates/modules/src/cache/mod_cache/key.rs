//! The key of a response: the URL that was asked for, with the name of this server (Apache manual, `CacheKeyBaseURL`).

use std::borrow::Cow;

use server::Request;

use super::settings::{CacheServer, KeyBase};

impl KeyBase {
    /// Reads a URL of which at least one of these parts is there.
    pub(super) fn of(url: &str) -> Result<KeyBase, String> {
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, url.strip_prefix("//").unwrap_or("")),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let unable = || format!("Could not parse '{url}' as an URL.");
        let (host, port) = match authority.is_empty() {
            true => (None, None),
            false => {
                let parsed = http::Authority::parse(authority.as_bytes(), true).ok_or_else(unable)?;
                let host = String::from_utf8_lossy(parsed.host).into_owned();
                (Some(host).filter(|host| !host.is_empty()), parsed.port)
            }
        };
        if scheme.is_none() && host.is_none() && port.is_none() {
            return Err(format!("URL '{url}' must contain at least one of a scheme, a hostname or a port."));
        }
        Ok(KeyBase { scheme, host, port })
    }
}

/// The key of a request's response.
///
/// The path is the one that was sent, and never the decoded one, in which a `?` may have been `%3F`: otherwise two URLs could
/// have one key.
pub(super) fn of(request: &Request) -> String {
    let conf = request.host::<CacheServer>();
    let target = request.data.sent_target();
    let path = path_of(&target);
    let query = request.data.args.as_deref().filter(|_| !conf.ignore_query()).unwrap_or_default();
    let sessions = conf.ignore_sessions.get().map_or(&[][..], Vec::as_slice);
    let (path, query) = without_sessions(path, query, sessions);
    let server = if request.data.forward { server_of(&target) } else { own_name(request) };
    format!("{server}{path}?{query}")
}

/// Scheme, host and port of a URL that a forward proxy is asked for.
fn server_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let (scheme, authority) = (scheme.to_ascii_lowercase(), authority.to_ascii_lowercase());
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = if scheme == "https" { ":443" } else { ":80" };
    format!("{scheme}://{authority}{}", if has_port { "" } else { port })
}

/// Scheme, name and port of this server.
fn own_name(request: &Request) -> String {
    let base = request.host::<CacheServer>().key_base.get();
    let scheme = base.and_then(|base| base.scheme.as_deref()).unwrap_or(request.vhost.scheme);
    let (host, port) = match base.filter(|base| base.host.is_some() || base.port.is_some()) {
        Some(KeyBase { host: Some(host), port, .. }) => (Cow::Borrowed(&**host), *port),
        Some(KeyBase { host: None, port, .. }) => (request.server_name(), *port),
        None => (request.server_name(), Some(request.server_port())),
    };
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    format!("{scheme}://{host}{port}")
}

/// The path of a target, as it was sent. An authority before it is already in the name of the server.
pub(super) fn path_of(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or_default();
    match path.split_once("://") {
        Some((_, rest)) if !path.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => path,
    }
}

/// Path and query without the parameters of these names: of the path the last one, of the query the first of each name.
fn without_sessions<'a>(mut path: &'a str, query: &'a str, names: &[String]) -> (&'a str, Cow<'a, str>) {
    let mut query = Cow::Borrowed(query);
    for name in names {
        let is_named = |parameter: &str| parameter.strip_prefix(&**name).is_some_and(|rest| rest.starts_with('='));
        if let Some((before, last)) = path.rsplit_once(';')
            && is_named(last)
            && !last.contains('/')
        {
            path = before;
            continue;
        }
        let mut parameters: Vec<&str> = query.split('&').collect();
        if let Some(at) = parameters.iter().position(|parameter| is_named(parameter)) {
            parameters.remove(at);
            query = Cow::Owned(parameters.join("&"));
        }
    }
    (path, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_a_forward_proxy_are_kept_apart() {
        let table = [
            ("http://A.example/x", "http://a.example:80"),
            ("https://a.example/x", "https://a.example:443"),
            ("http://a.example:81?x", "http://a.example:81"),
            ("http://[::1]", "http://[::1]:80"),
            ("HTTP://[::1]:8080/", "http://[::1]:8080"),
        ];
        for (url, server) in table {
            assert_eq!(server_of(url), server, "{url}");
        }
    }

    #[test]
    fn sessions() {
        let names = ["id".to_string(), "sid".to_string()];
        for (path, query, expected) in [
            ("/a;id=1", "", ("/a", "")),
            ("/a;id=1/b", "", ("/a;id=1/b", "")),
            ("/a;idx=1", "id=2", ("/a;idx=1", "")),
            ("/a", "x=1&id=2&y=3", ("/a", "x=1&y=3")),
            ("/a", "xid=1", ("/a", "xid=1")),
            ("/a;id=1", "sid=2&id=3", ("/a", "id=3")),
        ] {
            let (path, query) = without_sessions(path, query, &names);
            assert_eq!((path, &*query), expected);
        }
    }

    #[test]
    fn bases() {
        let of = |url| KeyBase::of(url).map(|base| (base.scheme, base.host, base.port));
        let text = |text: &str| Some(text.to_string());
        assert_eq!(of("http://www.example.com/"), Ok((text("http"), text("www.example.com"), None)));
        assert_eq!(of("https://a:8/b"), Ok((text("https"), text("a"), Some(8))));
        assert_eq!(of("//a"), Ok((None, text("a"), None)));
        assert!(of("/path").is_err() && of("http://a:b:c/").is_err());
    }
}
