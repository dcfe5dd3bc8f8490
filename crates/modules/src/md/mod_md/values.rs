//! The values of mod_md's directives.

use std::time::Duration;

use conf::values::duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// `MDRenewMode`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewMode {
    /// For domains with a virtual host that has `SSLEngine on`.
    Auto,
    /// For all domains.
    Always,
    /// For none.
    Manual,
}

/// `MDRequireHttps`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequireHttps {
    /// No redirects.
    Off,
    /// Redirects with 302.
    Temporary,
    /// Redirects with 301, and sends `Strict-Transport-Security`.
    Permanent,
}

/// `MDMatchNames`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Any name of a virtual host assigns it to a domain.
    All,
    /// Only its `ServerName` does.
    ServerNames,
}

/// A part of a certificate's lifetime, or a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A percentage of the lifetime.
    Percent(u32),
    /// A fixed time, whatever the lifetime.
    Time(Duration),
}

impl Span {
    /// Parses a value; a number alone counts days. `Err`: the end of the message.
    pub(super) fn parse(text: &str) -> Result<Span, &'static str> {
        if let Some(percent) = text.strip_suffix('%') {
            return match percent.parse() {
                Ok(percent @ 0..100) => Ok(Span::Percent(percent)),
                Ok(_) => Err("a length of 100% or more is not allowed."),
                Err(_) => Err("has unrecognized format"),
            };
        }
        time(text, DAY).map(Span::Time).ok_or("has unrecognized format")
    }

    /// The duration for a certificate with this lifetime, in seconds.
    pub(super) fn of(self, life: i64) -> i64 {
        match self {
            Span::Percent(percent) => life / 100 * i64::from(percent),
            Span::Time(time) => i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        }
    }
}

/// Parses a duration: days (`d`), and the units of [`duration`]; a negative one becomes zero.
pub(super) fn time(text: &str, unit: Duration) -> Option<Duration> {
    if let Some(rest) = text.strip_prefix('-') {
        return time(rest, unit).map(|_| Duration::ZERO);
    }
    match text.strip_suffix(['d', 'D']) {
        Some(days) => Some(DAY.checked_mul(days.parse().ok()?)?),
        None => duration(text, unit),
    }
}
