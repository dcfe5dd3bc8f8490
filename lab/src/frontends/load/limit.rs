//! `--fail-if 'p99 > 50ms'`: limits that a load has to keep, for scripts and continuous integration.

use std::time::Duration;

use crate::load::Record;
use crate::machine::duration::duration;
use crate::machine::error::{Error, Result};

/// The exit status of a load that broke a limit, as that of k6.
pub(crate) const BROKEN: u8 = 99;

/// A condition under which a load has failed.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    /// As it was given.
    text: String,
    figure: Figure,
    holds: Compare,
    /// In the unit of the figure: seconds, requests per second, or requests.
    bar: f64,
}

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// The longest time that so many in a hundred responses took.
    Percentile(f64),
    Mean,
    Max,
    /// Responses per second.
    Rate,
    /// Requests without a good response, and their share of all.
    Errors,
    ErrorShare,
    /// Responses whose status begins with this digit, and their share of all.
    Class(usize),
    ClassShare(usize),
}

type Compare = fn(f64, f64) -> bool;

const OPERATORS: [(&str, Compare); 4] =
    [(">=", |a, b| a >= b), ("<=", |a, b| a <= b), (">", |a, b| a > b), ("<", |a, b| a < b)];

impl Limit {
    /// Parses `p99 > 50ms`, `rps < 1000`, `errors > 0.1%` or `5xx > 0`.
    pub(super) fn parse(text: &str) -> std::result::Result<Limit, String> {
        let operator = OPERATORS.into_iter().find_map(|(sign, holds)| Some((text.split_once(sign)?, holds)));
        let ((name, bar), holds) = operator.ok_or("a limit is `FIGURE > VALUE`, with >, >=, < or <=")?;
        let (name, bar) = (name.trim().to_ascii_lowercase(), bar.trim());
        let (bar, is_share) = match bar.strip_suffix('%') {
            Some(bar) => (bar.trim(), true),
            None => (bar, false),
        };
        let figure = Figure::of(&name, is_share).ok_or_else(|| {
            let of = if is_share { " as a share" } else { "" };
            format!(
                "{name:?} is no figure{of}: p50, p99.9, mean, max, rps, errors and 5xx are, errors and 5xx also in %"
            )
        })?;
        let bar = match figure {
            Figure::Percentile(_) | Figure::Mean | Figure::Max => duration(bar)?.as_secs_f64(),
            _ => bar.parse().map_err(|_| format!("{bar:?} is not a number"))?,
        };
        Ok(Limit { text: text.trim().to_owned(), figure, holds, bar })
    }
}

impl Figure {
    fn of(name: &str, is_share: bool) -> Option<Figure> {
        Some(match (name, is_share) {
            ("mean", false) => Figure::Mean,
            ("max", false) => Figure::Max,
            ("rps", false) => Figure::Rate,
            ("errors", false) => Figure::Errors,
            ("errors", true) => Figure::ErrorShare,
            (name, _) if name.ends_with("xx") => {
                let class = name.strip_suffix("xx")?.parse().ok().filter(|class| (1..=5).contains(class))?;
                if is_share { Figure::ClassShare(class) } else { Figure::Class(class) }
            }
            (name, false) => {
                let percent = name.strip_prefix('p')?.parse().ok();
                Figure::Percentile(percent.filter(|percent| (0.0..=100.0).contains(percent))?)
            }
            _ => return None,
        })
    }

    fn value(self, record: &Record) -> f64 {
        let seconds = |microseconds: f64| microseconds / 1e6;
        let all = record.asked().max(1) as f64;
        match self {
            Figure::Percentile(percent) => seconds(record.total.0.value_at_quantile(percent / 100.0) as f64),
            Figure::Mean => seconds(record.total.0.mean()),
            Figure::Max => seconds(record.total.0.max() as f64),
            Figure::Rate => record.rate(),
            Figure::Errors => (record.asked() - record.good.min(record.asked())) as f64,
            Figure::ErrorShare => Figure::Errors.value(record) / all * 100.0,
            Figure::Class(class) => record.classes[class] as f64,
            Figure::ClassShare(class) => record.classes[class] as f64 / all * 100.0,
        }
    }

    fn describe(self, value: f64) -> String {
        match self {
            Figure::Percentile(_) | Figure::Mean | Figure::Max => format!("{:?}", Duration::from_secs_f64(value)),
            Figure::Rate => format!("{value:.1} per second"),
            Figure::Errors | Figure::Class(_) => format!("{value:.0}"),
            Figure::ErrorShare | Figure::ClassShare(_) => format!("{value:.2} %"),
        }
    }
}

/// The limits that a load breaks, each with the figure that breaks it.
pub(super) fn broken<'l>(limits: &'l [Limit], record: &Record) -> Vec<(&'l str, String)> {
    let broken = limits.iter().filter_map(|limit| {
        let value = limit.figure.value(record);
        (limit.holds)(value, limit.bar).then(|| (limit.text.as_str(), limit.figure.describe(value)))
    });
    broken.collect()
}

/// Checks a load against all limits.
///
/// # Errors
/// The record breaks some limits; says which, and ends with the status [`BROKEN`].
pub(super) fn check(limits: &[Limit], record: &Record) -> Result<()> {
    let broken = broken(limits, record).into_iter();
    let told: Vec<String> = broken.map(|(limit, figure)| format!("failed, because {limit}: it is {figure}")).collect();
    match told.is_empty() {
        true => Ok(()),
        false => Err(Error::new(told.join("\n")).ending_with(BROKEN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_what_they_say() {
        let parsed = |text: &str| Limit::parse(text).map(|limit| (limit.figure, limit.bar));
        for (text, figure, bar) in [
            ("p99 > 50ms", Figure::Percentile(99.0), 0.05),
            ("P99.9>=1s", Figure::Percentile(99.9), 1.0),
            ("mean > 2", Figure::Mean, 2.0),
            ("rps < 1000", Figure::Rate, 1000.0),
            ("errors > 0", Figure::Errors, 0.0),
            ("errors > 0.1 %", Figure::ErrorShare, 0.1),
            ("5xx>0", Figure::Class(5), 0.0),
            ("4xx >= 5%", Figure::ClassShare(4), 5.0),
        ] {
            assert_eq!(parsed(text), Ok((figure, bar)), "{text}");
        }
        for text in ["", "p99", "p101 > 1s", "p99 > 5%", "p99 > 50x", "rps < many", "9xx > 0", "p99 = 1s", "rps < 5%"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
