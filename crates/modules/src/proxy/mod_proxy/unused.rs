//! Parameters of backends without a meaning in these protocols, or that Tsubame does not need: values that Apache
//! refuses are refused, others have no effect.

use conf::values::atoi;

/// What a value has to be, with Apache's messages.
enum Rule {
    Number {
        least: i32,
        most: i32,
        message: &'static str,
    },
    /// Nothing, or at least 512 bytes.
    Size(&'static str),
    /// At most 15 bytes.
    Short(&'static str),
}

use Rule::{Number, Short, Size};

/// The parameters by their names.
const RULES: [(&str, Rule); 6] = [
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
    ("flusher", Short("flusher name length must be < 16 characters")),
    ("min", Number { least: 0, most: i32::MAX, message: "Min must be a positive number" }),
    ("receivebuffersize", Size("ReceiveBufferSize must be >= 512 bytes, or 0 for system default.")),
    (
        "responsefieldsize",
        Number {
            least: 0,
            most: i32::MAX,
            message: "ResponseFieldSize must be greater than 0 bytes, or 0 for system default.",
        },
    ),
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
            Number { least, most, message } => is_met((*least..=*most).contains(&atoi(value)), message),
            Size(message) => is_met(matches!(atoi(value), 0 | 512..), message),
            Short(message) => is_met(value.len() < 16, message),
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
            ("flusher", "abcdefghijklmno", "abcdefghijklmnop"),
            ("min", "x", "-1"),
            ("receivebuffersize", "512", "100"),
            ("responsefieldsize", "0", "-1"),
        ] {
            assert_eq!(check(key, good), Some(Ok(())), "{key}={good}");
            assert!(check(key, bad).is_some_and(|checked| checked.is_err()), "{key}={bad}");
        }
        assert_eq!(check("timeout", "x"), None);
    }
}
