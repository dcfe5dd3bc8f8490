//! Host and port, as in the Host field and in absolute-form targets.

use std::net::Ipv6Addr;

/// A checked host with an optional port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// The host as it was written: a name (not folded to lower case, a final dot kept), an IPv4 address, or an IPv6
    /// address in brackets.
    pub host: &'a [u8],
    /// The port, if one was given.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Splits and checks `host[:port]`; `None` if it is not valid.
    ///
    /// If `strict`, a name consists of letters, digits, `-`, `_` and `.`, without empty labels inside; a name of
    /// digits and dots must be an IPv4 address, and the last of several labels starts with a letter. Otherwise
    /// anything passes that cannot leave a directory named after the host. Ports are 1 to 65535.
    #[must_use]
    pub fn parse(value: &'a [u8], strict: bool) -> Option<Authority<'a>> {
        let host_len = match value {
            [b'[', ..] => memchr::memchr(b']', value)? + 1,
            _ => memchr::memchr(b':', value).unwrap_or(value.len()),
        };
        let (host, rest) = value.split_at(host_len);
        let port = match rest {
            [] => None,
            [b':', digits @ ..] => match parse_port(digits) {
                Ok(port) => Some(port),
                Err(PortError::NotANumber) if !strict && !host.starts_with(b"[") => None,
                Err(_) => return None,
            },
            _ => return None,
        };
        let is_valid = match host {
            [b'[', address @ .., b']'] => is_ipv6(address),
            _ if strict => is_strict_name(host),
            _ => is_harmless_name(host),
        };
        is_valid.then_some(Authority { host, port })
    }
}

enum PortError {
    NotANumber,
    OutOfRange,
}

fn parse_port(digits: &[u8]) -> Result<u16, PortError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(PortError::NotANumber);
    }
    let number = digits.iter().fold(0_u32, |n, digit| (n * 10 + u32::from(digit - b'0')).min(0xF_FFFF));
    match u16::try_from(number) {
        Ok(0) | Err(_) => Err(PortError::OutOfRange),
        Ok(port) => Ok(port),
    }
}

fn is_ipv6(address: &[u8]) -> bool {
    std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

fn is_strict_name(host: &[u8]) -> bool {
    let (mut is_numeric, mut previous) = (true, 0);
    for &byte in host {
        match byte {
            b'0'..=b'9' => {}
            b'.' if previous == b'.' => return false,
            b'.' => {}
            b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' => is_numeric = false,
            _ => return false,
        }
        previous = byte;
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    if is_numeric {
        return is_dotted_quad(host);
    }
    match memchr::memrchr(b'.', host) {
        Some(dot) => host.get(dot + 1).is_some_and(u8::is_ascii_alphabetic),
        None => true,
    }
}

/// Four numbers without leading zeros. As in Apache they may exceed 255, which makes them a name that never resolves.
fn is_dotted_quad(host: &[u8]) -> bool {
    let mut labels = 0;
    for label in host.split(|&b| b == b'.') {
        labels += 1;
        if label.is_empty() || label.len() > 1 && label[0] == b'0' {
            return false;
        }
    }
    labels == 4
}

fn is_harmless_name(host: &[u8]) -> bool {
    !host.is_empty() && !host.iter().any(|b| matches!(b, b'/' | b'\\')) && !host.windows(2).any(|two| two == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, valid when strict, valid when not: the answers of Apache 2.4.71, except that Apache lets an empty name
    /// pass (`::1`) when not strict.
    const HOSTS: &[(&str, bool, bool)] = &[
        ("localhost", true, true),
        ("local host", false, true),
        ("a_b", true, true),
        ("a-b", true, true),
        ("a.b.", true, true),
        ("a..b", false, false),
        (".a", true, true),
        ("a.", true, true),
        (".", false, true),
        ("a/b", false, false),
        ("a\\b", false, false),
        ("a?b", false, true),
        ("a@b", false, true),
        ("[::1]", true, true),
        ("[::1]:80", true, true),
        ("[::1", false, false),
        ("::1", false, false),
        ("a:", false, true),
        ("a:80", true, true),
        ("a:0", false, false),
        ("a:00080", true, true),
        ("a:65535", true, true),
        ("a:65536", false, false),
        ("a:99999999999", false, false),
        ("a:x", false, true),
        ("a:80:80", false, true),
        ("127.0.0.1", true, true),
        ("1.2.3", false, true),
        ("1.2.3.4:8", true, true),
        ("1.2.3.4.", true, true),
        ("1.2.3.4.5", false, true),
        ("1.2.3.04", false, true),
        ("1.2.3.999", true, true),
        ("12", false, true),
        ("3com", true, true),
        ("163.com", true, true),
        ("1.2.3.4a", false, true),
        ("0x1.2", false, true),
        ("a._4", false, true),
        ("a.b_4", true, true),
        ("0xa", true, true),
        ("a,b", false, true),
        ("\u{e9}", false, true),
        ("[1.2.3.4]", false, false),
        ("[fe80::1%25en0]", false, false),
        ("[v1.a]", false, false),
        ("[::ffff:1.2.3.4]", true, true),
        ("[::1]a", false, false),
        ("[]", false, false),
        ("[::1]:", false, false),
        (":80", false, false),
        ("", false, false),
    ];

    #[test]
    fn hosts_as_apache_judges_them() {
        for &(host, strict, lax) in HOSTS {
            assert_eq!(Authority::parse(host.as_bytes(), true).is_some(), strict, "{host} strict");
            assert_eq!(Authority::parse(host.as_bytes(), false).is_some(), lax, "{host} not strict");
        }
    }

    #[test]
    fn splits_the_port() {
        assert_eq!(Authority::parse(b"[::1]:443", true), Some(Authority { host: b"[::1]", port: Some(443) }));
        assert_eq!(Authority::parse(b"a", true), Some(Authority { host: b"a", port: None }));
    }
}
