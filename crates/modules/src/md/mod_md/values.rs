//! The values of directives.

use std::time::Duration;

use conf::values::duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// `MDRenewMode`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewMode {
    /// For domains that a virtual host with `SSLEngine on` has.
    Auto,
    /// For all.
    Always,
    /// For none.
    Manual,
}

/// `MDRequireHttps`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequireHttps {
    /// Not at all.
    Off,
    /// With 302.
    Temporary,
    /// With 301, and `Strict-Transport-Security`.
    Permanent,
}

/// `MDMatchNames`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// A virtual host belongs to a domain by any of its names.
    All,
    /// By its `ServerName` alone.
    ServerNames,
}

/// A part of a certificate's life, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// So many hundredths of its life.
    Percent(u32),
    /// So long.
    Time(Duration),
}

impl Span {
    /// What a line says; a number alone counts days. `Err`: the end of the message.
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

    /// How much of a life it is, in seconds.
    pub(super) fn of(self, life: i64) -> i64 {
        match self {
            Span::Percent(percent) => life / 100 * i64::from(percent),
            Span::Time(time) => i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        }
    }
}

/// A time: days (`d`) as well as what [`duration`] knows; less than nothing is nothing.
pub(super) fn time(text: &str, unit: Duration) -> Option<Duration> {
    if let Some(rest) = text.strip_prefix('-') {
        return time(rest, unit).map(|_| Duration::ZERO);
    }
    match text.strip_suffix(['d', 'D']) {
        Some(days) => Some(DAY.checked_mul(days.parse().ok()?)?),
        None => duration(text, unit),
    }
}
