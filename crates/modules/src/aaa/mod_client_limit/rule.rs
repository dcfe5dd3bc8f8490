//! A line `ClientLimit`: what is limited, how much, and for whom.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use conf::expr::{Options, StringExpr};
use conf::{Origin, Refusal};

use super::table::Rate;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Each request.
    Requests,
    /// Requests with credentials that are refused (401).
    FailedLogins,
}

/// Whose requests are counted together.
#[derive(Clone, Debug)]
pub(super) enum By {
    /// An IPv4 address, or a /64 of IPv6, which is what a customer has.
    Address,
    /// A /24 of IPv4, or a /48 of IPv6.
    Network,
    /// The user who has logged in; strangers are not limited.
    User,
    /// The value of an expression; requests for which that is empty are not limited.
    Value(Arc<StringExpr>),
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

impl Rule {
    /// Reads the words of a line.
    ///
    /// # Errors
    /// What is wrong, and at which word.
    pub(super) fn read(words: &[String], origin: Origin, root: &str, options: Options) -> Result<Rule, Refusal> {
        let [rate, more @ ..] = words else { return Err(Refusal::missing("ClientLimit takes a rate, such as 10/s")) };
        let (each, count) = rate_of(rate).ok_or_else(|| {
            Refusal::argument(1, format!("ClientLimit: '{rate}' is no rate, such as 10/s, 100/min, 1000/h or 5000/d"))
        })?;
        let mut rule = Rule {
            rate: Rate { each, burst: count },
            by: By::Address,
            counted: Counted::Requests,
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
                    let count = count.parse().ok().filter(|count| *count >= 1);
                    rule.rate.burst = count.ok_or_else(|| wrong("is not a number from 1 on"))?;
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
                    rule.by = By::Value(Arc::new(text?));
                }
                ("of", "requests") => rule.counted = Counted::Requests,
                ("of", "failed-logins") => rule.counted = Counted::FailedLogins,
                ("of", _) => return Err(wrong("is neither of=requests nor of=failed-logins")),
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

/// The time that a request costs, and how many of them a unit of time has.
fn rate_of(text: &str) -> Option<(Duration, u32)> {
    let (count, unit) = text.split_once('/')?;
    let count: u32 = count.parse().ok().filter(|count| (1..=1_000_000).contains(count))?;
    let (_, seconds) = UNITS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    // Without `burst`, a unit's requests may come at once.
    Some((Duration::from_secs(seconds) / count, count))
}

impl By {
    /// The client's address as far as its requests are counted together.
    pub(super) fn part_of(&self, address: IpAddr) -> Option<IpAddr> {
        let (bits4, bits6) = match self {
            By::Address => (32, 64),
            By::Network => (24, 48),
            By::User | By::Value(_) => return None,
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
            let rate = rate_of(text).map(|(each, count)| (each.as_micros(), count));
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
