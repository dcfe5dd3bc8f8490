//! The output of weighttp 0.5: its names, in its order. Times are in microseconds.

use serde::Serialize;

use super::rates;
use crate::load::Record;
use crate::load::distribution::Distribution;
use crate::machine::error::{Context as _, Result};

#[derive(Serialize)]
struct Results {
    reqs_per_sec: u64,
    #[serde(rename = "kBps_per_sec")]
    kilobytes_per_sec: u64,
    secs_elapsed: f64,
    request_counts: Requests,
    response_counts: Responses,
    status_codes: Statuses,
    traffic: Traffic,
    connect_times: Times,
    time_to_first_byte: Times,
    response_times: Times,
    total_times: Times,
}

#[derive(Serialize)]
struct Requests {
    started: u64,
    retired: u64,
    total: u64,
    #[serde(rename = "keep-alive")]
    kept: u64,
}

#[derive(Serialize)]
struct Responses {
    pass: u64,
    fail: u64,
    errs: u64,
}

#[derive(Serialize)]
struct Statuses {
    #[serde(rename = "2xx")]
    two: u64,
    #[serde(rename = "3xx")]
    three: u64,
    #[serde(rename = "4xx")]
    four: u64,
    #[serde(rename = "5xx")]
    five: u64,
}

#[derive(Serialize)]
struct Traffic {
    bytes_total: u64,
    bytes_headers: u64,
    bytes_body: u64,
}

#[derive(Serialize)]
struct Times {
    num: u64,
    avg: u64,
    stddev: u64,
    unit: &'static str,
    #[serde(rename = "0%")]
    least: u64,
    #[serde(rename = "50%")]
    t50: u64,
    #[serde(rename = "66%")]
    t66: u64,
    #[serde(rename = "75%")]
    t75: u64,
    #[serde(rename = "80%")]
    t80: u64,
    #[serde(rename = "90%")]
    t90: u64,
    #[serde(rename = "95%")]
    t95: u64,
    #[serde(rename = "98%")]
    t98: u64,
    #[serde(rename = "99%")]
    t99: u64,
    #[serde(rename = "100%")]
    most: u64,
}

impl Times {
    fn of(distribution: &Distribution) -> Self {
        let [least, mean, deviation, _, most] = distribution.figures();
        let at = |share: f64| distribution.0.value_at_quantile(share);
        Self {
            num: distribution.0.len(),
            avg: mean as u64,
            stddev: deviation.round() as u64,
            unit: "us",
            least: least as u64,
            t50: at(0.5),
            t66: at(0.66),
            t75: at(0.75),
            t80: at(0.8),
            t90: at(0.9),
            t95: at(0.95),
            t98: at(0.98),
            t99: at(0.99),
            most: most as u64,
        }
    }
}

/// The results, in several lines.
pub(super) fn written(requests: u64, record: &Record) -> Result<String> {
    let [_, _, two, three, four, five] = record.classes;
    let [reqs_per_sec, kilobytes_per_sec] = rates(record);
    let results = Results {
        reqs_per_sec,
        kilobytes_per_sec,
        secs_elapsed: record.elapsed.as_micros() as f64 / 1e6,
        request_counts: Requests {
            started: record.asked(),
            retired: record.asked(),
            total: requests,
            kept: requests.saturating_sub(record.connections),
        },
        response_counts: Responses { pass: two, fail: record.responses - two, errs: record.failures.total() },
        status_codes: Statuses { two, three, four, five },
        traffic: Traffic {
            bytes_total: record.received(),
            bytes_headers: record.head + record.framing,
            bytes_body: record.body,
        },
        connect_times: Times::of(&record.setup),
        time_to_first_byte: Times::of(&record.wait),
        response_times: Times::of(&record.processing),
        total_times: Times::of(&record.total),
    };
    serde_json::to_string_pretty(&results).context(|| "write the results as JSON".to_owned())
}
