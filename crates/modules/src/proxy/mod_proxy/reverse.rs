//! What a backend says about itself, in the words of this server: `ProxyPassReverse` and the like.

use std::borrow::Cow;

use server::Request;

use super::balancer::of_url;
use super::balancer_lines::PREFIX;
use super::interpolate::interpolated;
use super::settings::{ProxyDir, Reverse};

/// The note with the backend of the host, whose URLs are this server's below `/`.
pub(crate) const EXPRESS: &str = "proxy-express-backend";

/// The fields with a URL that `ProxyPassReverse` is about.
const WITH_URL: [&str; 4] = ["Location", "Content-Location", "URI", "Destination"];

/// The value of a field of a backend in the words of this server. `None`: no line is about it.
pub(crate) fn reversed(request: &Request, name: &str, value: &str) -> Option<String> {
    match name {
        name if WITH_URL.iter().any(|one| one.eq_ignore_ascii_case(name)) => location(request, value),
        name if name.eq_ignore_ascii_case("Set-Cookie") => cookie(request, value),
        _ => None,
    }
}

/// A URL of the backend as one of this server. `None`: no line is about it.
fn location(request: &Request, url: &str) -> Option<String> {
    if request.data.forward {
        return None;
    }
    let dir = request.dir::<ProxyDir>();
    let found = dir.reverse.iter().find_map(|line| {
        let (inner, outer) = texts(request, line);
        if let Some(balancer) = of_url(request, &inner) {
            return balancer.members().find_map(|member| of_member(url, &member.worker.target.url(), &inner, &outer));
        }
        // A line with a path is about any server.
        let part = match inner.starts_with('/') {
            true => path_of(url),
            false => url,
        };
        let rest = strip_prefix(part, &inner).filter(|_| !inner.is_empty())?;
        Some(format!("{outer}{rest}"))
    });
    let of_host = || {
        let rest = strip_prefix(url, request.notes.get(EXPRESS)?)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| if rest.is_empty() { "/".into() } else { rest.to_string() })
    };
    let found = found.or_else(of_host)?;
    let is_url = found.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|c| c.is_ascii_alphanumeric()));
    Some(if is_url { found } else { request.url(&found) })
}

/// The URL of a balancer's member as one of this server, if the line is about `balancer://name/path`.
fn of_member(url: &str, member: &str, inner: &str, outer: &str) -> Option<String> {
    let path = inner.get(PREFIX.len()..)?.split_once('/').map_or("", |(_, path)| path);
    if path.is_empty() {
        let rest = strip_prefix(url, member)?;
        // As in Apache, which joins the two as they are.
        return Some(if outer == "/" && rest.starts_with('/') { rest.to_string() } else { format!("{outer}{rest}") });
    }
    let rest = strip_prefix(url, member.strip_suffix('/').unwrap_or(member))?;
    let rest = rest.strip_prefix('/')?.strip_prefix(path)?;
    Some(format!("{outer}{rest}"))
}

/// The path of a URL, or the text itself.
fn path_of(url: &str) -> &str {
    let start = url.find("://").and_then(|at| Some(at + 3 + url[at + 3..].find('/')?));
    start.map_or(url, |start| &url[start..])
}

/// The value of a `Set-Cookie` of the backend with the path and domain of this server. `None`: no line is about it.
pub(crate) fn cookie(request: &Request, value: &str) -> Option<String> {
    if request.data.forward {
        return None;
    }
    let dir = request.dir::<ProxyDir>();
    let with_path = attribute(value, "path=").and_then(|(start, end)| {
        dir.cookie_paths.iter().find_map(|line| {
            let (inner, outer) = texts(request, line);
            let rest = value[start..end].strip_prefix(&*inner)?;
            Some(format!("{}{outer}{rest}{}", &value[..start], &value[end..]))
        })
    });
    let text = with_path.as_deref().unwrap_or(value);
    let with_domain = attribute(text, "domain=").and_then(|(start, end)| {
        dir.cookie_domains.iter().find_map(|line| {
            let (inner, outer) = texts(request, line);
            let rest = strip_prefix(&text[start..end], &inner)?;
            Some(format!("{}{outer}{rest}{}", &text[..start], &text[end..]))
        })
    });
    with_domain.or(with_path)
}

/// Where the value of a cookie's attribute stands.
fn attribute(cookie: &str, name: &str) -> Option<(usize, usize)> {
    let bytes = cookie.as_bytes();
    let at = bytes.windows(name.len()).position(|part| part.eq_ignore_ascii_case(name.as_bytes()))?;
    let start = at + name.len();
    Some((start, cookie[start..].find(';').map_or(cookie.len(), |length| start + length)))
}

/// The texts of a line, with variables replaced if it says so. A text that becomes too long stays as it is written.
fn texts<'l>(request: &Request, line: &'l Reverse) -> (Cow<'l, str>, Cow<'l, str>) {
    let replaced = |text: &'l str| match line.interpolate && request.dir::<ProxyDir>().interpolate() {
        true => interpolated(request, text).map_or(Cow::Borrowed(text), Cow::Owned),
        false => Cow::Borrowed(text),
    };
    (replaced(&line.inner), replaced(&line.outer))
}

/// The rest of a text that begins with this prefix, in whatever case.
fn strip_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        assert_eq!(path_of("http://a.example/b?c"), "/b?c");
        assert_eq!(path_of("/b"), "/b");
        assert_eq!(path_of("http://a.example"), "http://a.example");
        let cookie = "a=b; Path=/x; Domain=d";
        let part = |name| attribute(cookie, name).map(|(start, end)| &cookie[start..end]);
        assert_eq!((part("path="), part("domain="), part("expires=")), (Some("/x"), Some("d"), None));
        assert_eq!(strip_prefix("HTTP://a/b", "http://A/"), Some("b"));
        assert_eq!(strip_prefix("ä", "a"), None);
    }
}
