//! `load --find-rate`: the highest fixed rate at which a server answers in time.

use std::time::Duration;

use serde::Serialize;

use super::doubt::LATE_MAX_MS;
use super::{LoadOptions, view};
use crate::load::{Arrival, Pace, Plan, Record};
use crate::machine::error::{Context as _, Error, Result};
use crate::machine::interrupt;
use crate::screen::style;
use crate::screen::table::Table;

/// The default duration of each rate.
const LENGTH: Duration = Duration::from_secs(3);
/// More steps than the search can need, unless the server answers differently each time.
const STEPS: usize = 16;
/// The search ends when the rate is known within this factor.
const PRECISION: f64 = 1.05;
/// A server that answers a smaller share of the due requests each second does not keep up, whatever its latencies are
/// so far.
const KEEPS_UP: f64 = 0.98;

/// A rate, and its result.
#[derive(Debug, Serialize)]
struct Step {
    rate: f64,
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
    failures: u64,
    /// Why the rate is too high; `None` if it is not.
    too_high: Option<&'static str>,
}

/// In that case nothing is known about the server.
const GENERATOR: &str = "the generator itself was late";

/// The results in a form for other programs.
#[derive(Serialize)]
struct Found<'s> {
    limit_us: u64,
    steps: &'s [Step],
    /// Requests per second.
    rate: Option<f64>,
    /// Whether the server may answer more in time: above that rate the generator was late, so nothing is known.
    may_be_more: bool,
}

/// Halves the ratio between a good rate and one that is too high.
#[derive(Clone, Copy, Debug)]
struct Search {
    good: Option<f64>,
    bad: Option<f64>,
    next: f64,
}

impl Search {
    fn from(next: f64) -> Self {
        Self { good: None, bad: None, next }
    }

    /// Takes an outcome; returns whether the search continues.
    fn learn(&mut self, is_good: bool) -> bool {
        *(if is_good { &mut self.good } else { &mut self.bad }) = Some(self.next);
        self.next = match (self.good, self.bad) {
            (Some(good), Some(bad)) => (good * bad).sqrt(),
            (Some(good), None) => good * 2.0,
            (None, _) => self.next / 2.0,
        };
        let is_found = self.good.zip(self.bad).is_some_and(|(good, bad)| bad <= good * PRECISION);
        !is_found && (1.0..=1e6).contains(&self.next)
    }
}

/// Finds the rate up to which 99 of 100 responses take no longer than `limit`, and prints it.
///
/// # Errors
/// Nothing is answered, or no rate is low enough.
pub(super) fn find(options: &LoadOptions, limit: Duration) -> Result<()> {
    let plan = Plan { time: Some(options.duration.unwrap_or(LENGTH)), ..options.plan(&options.urls)? };
    options.warm_up(&plan)?;
    // The search begins at half of the maximum.
    warn_line!("[0] as fast as the server answers");
    let most = view::run(&plan)?;
    interrupt::check()?;
    if most.responses == 0 {
        return Err(Error::new("no request was answered"));
    }
    let mut search = Search::from((most.rate() / 2.0).max(1.0));
    let mut steps = Vec::new();
    loop {
        let rate = search.next;
        warn_line!("[{}] {rate:.0} requests per second", steps.len() + 1);
        let plan = Plan { arrival: Arrival::Requests(Pace::per_second(rate)), ..plan.clone() };
        let record = view::run(&plan)?;
        interrupt::check()?;
        let too_high = too_high(&record, rate, limit);
        let goes_on = search.learn(too_high.is_none());
        let at = |share| record.total.0.value_at_quantile(share);
        steps.push(Step {
            rate,
            per_second: record.rate(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            failures: record.failures.total(),
            too_high,
        });
        if !goes_on || steps.len() == STEPS {
            break;
        }
    }
    let above = steps.iter().filter(|step| step.too_high.is_some());
    let first = above.min_by(|one, other| one.rate.total_cmp(&other.rate));
    let may_be_more = first.is_some_and(|step| step.too_high == Some(GENERATOR));
    let found = Found { limit_us: limit.as_micros() as u64, steps: &steps, rate: search.good, may_be_more };
    match options.json {
        true => say_line!("{}", serde_json::to_string(&found).context(|| "write the results as JSON".to_owned())?),
        false => say!("{}", text(options, &found)),
    }
    match search.good {
        Some(_) => Ok(()),
        None if steps.iter().any(|step| step.too_high == Some(GENERATOR)) => {
            Err(Error::new("the generator itself was too late to tell").advise("again while nothing else runs"))
        }
        None => Err(Error::new("even the lowest rate was too high").advise("a longer --p99")),
    }
}

/// Why a rate is too high, if it is.
fn too_high(record: &Record, rate: f64, limit: Duration) -> Option<&'static str> {
    let (p99, limit) = (record.total.milliseconds(0.99), limit.as_secs_f64() * 1000.0);
    let late = record.lag.milliseconds(0.99);
    // Latencies count from when a request was due, so a late generator makes them longer: perhaps only that is too long.
    if late > LATE_MAX_MS && (late > limit / 2.0 || p99 > limit && p99 - late <= limit) {
        Some(GENERATOR)
    } else if record.failures.total() > 0 {
        Some("requests failed")
    } else if record.good < record.responses {
        Some("responses are wrong")
    } else if p99 > limit {
        Some("p99 is too long")
    } else if record.rate() < rate * KEEPS_UP {
        Some("the server does not keep up")
    } else {
        None
    }
}

fn text(options: &LoadOptions, found: &Found<'_>) -> String {
    let mut table = Table::new(1, &["verdict", "asked per s", "answered per s", "p50 ms", "p99 ms", "failed"]);
    let mut rows: Vec<&Step> = found.steps.iter().collect();
    rows.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let milliseconds = |micros: u64| format!("{:.3}", micros as f64 / 1000.0);
    for step in rows {
        table.push(vec![
            step.too_high.unwrap_or("in time").to_owned(),
            format!("{:.0}", step.rate),
            format!("{:.0}", step.per_second),
            milliseconds(step.p50_us),
            milliseconds(step.p99_us),
            step.failures.to_string(),
        ]);
    }
    let limit = found.limit_us as f64 / 1000.0;
    let verdict = match found.rate {
        Some(rate) if found.may_be_more => {
            format!("Up to {rate:.0} requests per second or more, 99 of 100 responses take at most {limit} ms.")
        }
        Some(rate) => format!("Up to {rate:.0} requests per second, 99 of 100 responses take at most {limit} ms."),
        None => format!("At none of these rates do 99 of 100 responses take at most {limit} ms."),
    };
    let doubt = match found.may_be_more {
        true => format!(
            "  {} no verdict on higher rates: {GENERATOR} there (try more --threads, or --spin)\n",
            style::doubtful("!")
        ),
        false => String::new(),
    };
    let heading = style::heading(&options.urls.join(" "));
    format!("{heading}\n\n{}\n{}\n{doubt}", table.to_text(), style::heading(&verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(first: f64, limit: f64) -> (Option<f64>, usize) {
        let mut search = Search::from(first);
        let mut steps = 1;
        while search.learn(search.next <= limit) {
            steps += 1;
        }
        (search.good, steps)
    }

    #[test]
    fn the_limit_is_found_from_both_sides() {
        for first in [500.0, 40_000.0] {
            let (found, steps) = searched(first, 10_000.0);
            assert!(
                found.is_some_and(|rate| (9500.0..=10_000.0).contains(&rate)) && steps <= STEPS,
                "{found:?} {steps}"
            );
        }
        assert_eq!(searched(100.0, 0.0).0, None);
        assert!(searched(100.0, f64::INFINITY).0.is_some_and(|rate| rate > 500_000.0));
    }
}
