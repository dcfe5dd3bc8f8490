//! Parameters of backends without a meaning in these protocols, or that Tsubame does not need: values that Apache
//! refuses are refused, others have no effect.

use std::time::Duration;

use conf::values::{atoi, duration};

/// What a value has to be, with Apache's messages.
enum Rule {
    Switch(&'static str),
    /// A time of at least a millisecond.
    Time {
        format: &'static str,
        least: &'static str,
    },
    Number {
        least: i32,
        most: i32,
        message: &'static str,
    },
    /// Nothing, or at least 512 bytes.
    Size(&'static str),
    /// At most 63 bytes.
    Short(&'static str),
}

use Rule::{Number, Short, Size, Switch, Time};

/// The parameters by their names.
const RULES: [(&str, Rule); 9] = [
    (
        "addressttl",
        Number {
            least: -1,
            most: i32::MAX,
            message: "AddressTTL must be -1 or a number of seconds not exceeding (2147483647)",
        },
    ),
    (
        "flushwait",
        Number {
            least: 0,
            most: 1000,
            message: "flushwait must be <= 1000, or 0 for system default of 10 millseconds.",
        },
    ),
    ("iobuffersize", Size("IOBufferSize must be >= 512 bytes, or 0 for system default.")),
    ("keepalive", Switch("KeepAlive must be On|Off")),
    ("min", Number { least: 0, most: i32::MAX, message: "Min must be a positive number" }),
    (
        "ping",
        Time {
            format: "Ping/Pong timeout has wrong format",
            least: "Ping/Pong timeout must be at least one millisecond",
        },
    ),
    ("receivebuffersize", Size("ReceiveBufferSize must be >= 512 bytes, or 0 for system default.")),
    (
        "responsefieldsize",
        Number {
            least: 0,
            most: i32::MAX,
            message: "ResponseFieldSize must be greater than 0 bytes, or 0 for system default.",
        },
    ),
    ("secret", Short("Secret length must be < 64 characters")),
];

/// Checks the value of such a parameter; `None`: it is another one. `key`: in lower case.
pub(super) fn check(key: &str, value: &str) -> Option<Result<(), &'static str>> {
    let (_, rule) = RULES.iter().find(|(name, _)| *name == key)?;
    Some(rule.check(value))
}

impl Rule {
    fn check(&self, value: &str) -> Result<(), &'static str> {
        let is_met = |is_met: bool, message: &'static str| if is_met { Ok(()) } else { Err(message) };
        match self {
            Switch(message) => is_met(["on", "off"].iter().any(|one| one.eq_ignore_ascii_case(value)), message),
            Time { format, least } => {
                let time = duration(value, Duration::from_secs(1)).ok_or(*format)?;
                is_met(time >= Duration::from_millis(1), least)
            }
            Number { least, most, message } => is_met((*least..=*most).contains(&atoi(value)), message),
            Size(message) => is_met(matches!(atoi(value), 0 | 512..), message),
            Short(message) => is_met(value.len() < 64, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_apache_takes_them() {
        for (key, good, bad) in [
            ("addressttl", "-1", "-2"),
            ("flushwait", "x", "1001"),
            ("iobuffersize", "0", "-1"),
            ("keepalive", "ON", "maybe"),
            ("min", "x", "-1"),
            ("ping", "5ms", "0"),
            ("receivebuffersize", "512", "100"),
            ("responsefieldsize", "0", "-1"),
        ] {
            assert_eq!(check(key, good), Some(Ok(())), "{key}={good}");
            assert!(check(key, bad).is_some_and(|checked| checked.is_err()), "{key}={bad}");
        }
        assert_eq!(check("timeout", "x"), None);
    }
}
