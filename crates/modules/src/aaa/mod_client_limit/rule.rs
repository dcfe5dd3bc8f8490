//! A line `ClientLimit`: what is limited, how much, and for whom.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use conf::expr::{Options, StringExpr};
use conf::{Origin, Refusal};

use super::table::Rate;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Counted {
    /// Each request.
    Requests,
    /// Requests with credentials that are refused (401).
    FailedLogins,
    /// The bytes that are sent.
    Bytes,
}

/// What is counted, by its name.
const COUNTED: [(&str, Counted); 3] =
    [("requests", Counted::Requests), ("failed-logins", Counted::FailedLogins), ("bytes", Counted::Bytes)];

/// Whose requests are counted together.
#[derive(Clone, Debug)]
pub(super) enum By {
    /// An IPv4 address, or a /64 of IPv6, which is what a customer has.
    Address,
    /// A /24 of IPv4, or a /48 of IPv6.
    Network,
    /// The user who has logged in; strangers are not limited.
    User,
    /// The value of an expression, and its text; requests for which the value is empty are not limited.
    Value(Arc<StringExpr>, String),
}

/// A limit.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) rate: Rate,
    pub(super) by: By,
    pub(super) counted: Counted,
    /// Refuses nobody, and says so in the environment.
    pub(super) only_logs: bool,
    /// The rate as written.
    pub(super) text: String,
    pub(super) origin: Origin,
    /// Its place in the configuration, which is the same on all servers: file below `ServerRoot`, and line.
    pub(super) place: String,
}

/// Units of a rate, and their lengths in seconds.
const UNITS: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3600), ("d", 86_400)];

/// The most requests of a unit of time, and the most bytes.
const REQUESTS_MAX: u64 = 1_000_000;
const BYTES_MAX: u64 = u32::MAX as u64;
/// The least time that a byte may cost: shorter ones would be inexact. That is a little more than 100 MB a second.
const BYTE_MIN: Duration = Duration::from_nanos(9);

impl Rule {
    /// Reads the words of a line.
    ///
    /// # Errors
    /// What is wrong, and at which word.
    pub(super) fn read(words: &[String], origin: Origin, root: &str, options: Options) -> Result<Rule, Refusal> {
        let [rate, more @ ..] = words else { return Err(Refusal::missing("ClientLimit takes a rate, such as 10/s")) };
        // What is counted decides how the rate is read.
        let counted = more.iter().find_map(|word| {
            let (name, what) = word.split_once('=')?;
            conf::values::one_of(what, &COUNTED).filter(|_| name.eq_ignore_ascii_case("of"))
        });
        let counted = counted.unwrap_or(Counted::Requests);
        let (each, count) = rate_of(rate, counted).ok_or_else(|| {
            Refusal::argument(1, format!("ClientLimit: '{rate}' is no rate, such as {}", example(counted)))
        })?;
        let mut rule = Rule {
            rate: Rate { each, burst: count },
            by: By::Address,
            counted,
            only_logs: false,
            text: rate.clone(),
            place: format!("{}:{}", below(root, origin.file()), origin.line),
            origin,
        };
        for (number, word) in more.iter().enumerate() {
            let wrong = |what: &str| Refusal::argument(number + 2, format!("ClientLimit: '{word}' {what}"));
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match (name.to_ascii_lowercase().as_str(), value) {
                ("burst", count) => {
                    let count = amount(count, counted).and_then(|count| u32::try_from(count).ok());
                    rule.rate.burst = count.ok_or_else(|| wrong("is not a number from 1 to 4294967295"))?;
                }
                ("by", "address") => rule.by = By::Address,
                ("by", "network") => rule.by = By::Network,
                ("by", "user") => rule.by = By::User,
                ("by", value) => {
                    let is_bare = !value.contains("%{");
                    let text = StringExpr::parse_with(value, options)
                        .map_err(|why| wrong(&format!("is no expression: {why}")));
                    let text = if is_bare {
                        Err(wrong("is neither address, network, user nor an expression like %{HTTP:X-Key}"))
                    } else {
                        text
                    };
                    rule.by = By::Value(Arc::new(text?), value.to_string());
                }
                ("of", what) if conf::values::one_of(what, &COUNTED) == Some(counted) => {}
                ("of", _) => return Err(wrong("is none of of=requests, of=failed-logins and of=bytes")),
                ("only-log", "") => rule.only_logs = true,
                _ => return Err(wrong("is none of burst=, by=, of= and only-log")),
            }
        }
        Ok(rule)
    }
}

/// The name of a file from `ServerRoot` on, if the file is there.
fn below<'a>(root: &str, file: &'a str) -> &'a str {
    file.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/')).unwrap_or(file)
}

/// The time that a request or a byte costs, and how many of them a unit of time has.
fn rate_of(text: &str, counted: Counted) -> Option<(Duration, u32)> {
    let (count, unit) = text.split_once('/')?;
    let most = if counted == Counted::Bytes { BYTES_MAX } else { REQUESTS_MAX };
    let count = u32::try_from(amount(count, counted)?.min(most + 1)).ok().filter(|count| u64::from(*count) <= most)?;
    let (_, seconds) = UNITS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    // Without `burst`, those of a unit may come at once.
    let each = Duration::from_secs(seconds) / count;
    Some((each, count)).filter(|_| counted != Counted::Bytes || each >= BYTE_MIN)
}

/// A number from 1 on; of bytes, also with a unit.
fn amount(text: &str, counted: Counted) -> Option<u64> {
    let number = if counted == Counted::Bytes { conf::values::size(text) } else { text.parse().ok() };
    number.filter(|number| *number >= 1)
}

fn example(counted: Counted) -> &'static str {
    match counted {
        Counted::Requests | Counted::FailedLogins => "10/s, 100/min, 1000/h or 5000/d",
        Counted::Bytes => "500K/s, 100M/min or 2G/d, up to 100M/s and 3G/d",
    }
}

impl By {
    /// As in the configuration.
    pub(super) fn text(&self) -> &str {
        match self {
            By::Address => "address",
            By::Network => "network",
            By::User => "user",
            By::Value(_, text) => text,
        }
    }

    /// The client's address as far as its requests are counted together.
    pub(super) fn part_of(&self, address: IpAddr) -> Option<IpAddr> {
        let (bits4, bits6) = match self {
            By::Address => (32, 64),
            By::Network => (24, 48),
            By::User | By::Value(..) => return None,
        };
        Some(match address {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << (32 - bits4))).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits6))).into(),
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientLimit {}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_times() {
        for (text, expected) in [
            ("10/s", Some((100_000, 10))),
            ("1/min", Some((60_000_000, 1))),
            ("100/H", Some((36_000_000, 100))),
            ("0/s", None),
            ("10", None),
            ("10/week", None),
            ("-1/s", None),
        ] {
            let rate = rate_of(text, Counted::Requests).map(|(each, count)| (each.as_micros(), count));
            assert_eq!(rate, expected, "{text}");
        }
        for (text, expected) in [
            ("1M/s", Some((953, 1 << 20))),
            ("100K/min", Some((585_937, 102_400))),
            ("3G/d", Some((26_822, 3 << 30))),
            ("4G/d", None),
            ("200M/s", None),
            ("0/s", None),
        ] {
            let rate = rate_of(text, Counted::Bytes).map(|(each, count)| (each.as_nanos(), count));
            assert_eq!(rate, expected, "{text}");
        }
    }

    #[test]
    fn files_below_the_root_have_short_names() {
        for (file, expected) in [("/a/b/c.conf", "b/c.conf"), ("/ab/c.conf", "/ab/c.conf"), ("/c.conf", "/c.conf")] {
            assert_eq!((below("/a", file), below("/a/", file)), (expected, expected));
        }
    }

    #[test]
    fn networks_are_parts_of_addresses() {
        for (by, address, expected) in [
            (By::Address, "192.0.2.7", "192.0.2.7"),
            (By::Network, "192.0.2.7", "192.0.2.0"),
            (By::Address, "2001:db8:1:2:3::4", "2001:db8:1:2::"),
            (By::Network, "2001:db8:1:2:3::4", "2001:db8:1::"),
        ] {
            assert_eq!(by.part_of(address.parse().unwrap()), Some(expected.parse().unwrap()), "{by:?} {address}");
        }
    }
}
