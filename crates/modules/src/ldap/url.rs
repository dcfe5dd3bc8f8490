//! URLs of directories (RFC 4516), as parsed by Apache.

use upstream::Address;

use super::message::Scope;

/// The port of plain LDAP.
const PORT: u16 = 389;

/// The parts of a directory's URL: where it is, and what to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// Whether the connection is encrypted from its first byte.
    pub(crate) is_secure: bool,
    /// The hosts of the directory; several are equivalent.
    pub(crate) hosts: Vec<Address>,
    /// The entry below which searches look.
    pub(crate) base: String,
    pub(crate) attributes: Vec<String>,
    pub(crate) scope: Option<Scope>,
    pub(crate) filter: Option<String>,
}

impl Url {
    /// Parses a URL. `Err`: the fault, in Apache's words.
    pub(crate) fn parse(text: &str) -> Result<Url, &'static str> {
        const BAD: &str = "Bad URL encountered while parsing LDAP URL.";
        let text = match text.strip_prefix('<') {
            Some(inner) => inner.strip_suffix('>').ok_or("Bad enclosure error while parsing LDAP URL.")?,
            None => text,
        };
        let text = without_prefix(text, "URL:").unwrap_or(text);
        let schemes = [("ldap://", false, false), ("ldaps://", true, false), ("ldapi://", false, true)];
        let (rest, is_secure, is_local) = schemes
            .iter()
            .find_map(|(scheme, secure, local)| Some((without_prefix(text, scheme)?, *secure, *local)))
            .ok_or("The scheme was not recognised as a valid LDAP URL scheme.")?;
        let (host, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let host = unescape(host).ok_or(BAD)?;
        let hosts = if is_local { vec![Address::Unix(host)] } else { hosts(&host, is_secure) };
        let mut parts = rest.split('?');
        let mut next = || unescape(parts.next().unwrap_or_default()).ok_or(BAD);
        let (base, attributes, scope, filter) = (next()?, next()?, next()?, next()?);
        if let Some("") = parts.next() {
            return Err("Bad extensions encountered while parsing LDAP URL.");
        }
        if parts.next().is_some() {
            return Err(BAD);
        }
        let scope = match scope.to_ascii_lowercase().as_str() {
            "" => None,
            "one" | "onelevel" => Some(Scope::OneLevel),
            "base" => Some(Scope::Base),
            "sub" | "subtree" => Some(Scope::Subtree),
            _ => return Err("Bad scope encountered while parsing LDAP URL."),
        };
        let attributes = attributes.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect();
        let filter = Some(filter).filter(|filter| !filter.is_empty());
        Ok(Url { is_secure, hosts, base, attributes, scope, filter })
    }
}

fn without_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let front = text.get(..prefix.len())?;
    if front.eq_ignore_ascii_case(prefix) { text.get(prefix.len()..) } else { None }
}

/// The hosts of a list. Its last port also applies to hosts without one.
fn hosts(list: &str, is_secure: bool) -> Vec<Address> {
    let usual = if is_secure { 636 } else { PORT };
    let number = |text: &str| text.parse().ok().filter(|port: &u16| *port != 0);
    let divided = |host: &str| match host.rsplit_once(':') {
        // The colons of an address belong to it, with or without brackets.
        Some((name, port)) if !port.contains(']') && (!name.contains(':') || name.ends_with(']')) => {
            (name.to_string(), Some(number(port).unwrap_or(usual)))
        }
        _ => (host.to_string(), None),
    };
    let hosts: Vec<_> = list.split_ascii_whitespace().map(divided).collect();
    let port = hosts.iter().rev().find_map(|(_, port)| *port).unwrap_or(usual);
    if hosts.is_empty() {
        return vec![Address::Tcp("localhost".into(), usual)];
    }
    hosts.into_iter().map(|(host, own)| Address::Tcp(host, own.unwrap_or(port))).collect()
}

/// Decodes `%xx`.
fn unescape(text: &str) -> Option<String> {
    let (bytes, mut plain) = (http::text::to_bytes(text), Vec::new());
    let mut rest = &bytes[..];
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
            plain.push((digit(0)? << 4 | digit(1)?) as u8);
            rest = &after[2..];
        } else {
            plain.push(byte);
        }
    }
    Some(http::text::from_bytes(&plain).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(hosts: &[(&str, u16)]) -> Vec<Address> {
        hosts.iter().map(|(host, port)| Address::Tcp(host.to_string(), *port)).collect()
    }

    /// Measured on 2.4.71 (`LogLevel authnz_ldap:trace1`).
    #[test]
    fn urls() {
        let parse = |text: &str| Url::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        for (text, expected) in [
            ("ldap://h", tcp(&[("h", 389)])),
            ("LDAP://h:77/", tcp(&[("h", 77)])),
            ("ldap:///dc=x", tcp(&[("localhost", 389)])),
            ("ldap://h:0/", tcp(&[("h", 389)])),
            ("ldap://h:port/", tcp(&[("h", 389)])),
            ("ldap://[::1]:77/", tcp(&[("[::1]", 77)])),
            ("ldap://[::1]/", tcp(&[("[::1]", 389)])),
            ("ldap://a:1 b/", tcp(&[("a", 1), ("b", 1)])),
            ("ldap://a b:2/", tcp(&[("a", 2), ("b", 2)])),
            ("ldap://a:1 b:2 c/", tcp(&[("a", 1), ("b", 2), ("c", 2)])),
            ("<ldap://h/>", tcp(&[("h", 389)])),
            ("url:ldap://h/", tcp(&[("h", 389)])),
            ("ldaps://h/", tcp(&[("h", 636)])),
            ("ldapi://%2ftmp%2Fx/dc=x", vec![Address::Unix("/tmp/x".into())]),
        ] {
            assert_eq!(parse(text).hosts, expected, "{text}");
        }
        assert!(parse("ldaps://h/").is_secure && !parse("ldap://h/").is_secure);
        let all = parse("ldap://h/dc%3dx?a%2cb,,c?one?(a%28=b)?!ext");
        assert_eq!((&*all.base, all.scope, all.filter.as_deref()), ("dc=x", Some(Scope::OneLevel), Some("(a(=b)")));
        assert_eq!(all.attributes, ["a", "b", "c"]);
        let short = parse("ldap://h/dc=x??SUBTREE?");
        assert_eq!((short.attributes.len(), short.scope, short.filter), (0, Some(Scope::Subtree), None));
        for (text, why) in [
            ("http://x/", "The scheme was not recognised as a valid LDAP URL scheme."),
            ("ldap:/x", "The scheme was not recognised as a valid LDAP URL scheme."),
            ("<ldap://h/", "Bad enclosure error while parsing LDAP URL."),
            ("ldap://h/dc=x?a?bogus", "Bad scope encountered while parsing LDAP URL."),
            ("ldap://h/dc=x?a?one?x?ext?more", "Bad URL encountered while parsing LDAP URL."),
            ("ldap://h/dc=x????", "Bad extensions encountered while parsing LDAP URL."),
            ("ldap://h/%zz", "Bad URL encountered while parsing LDAP URL."),
        ] {
            assert_eq!(Url::parse(text), Err(why), "{text}");
        }
    }
}
