//! The client's answer to the challenge: the `Authorization` field, and whether its `uri` matches the request.

use server::Request;
use server::authz::RealmDigest;

use super::nonce;
use crate::aaa::passwords::digits;

/// What a client sends in the field `Authorization`.
#[derive(Debug)]
pub(super) enum Credentials {
    /// There is no field.
    None,
    /// The field has another scheme, this one.
    Other(String),
    /// A parameter is missing, or has a form that ours never have.
    Invalid,
    /// Complete.
    Digest(Box<Digest>),
}

/// The parameters (RFC 7616 section 3.4).
#[derive(Debug, Default)]
pub(super) struct Digest {
    pub(super) username: String,
    pub(super) realm: String,
    pub(super) nonce: String,
    pub(super) uri: String,
    pub(super) response: String,
    pub(super) algorithm: Option<String>,
    pub(super) cnonce: Option<String>,
    pub(super) opaque: Option<String>,
    pub(super) qop: Option<String>,
    pub(super) nc: Option<String>,
}

impl Digest {
    /// The number of the client in `opaque`; `None`: it is not one of our numbers.
    pub(super) fn client(&self) -> Option<u32> {
        let opaque = self.opaque.as_deref()?;
        let digits = opaque.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(opaque, 16).ok().filter(|number| digits && *number != 0)
    }

    /// The nonce count; `None`: it is not a number. As in Apache text after a blank is ignored, and a number that is
    /// too large becomes the largest one.
    pub(super) fn count(&self) -> Option<u64> {
        let text = self.nc.as_deref().unwrap_or_default().trim_start();
        let digits = text.split_ascii_whitespace().next().unwrap_or_default();
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        Some(digits.bytes().fold(0, |count: u64, digit| {
            let digit = char::from(digit).to_digit(16).unwrap_or_default();
            count.saturating_mul(16).saturating_add(u64::from(digit)).min(i64::MAX.unsigned_abs())
        }))
    }
}

/// Parses the client's field.
pub(super) fn credentials(request: &Request, algorithm: RealmDigest) -> Credentials {
    let Some(field) = request.credentials() else { return Credentials::None };
    let (scheme, rest) = field.split_once([' ', '\t']).unwrap_or((&field, ""));
    if !scheme.eq_ignore_ascii_case("Digest") {
        return Credentials::Other(scheme.to_string());
    }
    match parse(rest) {
        Some(digest) if nonce::has_form(&digest.nonce) && digest.response.len() == digits(algorithm) => {
            Credentials::Digest(Box::new(digest))
        }
        _ => Credentials::Invalid,
    }
}

/// `None`: a parameter is missing.
fn parse(text: &str) -> Option<Digest> {
    let (mut username, mut realm, mut nonce, mut uri, mut response) = (None, None, None, None, None);
    let mut digest = Digest::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, value) = parameter(&mut rest);
        let place = match name.to_ascii_lowercase().as_str() {
            "username" => &mut username,
            "realm" => &mut realm,
            "nonce" => &mut nonce,
            "uri" => &mut uri,
            "response" => &mut response,
            "algorithm" => &mut digest.algorithm,
            "cnonce" => &mut digest.cnonce,
            "opaque" => &mut digest.opaque,
            "qop" => &mut digest.qop,
            "nc" => &mut digest.nc,
            _ => continue,
        };
        *place = Some(value);
    }
    if digest.qop.is_some() && (digest.cnonce.is_none() || digest.nc.is_none()) {
        return None;
    }
    Some(Digest { username: username?, realm: realm?, nonce: nonce?, uri: uri?, response: response?, ..digest })
}

/// Takes a parameter, with the comma after it, as leniently as Apache does.
fn parameter<'a>(rest: &mut &'a str) -> (&'a str, String) {
    let text = rest.trim_ascii_start();
    let end = text.find(|c: char| matches!(c, '=' | ',') || c.is_ascii_whitespace()).unwrap_or(text.len());
    let (name, behind) = text.split_at(end);
    let mut behind = behind.trim_ascii_start();
    let mut value = String::new();
    if let Some(start) = behind.strip_prefix('=') {
        let start = start.trim_ascii_start();
        behind = match start.strip_prefix('"') {
            Some(quoted) => unquote(quoted, &mut value),
            None => {
                let end = start.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(start.len());
                value.push_str(&start[..end]);
                &start[end..]
            }
        };
    }
    *rest = behind.split_once(',').map_or("", |(_, rest)| rest);
    (name, value)
}

/// Takes a quoted text to its end, and returns the rest.
fn unquote<'a>(text: &'a str, into: &mut String) -> &'a str {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return &text[at + 1..],
            '\\' => into.push(chars.next().map_or('\\', |(_, c)| c)),
            c => into.push(c),
        }
    }
    ""
}

/// The comparison of a client's `uri` with its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Both name the same resource.
    Same,
    /// The `uri` lacks the query, and is otherwise the same.
    SameWithoutQuery,
    /// They name different resources.
    Another,
    /// The `uri` is none.
    Invalid,
}

/// The target of a request, as a `uri` may name it.
pub(super) struct RequestTarget<'a> {
    /// The target as it was sent.
    pub(super) target: &'a str,
    /// The server's own host name.
    pub(super) host: &'a str,
    /// The port of the request.
    pub(super) port: u16,
    /// The port that a URL may omit.
    pub(super) usual_port: u16,
}

/// The relevant parts of a URI.
struct Parts<'a> {
    host: Option<&'a str>,
    port: Option<u16>,
    path: &'a str,
    query: Option<&'a str>,
}

/// Compares the signed URI with the request's target. Proxies may have written the same thing in another way.
pub(super) fn compare(uri: &str, place: &RequestTarget<'_>) -> Comparison {
    if uri == place.target {
        return Comparison::Same;
    }
    let (Some(theirs), Some(ours)) = (parts(uri), parts(place.target)) else { return Comparison::Invalid };
    let host = ours.host.unwrap_or(place.host);
    let port = ours.port.unwrap_or(place.port);
    let other_host = theirs.host.is_some_and(|theirs| !unescape(theirs).eq_ignore_ascii_case(&unescape(host)));
    let other_port = match (theirs.port, theirs.host) {
        (Some(theirs), _) => theirs != port,
        (None, Some(_)) => port != place.usual_port,
        (None, None) => false,
    };
    if other_host || other_port || unescape(theirs.path) != unescape(ours.path) {
        return Comparison::Another;
    }
    match (theirs.query, ours.query) {
        (None, Some(_)) => Comparison::SameWithoutQuery,
        (theirs, ours) if theirs.map(unescape) == ours.map(unescape) => Comparison::Same,
        _ => Comparison::Another,
    }
}

/// `None`: it cannot be split.
fn parts(uri: &str) -> Option<Parts<'_>> {
    let uri = uri.split('#').next().unwrap_or_default();
    let scheme = uri.split_once("://").filter(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    let Some((_, rest)) = scheme else {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
        return Some(Parts { host: None, port: None, path, query });
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        None | Some("") => None,
        Some(port) => Some(port.parse().ok()?),
    };
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    Some(Parts { host: Some(host).filter(|host| !host.is_empty()), port, path, query })
}

fn unescape(text: &str) -> String {
    http::text::from_bytes(&http::uri::unescape_lenient(&http::text::to_bytes(text))).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_apache_reads_them() {
        let digest = parse(
            r#" username="a \"b\"" ,realm=x , nonce="n", uri="/a,b?c", response=r,qop=auth, nc=00000001, cnonce="", junk, =, opaque="1f"#,
        );
        let digest = digest.expect("complete");
        assert_eq!((digest.username.as_str(), digest.realm.as_str()), ("a \"b\"", "x"));
        assert_eq!((digest.uri.as_str(), digest.response.as_str()), ("/a,b?c", "r"));
        assert_eq!((digest.cnonce.as_deref(), digest.client(), digest.count()), (Some(""), Some(0x1f), Some(1)));
        let whole = r#"username="a", realm="b", nonce="c", uri="d", response="e""#;
        assert!(parse(whole).is_some());
        assert!(parse(&format!("{whole}, qop=auth, nc=1")).is_none(), "no cnonce");
        for at in 0..whole.rfind(',').expect("a comma") {
            assert!(parse(&whole[..at]).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn numbers_of_clients_and_counts() {
        let of = |opaque: &str, nc: &str| {
            let digest = Digest { opaque: Some(opaque.into()), nc: Some(nc.into()), ..Digest::default() };
            (digest.client(), digest.count())
        };
        assert_eq!(of("ff", "00000010"), (Some(255), Some(16)));
        assert_eq!(of("0", "x"), (None, None));
        assert_eq!(of("100000000", "1 x"), (None, Some(1)));
        assert_eq!(of("+1", "1x"), (None, None));
        assert_eq!(of("", &"f".repeat(40)), (None, Some(i64::MAX.unsigned_abs())));
    }

    #[test]
    fn the_same_place_in_other_words() {
        let place = |target| RequestTarget { target, host: "h", port: 80, usual_port: 80 };
        for (uri, target, want) in [
            ("/a?b", "/a?b", Comparison::Same),
            ("/%61?b", "/a?b", Comparison::Same),
            ("/a?%62", "/a?b", Comparison::Same),
            ("http://H/a", "/a", Comparison::Same),
            ("http://h:80/a", "/a", Comparison::Same),
            ("/a", "http://h/a", Comparison::Same),
            ("/a", "/a?b", Comparison::SameWithoutQuery),
            ("/a?b", "/a", Comparison::Another),
            ("/b", "/a", Comparison::Another),
            ("", "/a", Comparison::Another),
            ("http://other/a", "/a", Comparison::Another),
            ("http://h:81/a", "/a", Comparison::Another),
            ("http://h:x/a", "/a", Comparison::Invalid),
        ] {
            assert_eq!(compare(uri, &place(target)), want, "{uri} {target}");
        }
    }
}
