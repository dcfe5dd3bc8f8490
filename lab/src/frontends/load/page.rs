//! The results of a load, as a page for a browser.

use super::doubt::{Doubt, doubts};
use super::json;
use super::limit::Limit;
use super::{text, verdict};
use crate::frontends::load::json::intervals;
use crate::load::distribution::Distribution;
use crate::load::record::Handshakes;
use crate::load::scenario::tally::Tally;
use crate::load::timeline::IntervalSummary;
use crate::load::{Arrival, Plan, Record};
use crate::machine::host::{self, Host};
use crate::page::curves::{over_time, within};
use crate::page::html;
use crate::screen::table::{Table, escape};
use crate::screen::text::figure;

/// More intervals than this make a line that is hard to read.
const INTERVALS: usize = 120;

/// The whole page.
pub(super) fn written(urls: &[String], plan: &Plan, record: &Record, limits: &[Limit]) -> String {
    let destination = match urls {
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} (and {} more)", others.len()),
        [] => String::new(),
    };
    let doubts = doubts(plan, record);
    let verdict = verdict::verdict(&destination, plan, record, limits, &doubts);
    let mut page = html::begin(&format!("Load on {destination}"), &verdict, &host::now(), &Host::observe());
    page += &html::reasons(&doubts.iter().map(Doubt::to_string).collect::<Vec<_>>());
    page += &format!("<h2>Figures</h2>\n{}", figures(plan, record).to_html());
    if let Some(agreed) = text::agreed(plan, record) {
        page += &format!("<p>{}.</p>\n", escape(&agreed));
    }
    if record.responses > 0 {
        page += "<h2>Latency</h2>\n";
        page += &format!("<p class=\"soft\">{}</p>\n", since(plan));
        page += &plots(record);
        page += &format!("<p class=\"caption\">Milliseconds</p>\n{}", text::latencies(plan, record).to_html());
    }
    page += &record.tally.as_deref().map_or(String::new(), sessions);
    page += &format!("<h2>Statuses</h2>\n{}", statuses(record).to_html());
    page + &html::end()
}

/// How much there was of everything.
fn figures(plan: &Plan, record: &Record) -> Table {
    let Handshakes { full, resumed } = record.handshakes;
    let mut rows = vec![
        ("responses", record.responses as f64),
        ("good responses", record.good as f64),
        ("failed requests", record.failures.total() as f64),
        ("MB received", record.received() as f64 / 1e6),
        ("MB sent", record.sent_bytes as f64 / 1e6),
        ("connections", record.connections as f64),
    ];
    if plan.tls.is_some() {
        rows.extend([("full handshakes", full as f64), ("resumed handshakes", resumed as f64)]);
    }
    let mut table = Table::new(1, &["", "in all", "per second"]);
    let seconds = record.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    for (name, count) in rows {
        table.push(vec![name.to_owned(), figure(count), figure(count / seconds)]);
    }
    table
}

/// The moment from which latencies count, and what follows from that.
fn since(plan: &Plan) -> &'static str {
    match plan.arrival {
        Arrival::Closed => {
            "A client asks again when it has its response. A server that stands still is asked less meanwhile: with --rate, \
             it is charged with every request that was due."
        }
        Arrival::Requests(_) | Arrival::Connections(_) => {
            "Latencies count from the moment at which a request was due, whether it could be sent then or not."
        }
    }
}

/// How many requests were answered within what time, and the load over time.
fn plots(record: &Record) -> String {
    let phase = |name: &str, distribution: &Distribution| (name.to_owned(), json::shares(distribution));
    let phases = [phase("total", &record.total), phase("first byte", &record.wait)];
    let distribution = within("Requests answered within", &phases);
    let timeline = record.timeline.clone().within(INTERVALS);
    let moments: Vec<IntervalSummary> = timeline.intervals.iter().map(IntervalSummary::of).collect();
    let seconds = record.elapsed.as_secs_f64();
    let intervals = intervals(&moments, timeline.length.as_secs_f64(), seconds);
    let [responses, latencies] = over_time("Over time", &intervals, record.failures.total() > 0, seconds);
    let over_time = [("Answers over time", responses), ("Latency over time", latencies)].into_iter();
    let over_time = over_time.filter(|(_, plot)| !plot.is_empty());
    let over_time = over_time.map(|(heading, plot)| format!("<figure><h3>{heading}</h3>\n{plot}</figure>\n"));
    format!("<div class=\"plots\">\n{distribution}{}</div>\n", over_time.collect::<String>())
}

fn sessions(tally: &Tally) -> String {
    format!(
        "<h2>Sessions</h2>\n<p>{}.</p>\n{}{}",
        text::outcome(tally),
        text::steps(tally).to_html(),
        html::reasons(&text::complaints(tally))
    )
}

/// Responses by the first digit of their status, and failures by kind, with their shares of all requests.
fn statuses(record: &Record) -> Table {
    let classes = record.classes.iter().enumerate().map(|(class, count)| (format!("{class}xx"), *count));
    let failures = record.failures.kinds().into_iter().map(|(kind, count)| (format!("failed: {kind}"), count));
    let mut table = Table::new(1, &["", "requests", "%"]);
    for (name, count) in classes.chain(failures).filter(|(_, count)| *count > 0) {
        let share = count as f64 / record.asked().max(1) as f64 * 100.0;
        table.push(vec![name, figure(count as f64), figure(share)]);
    }
    table
}
