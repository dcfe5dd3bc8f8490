//! Requests about who may see what.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::line::{Line, Wanted};
use crate::switch::sources::requests::basic;

/// An address that nobody has (RFC 5737), and one of IPv6 (RFC 3849).
const ELSEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 9))];

/// A line about the addresses of clients, users, or everybody.
pub(super) fn address(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for path in line.scope.paths.iter().take(2) {
        let get = |what| line.get(path, what);
        for network in line.words.iter().filter_map(|word| Network::read(word)).take(6) {
            wanted.push(get("from an address that is meant").from(network.inside()));
            wanted.extend(network.outside().map(|outside| get("from just beside the addresses").from(outside)));
        }
        wanted.push(get("from this machine").from(Ipv4Addr::LOCALHOST.into()));
        wanted.push(get("from this machine").from(Ipv6Addr::LOCALHOST.into()));
        wanted.extend(ELSEWHERE.map(|client| get("from elsewhere").from(client)));
        wanted.push(get("HEAD").method("HEAD"));
        wanted.push(get("OPTIONS").method("OPTIONS"));
    }
    let wants_user = line.words.first().is_some_and(|word| word.contains("user") || word.contains("group"));
    if wants_user {
        wanted.extend(credentials(line));
    }
    wanted
}

/// A line about users.
pub(super) fn credentials(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let user = line.given.options.user.as_deref().map(basic);
    for path in line.scope.paths.iter().take(2) {
        wanted.push(line.get(path, "without credentials"));
        for (value, what) in [
            (Some(basic("no-such-user:wrong")), "with wrong credentials"),
            (Some(basic("no-colon")), "with half of the credentials"),
            (Some("Basic".to_owned()), "with no credentials"),
            (Some("Basic ***".to_owned()), "with malformed credentials"),
            (Some("Bearer x".to_owned()), "with credentials of another kind"),
            (Some("Digest username=\"x\"".to_owned()), "with half of a digest"),
            (user.clone(), "with credentials"),
        ] {
            wanted.extend(value.map(|value| line.get(path, what).with("Authorization", &value)));
        }
    }
    wanted
}

/// `ErrorDocument`: what leads to that status.
pub(super) fn error_document(line: &Line<'_>) -> Vec<Wanted> {
    let file = line.file();
    let mut wanted = match line.first() {
        "400" => vec![
            line.get("/%zz", "a malformed path"),
            line.get(file, "a malformed host").host(Some("a/b")),
            line.get(file, "no host").host(None),
        ],
        "401" => line.known.guarded.iter().take(3).map(|path| line.get(path, "without credentials")).collect(),
        "403" => {
            let closed = line.ground.entries().filter(|(_, entry)| !entry.is_open).map(|(url, _)| url);
            let denied = line.known.denied.iter().cloned().chain(closed.take(2));
            denied
                .chain(["/.htaccess".to_owned()])
                .take(5)
                .map(|path| line.get(&path, "what is not for everybody"))
                .collect()
        }
        "404" => vec![line.get(&format!("{}no-such-name", line.directory()), "what is not there")],
        "405" => vec![line.get(file, "a method that is not allowed").method("TRACE")],
        "406" => vec![line.get(file, "a type that is not there").with("Accept", "x/y")],
        "412" => vec![line.get(file, "a condition that does not hold").with("If-Match", "\"other\"")],
        "414" => vec![line.get(&format!("/{}", "x".repeat(9_000)), "a long path")],
        "416" => vec![line.get(file, "a range that is not there").with("Range", "bytes=99999999999-")],
        "417" => vec![line.get(file, "an expectation").with("Expect", "the-best")],
        _ => Vec::new(),
    };
    let others = [("HEAD", 1), ("GET", 0)].map(|(method, minor)| {
        let change = |one: &Wanted| {
            let mut one = one.clone().method(if one.ask.method == "GET" { method } else { &one.ask.method });
            one.ask.minor = minor;
            one
        };
        wanted.iter().map(change).collect::<Vec<_>>()
    });
    wanted.extend(others.into_iter().flatten());
    wanted
}

/// Addresses as the configuration writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    first: IpAddr,
    /// How many bits are the same in all.
    length: u32,
}

impl Network {
    /// Reads `192.0.2.1`, `192.0.2`, `192.0.2.0/24`, `192.0.2.0/255.255.255.0`, `2001:db8::/32`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
        let (first, usual): (IpAddr, u32) = match address.parse() {
            Ok(IpAddr::V4(address)) => (address.into(), 32),
            Ok(IpAddr::V6(address)) => (address.into(), 128),
            Err(_) => partial(address)?,
        };
        let full = if first.is_ipv4() { 32 } else { 128 };
        let length = match mask {
            None => usual,
            Some(mask) => match mask.parse::<Ipv4Addr>() {
                Ok(mask) => mask.to_bits().leading_ones(),
                Err(_) => mask.parse().ok().filter(|length| *length <= full)?,
            },
        };
        Some(Self { first, length })
    }

    /// One of them.
    pub(super) fn inside(self) -> IpAddr {
        match self.first {
            IpAddr::V4(first) if self.length < 31 => Ipv4Addr::from_bits(first.to_bits() | 1).into(),
            IpAddr::V6(first) if self.length < 127 => Ipv6Addr::from_bits(first.to_bits() | 1).into(),
            first => first,
        }
    }

    /// The first address behind them; none if they are the last ones.
    pub(super) fn outside(self) -> Option<IpAddr> {
        match self.first {
            IpAddr::V4(first) => {
                let last = first.to_bits() | u32::MAX.checked_shr(self.length).unwrap_or(0);
                last.checked_add(1).map(|next| Ipv4Addr::from_bits(next).into())
            }
            IpAddr::V6(first) => {
                let last = first.to_bits() | u128::MAX.checked_shr(self.length).unwrap_or(0);
                last.checked_add(1).map(|next| Ipv6Addr::from_bits(next).into())
            }
        }
    }
}

/// The beginning of an address, such as `10.1` or `10.`.
fn partial(text: &str) -> Option<(IpAddr, u32)> {
    let parts: Vec<u8> = text.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let mut bytes = [0; 4];
    bytes.get_mut(..parts.len())?.copy_from_slice(&parts);
    Some((Ipv4Addr::from(bytes).into(), u32::try_from(parts.len()).ok()? * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_and_beside_a_network() {
        for (text, inside, outside) in [
            ("192.0.2.1", "192.0.2.1", Some("192.0.2.2")),
            ("192.0.2", "192.0.2.1", Some("192.0.3.0")),
            ("10.", "10.0.0.1", Some("11.0.0.0")),
            ("192.0.2.0/255.255.255.0", "192.0.2.1", Some("192.0.3.0")),
            ("10.1.0.0/16", "10.1.0.1", Some("10.2.0.0")),
            ("2001:db8::/32", "2001:db8::1", Some("2001:db9::")),
            ("0.0.0.0/0", "0.0.0.1", None),
            ("255.255.255.255", "255.255.255.255", None),
        ] {
            let network = Network::read(text).unwrap();
            assert_eq!(network.inside().to_string(), inside, "{text}");
            assert_eq!(network.outside().map(|one| one.to_string()).as_deref(), outside, "{text}");
        }
        for text in ["example.org", "all", "from", "10.0.0.0/33", "1.2.3.4.5", "::/129", ""] {
            assert_eq!(Network::read(text), None, "{text}");
        }
    }
}
