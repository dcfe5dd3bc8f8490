//! Plots of a load: over time, and how many requests were answered within what time.

use super::plot::{self, Axis, Line, Scale};
use crate::load::rates::Rates;
use crate::screen::table::escape;

const LATENCY: Axis = Axis { name: "ms", scale: Scale::Logarithmic, end: 0.0 };
const SHARE: Axis = Axis { name: "% of requests", scale: Scale::Nines, end: 0.0 };
const TIME: Axis = Axis { name: "s", scale: Scale::Linear, end: 0.0 };
const RESPONSES: Axis = Axis { name: "answers/s", scale: Scale::Linear, end: 0.0 };
const MILLISECONDS: Axis = Axis { name: "ms", scale: Scale::Linear, end: 0.0 };

/// The clients' view of a load up to `end`, in seconds: its responses, with its failures if there are any, and their
/// latencies.
pub(crate) fn over_time(heading: &str, intervals: &[Rates], has_failures: bool, end: f64) -> [String; 2] {
    let seen = |name: &str, figure: fn(&Rates) -> f64| Line {
        name: name.to_owned(),
        points: intervals.iter().map(|interval| [interval.until, figure(interval)]).collect(),
    };
    // Without answers there are no times.
    let took = |name: &str, figure: fn(&Rates) -> u64| {
        let answered = intervals.iter().filter(|interval| interval.responses > 0.0);
        let points = answered.map(|interval| [interval.until, figure(interval) as f64 / 1000.0]).collect();
        Line { name: name.to_owned(), points }
    };
    let mut responses = vec![seen("answers", |interval| interval.responses)];
    responses.extend(has_failures.then(|| seen("failures", |interval| interval.failures)));
    let latencies =
        [took("p50 of latency", |interval| interval.p50_us), took("p99 of latency", |interval| interval.p99_us)];
    [timed(heading, end, &RESPONSES, &responses), timed(heading, end, &MILLISECONDS, &latencies)]
}

/// Lines over time; nothing if no line has two points.
pub(crate) fn timed(heading: &str, end: f64, up: &Axis, lines: &[Line]) -> String {
    match lines.iter().any(|line| line.points.len() > 1) {
        true => plot::lines(&format!("{heading}: {}", up.name), plot::LOW, [&Axis { end, ..TIME }, up], lines),
        false => String::new(),
    }
}

/// A name, and for various percentages of requests the most microseconds they took.
pub(crate) type Percentiles = (String, Box<[(f64, u64)]>);

/// The share of requests within each latency.
pub(crate) fn within(heading: &str, distributions: &[Percentiles]) -> String {
    let line = |(name, latencies): &Percentiles| {
        let points = latencies.iter().map(|(share, us)| [(*us as f64 / 1000.0).max(0.001), *share]);
        Line { name: name.clone(), points: points.collect() }
    };
    plotted(heading, [&LATENCY, &SHARE], &distributions.iter().map(line).collect::<Vec<_>>())
}

/// A plot under its heading; nothing without lines.
pub(crate) fn plotted(heading: &str, axes: [&Axis; 2], lines: &[Line]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("<figure><h3>{}</h3>\n{}</figure>\n", escape(heading), plot::lines(heading, plot::TALL, axes, lines))
}
