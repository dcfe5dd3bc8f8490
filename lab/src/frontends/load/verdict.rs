//! The verdict on a load, in one sentence: the question, the response, and why to doubt it.

use super::doubt::Doubt;
use super::limit::{self, Limit};
use super::text;
use crate::load::{Arrival, Plan, Record};
use crate::screen::text::counted;
use crate::screen::text::enumerated;
use crate::screen::text::figure;

/// The verdict. Limits that it should have kept come first.
pub(super) fn verdict(destination: &str, plan: &Plan, record: &Record, limits: &[Limit], doubts: &[Doubt]) -> String {
    let (manner, seconds) = (text::manner(plan, record), record.elapsed.as_secs_f64());
    let question = match plan.arrival {
        Arrival::Closed => format!("by {manner} for {seconds:.1} s"),
        Arrival::Requests(_) | Arrival::Connections(_) => format!("for {manner}, for {seconds:.1} s"),
    };
    let response = match record.responses {
        0 => "gave no response".to_owned(),
        _ => format!(
            "gave {} responses a second, with a p50 of {} ms and a p99 of {} ms",
            figure(record.rate()),
            figure(record.total.milliseconds(0.5)),
            figure(record.total.milliseconds(0.99))
        ),
    };
    let briefs: Vec<String> = doubts.iter().filter_map(Doubt::brief).collect();
    let doubt = match briefs.is_empty() {
        true => String::new(),
        false => format!("; these figures are doubtful, because {}", enumerated(&briefs)),
    };
    format!("{} {question}, {destination} {response}, {}{doubt}.", outcome(limits, record), failures(record))
}

/// Whether the load kept its limits, up to the word before the question.
fn outcome(limits: &[Limit], record: &Record) -> String {
    let broken = limit::broken(limits, record);
    let told: Vec<String> = broken.iter().map(|(limit, figure)| format!("{limit} (it is {figure})")).collect();
    match (limits, told.is_empty()) {
        ([], _) => "Asked".to_owned(),
        (_, true) => "Passed: asked".to_owned(),
        (_, false) => format!("Failed, because {}: asked", enumerated(&told)),
    }
}

/// The bad results, with the conjunction before them.
fn failures(record: &Record) -> String {
    let (failed, wrong) = (record.failures.total(), record.responses - record.good);
    let kinds = record.failures.kinds().into_iter().filter(|(_, count)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(kind, count)| format!("{kind}: {count}")).collect();
    let mut bad = Vec::new();
    if failed > 0 {
        bad.push(format!("{failed} of {} failed ({})", counted(record.asked(), "request"), kinds.join(", ")));
    }
    if wrong > 0 {
        bad.push(format!("{} had the wrong status or body", counted(wrong, "response")));
    }
    match bad.is_empty() {
        true => "and no request failed".to_owned(),
        false => format!("but {}", enumerated(&bad)),
    }
}
