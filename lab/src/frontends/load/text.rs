//! The results of a load, for people.

use std::fmt::Write as _;

use super::json::SHARES;
use super::{doubts, picture};
use crate::load::record::Handshakes;
use crate::load::scenario::tally::{StepTally, Tally};
use crate::load::tls::Trust;
use crate::load::{Arrival, Pace, Plan, Record};
use crate::screen::style;
use crate::screen::table::Table;
use crate::screen::text::counted;

/// The widest bar, in characters.
const WIDTH: usize = 40;
/// The most intervals in a line over time.
const COLUMNS: usize = 64;
/// The heights of a line over time.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The form for a file.
pub(super) fn written(urls: &[String], plan: &Plan, record: &Record) -> String {
    whole(urls, plan, record, [distribution, over_time])
}

/// The form for a terminal.
pub(super) fn drawn(urls: &[String], plan: &Plan, record: &Record) -> String {
    whole(urls, plan, record, [picture::distribution, picture::over_time])
}

/// Draws something below the figures.
type Part = fn(&mut String, &Record) -> std::fmt::Result;

fn whole(urls: &[String], plan: &Plan, record: &Record, parts: [Part; 2]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, urls, plan, record, parts);
    out
}

fn write(out: &mut String, urls: &[String], plan: &Plan, record: &Record, parts: [Part; 2]) -> std::fmt::Result {
    writeln!(
        out,
        "{}  {}, {:.1} s",
        style::heading(&urls.join(" ")),
        manner(plan, record),
        record.elapsed.as_secs_f64()
    )?;
    if let Some(agreed) = agreed(plan, record) {
        writeln!(out, "  {agreed}")?;
    }
    for doubt in doubts(plan, record) {
        writeln!(out, "  {} {doubt}", style::doubtful("!"))?;
    }
    writeln!(out)?;
    let seconds = record.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    writeln!(out, "  {:>12.1}  responses per second", record.rate())?;
    writeln!(out, "  {:>12.2}  MB received per second", record.received() as f64 / seconds / 1e6)?;
    writeln!(out, "  {:>12}  requests, {} answered, {} good", record.asked(), record.responses, record.good)?;
    let again = match record.reopened {
        0 => String::new(),
        reopened => format!(", {reopened} of them closed by the server before it had answered everything"),
    };
    writeln!(out, "  {:>12}  connections{again}", record.connections)?;
    if plan.tls.is_some() {
        let Handshakes { full, resumed } = record.handshakes;
        writeln!(out, "  {:>12}  handshakes, {full} full, {resumed} resumed", full + resumed)?;
    }
    let classes = record.classes.iter().enumerate().filter(|(_, count)| **count > 0);
    let statuses: Vec<String> = classes.map(|(class, count)| format!("{class}xx: {count}")).collect();
    writeln!(out, "\nStatus  {}", statuses.join(", "))?;
    let kinds = record.failures.kinds();
    let kinds: Vec<String> =
        kinds.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{kind}: {count}")).collect();
    if !kinds.is_empty() {
        writeln!(out, "Failed  {}", style::bad(&kinds.join(", ")))?;
    }
    record.tally.as_deref().map_or(Ok(()), |tally| sessions(out, tally))?;
    if record.responses == 0 {
        return Ok(());
    }
    writeln!(out, "\nLatency in milliseconds")?;
    latencies(plan, record).to_text().lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    writeln!(out)?;
    parts.into_iter().try_for_each(|part| part(out, record))
}

/// Percentiles of the phases of requests, in milliseconds.
pub(super) fn latencies(plan: &Plan, record: &Record) -> Table {
    let mut phases = vec![("total", &record.total), ("connect", &record.connect)];
    phases.extend(plan.tls.is_some().then_some(("handshake", &record.handshake)));
    phases.push(("first byte", &record.wait));
    let names: Vec<&str> = std::iter::once("%").chain(phases.iter().map(|(name, _)| *name)).collect();
    let mut table = Table::new(1, &names);
    for (name, share) in SHARES {
        let cells = phases.iter().map(|(_, distribution)| format!("{:.3}", distribution.milliseconds(share)));
        table.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    table
}

/// The shape of the load in a few words.
pub(super) fn manner(plan: &Plan, record: &Record) -> String {
    let clients = plan.clients as u64;
    match (plan.arrival, &plan.scenario) {
        (Arrival::Closed, None) => {
            counted(clients.min(plan.count.unwrap_or(u64::MAX).max(record.connections)), "connection")
        }
        (Arrival::Closed, Some(_)) => counted(clients.min(plan.count.unwrap_or(u64::MAX)), "user"),
        (Arrival::Requests(pace) | Arrival::Connections(pace), None) => {
            format!("{} requests per second, over {} at most", per_second(pace), counted(clients, "connection"))
        }
        (Arrival::Requests(pace) | Arrival::Connections(pace), Some(_)) => {
            format!("{} sessions per second, of {} at most", per_second(pace), counted(clients, "user"))
        }
    }
}

/// What became of sessions, and of each step.
fn sessions(out: &mut String, tally: &Tally) -> std::fmt::Result {
    writeln!(out, "\nSessions  {}\n", outcome(tally))?;
    steps(tally).to_text().lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    complaints(tally).iter().try_for_each(|complaint| writeln!(out, "  {} {complaint}", style::doubtful("!")))
}

/// How sessions ended.
pub(super) fn outcome(tally: &Tally) -> String {
    let (complete, failed) = (&tally.complete, tally.failed.0.len());
    let lasted = match complete.0.is_empty() {
        true => String::new(),
        false => format!(", which lasted {:.3} s on average", complete.0.mean() / 1e6),
    };
    format!("{} complete{lasted}; {failed} failed", complete.0.len())
}

/// The figures of each step.
pub(super) fn steps(tally: &Tally) -> Table {
    let mut table = Table::new(1, &["step", "requests", "failed", "p50 ms", "p99 ms"]);
    for step in &tally.steps {
        let times = [0.5, 0.99].map(|share| format!("{:.3}", step.total.milliseconds(share)));
        let counts = [step.requests, step.failures].map(|count| count.to_string());
        table.push([step.name.clone()].into_iter().chain(counts).chain(times).collect());
    }
    table
}

/// The first failure of each step.
pub(super) fn complaints(tally: &Tally) -> Vec<String> {
    let complaint = |step: &StepTally| Some(format!("{}, the first failure: {}", step.name, step.complaint.as_ref()?));
    tally.steps.iter().filter_map(complaint).collect()
}

/// A pace in the form of a request: so many per second, on average.
fn per_second(pace: Pace) -> String {
    let rate = 1.0 / pace.mean().as_secs_f64();
    // A distance is a whole number of nanoseconds.
    format!("{}", (rate * 1000.0).round() / 1000.0)
}

/// The negotiated parameters, and whether the certificate was verified.
pub(super) fn agreed(plan: &Plan, record: &Record) -> Option<String> {
    let protocol = if plan.http2 { "HTTP/2" } else { "HTTP/1.1" };
    let streams = match plan.pipeline {
        many @ 2.. if plan.http2 => format!(", {many} streams of a connection at a time"),
        _ => String::new(),
    };
    let Some(tls) = &plan.tls else { return plan.http2.then(|| format!("{protocol}{streams}")) };
    let agreed = record.agreed.as_ref().map(|agreed| {
        let group = agreed.group.as_ref().map(|group| format!(", {group}")).unwrap_or_default();
        format!(" over {}, {}{group}", agreed.version, agreed.suite)
    });
    let certificate = match tls.trust {
        Trust::Any => "; the certificate is not verified",
        Trust::System | Trust::File(_) => "; the certificate is verified",
    };
    Some(format!("{protocol}{}{streams}{certificate}", agreed.unwrap_or_default()))
}

/// How often each latency occurred: a bar for each of ten steps; the last one contains everything longer.
fn distribution(out: &mut String, record: &Record) -> std::fmt::Result {
    let all = &record.total.0;
    let (least, most) = (all.min(), all.value_at_quantile(0.99).max(all.min() + 10));
    let step = (most - least).div_ceil(10).max(1);
    let count = |at: u64| match at {
        9 => all.count_between(least + 9 * step, all.max().max(least + 9 * step)),
        _ => all.count_between(least + at * step, least + (at + 1) * step - 1),
    };
    let counts: Vec<u64> = (0..10).map(count).collect();
    let highest = counts.iter().copied().max().unwrap_or(1).max(1);
    for (at, count) in counts.iter().enumerate() {
        let width = (*count as f64 / highest as f64 * WIDTH as f64).ceil() as usize;
        let from = (least + at as u64 * step) as f64 / 1000.0;
        writeln!(out, "  {from:>10.3} ms  {:<WIDTH$}  {count}", "█".repeat(width))?;
    }
    Ok(())
}

/// Responses and latency in each interval.
fn over_time(out: &mut String, record: &Record) -> std::fmt::Result {
    let timeline = record.timeline.clone().within(COLUMNS);
    let intervals = &timeline.intervals;
    if intervals.len() < 3 {
        return Ok(());
    }
    // The last interval is not complete.
    let whole = &intervals[..intervals.len() - 1];
    let lines: [(&str, Vec<u64>); 2] = [
        ("responses", whole.iter().map(|one| one.responses).collect()),
        ("p99", whole.iter().map(|one| one.total.value_at_quantile(0.99)).collect()),
    ];
    writeln!(out, "\nOver time, {} s each", timeline.length.as_secs_f64())?;
    for (name, values) in lines {
        let highest = values.iter().copied().max().unwrap_or(0).max(1);
        let line: String = values.iter().map(|value| HEIGHTS[(value * 7 / highest) as usize]).collect();
        let most = match name {
            "p99" => format!("{:.3} ms", highest as f64 / 1000.0),
            _ => format!("{highest}"),
        };
        writeln!(out, "  {name:<9} {line}  at most {most}")?;
    }
    Ok(())
}
