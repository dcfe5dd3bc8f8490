//! The values of options: times, rates, periods, and parts of messages.

use std::path::PathBuf;
use std::time::Duration;

use crate::load::Pace;

/// A time in seconds, as httperf writes it.
pub(super) fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST);
    time.ok_or_else(|| format!("{text} is not a time of 0 to {} seconds", LONGEST.as_secs()))
}

/// Thirty years: sums of times up to this do not overflow.
pub(super) const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// Connections per second; 0 is as fast as possible.
pub(super) fn rate(text: &str) -> std::result::Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of connections"))?;
    let is_possible = rate == 0.0 || (rate.is_finite() && rate * LONGEST.as_secs_f64() >= 1.0);
    is_possible.then_some(rate).ok_or_else(|| "a rate is a number of connections per second, or 0".into())
}

/// The part of a message to print; otherwise both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Header,
    Body,
}

/// `header` or `body`.
pub(super) fn part(text: &str) -> std::result::Result<Part, String> {
    match text {
        "header" => Ok(Part::Header),
        "body" => Ok(Part::Body),
        _ => Err("header and body can be printed".to_owned()),
    }
}

/// The intervals between connections: `T1`, `uT1,T2` or `eT1`.
pub(super) fn period(text: &str) -> std::result::Result<Pace, String> {
    let (kind, times) = match text.as_bytes().first() {
        Some(kind @ (b'd' | b'u' | b'e')) => (*kind, &text[1..]),
        _ => (b'd', text),
    };
    match (kind, times.split_once(',')) {
        (b'd', None) => seconds(times).map(Pace::Constant),
        (b'e', None) => seconds(times).map(Pace::Exponential),
        (b'u', Some((least, most))) => {
            let (least, most) = (seconds(least)?, seconds(most)?);
            if least <= most { Ok(Pace::Uniform(least, most)) } else { Err("T1 is longer than T2".into()) }
        }
        _ => Err("a period is T1, uT1,T2 or eT1".into()),
    }
}

/// Whether a log is read again and again, and its file: `y,FILE` or `n,FILE`.
pub(super) fn log(text: &str) -> std::result::Result<(bool, PathBuf), String> {
    match text.split_once(',') {
        Some((again @ ("y" | "n"), file)) => Ok((again == "y", file.into())),
        _ => Err("a log is y,FILE or n,FILE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_distributions() {
        let milliseconds = Duration::from_millis;
        assert_eq!(period("0.01"), Ok(Pace::Constant(milliseconds(10))));
        assert_eq!(period("d0.01"), Ok(Pace::Constant(milliseconds(10))));
        assert_eq!(period("u0.01,0.02"), Ok(Pace::Uniform(milliseconds(10), milliseconds(20))));
        assert_eq!(period("e0.5"), Ok(Pace::Exponential(milliseconds(500))));
        assert!(["", "u1", "u2,1", "e1,2", "x1", "-1", "e1e19"].into_iter().all(|text| period(text).is_err()));
    }

    #[test]
    fn rates_are_possible() {
        assert_eq!(["0", "0.001", "1e8"].map(rate), [Ok(0.0), Ok(0.001), Ok(1e8)]);
        assert!(["-1", "nan", "inf", "1e-300"].into_iter().all(|text| rate(text).is_err()));
    }

    #[test]
    fn logs_are_read() {
        assert_eq!(log("y,/a"), Ok((true, "/a".into())));
        assert!(log("/a").is_err());
    }
}
