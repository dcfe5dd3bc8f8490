//! The report as JSON. Existing keys do not change; new ones may be added.

use modules::manual::Loss;
use serde_json::{Value, json};

use super::report::Report;
use crate::explain::origin;
use server::module::finding::{Finding, Weight};

pub(super) fn of(report: &Report) -> String {
    let read = &report.read;
    let value = json!({
        "file": report.file,
        "verdict": report.verdict().key(),
        "counts": {
            "stops": report.count(Weight::Stops),
            "loses": report.count(Weight::Loses),
            "harmless": report.count(Weight::Harmless),
        },
        "read": {
            "files": read.files,
            "virtual_hosts": read.hosts,
            "access_files": read.access_files,
            "directories": read.directories,
        },
        "limits": report.limits,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn finding(finding: &Finding) -> Value {
    json!({
        "weight": weight(finding.weight),
        "topic": finding.topic.key(),
        "subject": finding.subject,
        "places": finding.places.iter().map(origin).collect::<Vec<_>>(),
        "message": finding.message,
        "does": finding.does,
        "loss": finding.loss.map(loss),
        "instead": finding.instead,
    })
}

fn loss(loss: Loss) -> &'static str {
    match loss {
        Loss::Nothing => "nothing",
        Loss::Speed => "speed",
        Loss::Feature => "feature",
        Loss::Protection => "protection",
    }
}

fn weight(weight: Weight) -> &'static str {
    match weight {
        Weight::Stops => "stops",
        Weight::Loses => "loses",
        Weight::Harmless => "harmless",
    }
}
