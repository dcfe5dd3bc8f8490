//! What modules count for themselves, as families: each exists if its module is loaded, or used.

use super::text::MetricType::Counter;
use super::text::{Family, Sample};
use crate::aaa::mod_client_limit;
use crate::cache_counts;
use crate::metadata::mod_trace_context;

/// All of them.
pub(super) fn of_modules() -> impl Iterator<Item = Family> {
    [caches(), client_limits(), client_connections(), spans()].into_iter().flatten()
}

fn caches() -> Option<Family> {
    let count = |(what, word)| Some((word, cache_counts::counted(what)?));
    let counts: Vec<_> = cache_counts::Counted::ALL.into_iter().map(count).collect::<Option<_>>()?;
    Some(by_outcome("cache_requests", "Requests that a cache took part in, by what it did.", counts))
}

fn client_limits() -> Option<Family> {
    let (refused, logged) = mod_client_limit::counts()?;
    let help = "Requests beyond a limit of their clients, by what became of them.";
    Some(by_outcome("client_limit_requests", help, [("refused", refused), ("logged", logged)]))
}

fn client_connections() -> Option<Family> {
    let (refused, logged) = mod_client_limit::connection_counts()?;
    let help = "Connections beyond a limit of their clients, by what became of them.";
    Some(by_outcome("client_limit_connections", help, [("refused", refused), ("logged", logged)]))
}

fn spans() -> Option<Family> {
    let (sent, lost) = mod_trace_context::counts()?;
    let help = "Spans of requests for the collector of traces, by what became of them.";
    Some(by_outcome("trace_spans", help, [("sent", sent), ("lost", lost)]))
}

fn by_outcome(name: &'static str, help: &'static str, counts: impl IntoIterator<Item = (&'static str, u64)>) -> Family {
    let sample = |(word, count): (&str, u64)| Sample {
        suffix: "_total",
        labels: vec![("outcome", word.into())],
        value: count.to_string(),
    };
    Family { name, kind: Counter, unit: "", help, samples: counts.into_iter().map(sample).collect() }
}
