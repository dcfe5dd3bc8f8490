//! The tables about servers in front of others: connections to them, and what is left of their failures.

use super::{beside, common_columns, count, decimals, milliseconds};
use crate::experiments::workload::Workload;
use crate::measure::results::Load;
use crate::report::summary::{Summary, title};
use crate::screen::table::Table;

/// The connections that a server opens to an origin, compared with a peer's.
pub(super) fn reuse_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let peer = workload.peers.first().map_or("× peer".to_owned(), |peer| format!("× {}", title(*peer)));
    let headers = ["subject", "new connections", "per 10 000 requests", &peer, "req per CPU-s", "req/s", "p50 ms"];
    let mut table = Table::new(1, &[&headers[..], &["p99 ms", "errors", "PSS MB"][..]].concat());
    for (entry, connections, cell) in summary.rows(workload) {
        let theirs = workload.peers.first().and_then(|peer| summary.cell(workload, connections, *peer));
        let mut row = vec![title(entry)];
        row.push(count(cell.median(|load| load.accepted.unwrap_or(0) as f64)));
        row.push(decimals(cell.median(per_ten_thousand), 1));
        row.push(beside(cell, theirs, per_ten_thousand));
        row.push(count(cell.median(Load::per_cpu_second)));
        row.extend(common_columns(cell));
        table.push(row);
    }
    table
}

/// New connections to origins for 10 000 requests.
pub(in crate::report) fn per_ten_thousand(load: &Load) -> f64 {
    match load.per_accepted() {
        0.0 => 0.0,
        requests => 10_000.0 / requests,
    }
}

/// Requests that failed because an origin did, and how late the others were; *hung up* counts those that the server met
/// by closing the connection, after which the client sent them again.
pub(super) fn faults_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let headers = ["subject", "requests", "failed", "hung up", "p50 ms", "p99 ms", "max ms", "CPU s per s", "PSS MB"];
    let mut table = Table::new(1, &headers);
    for (entry, _, cell) in summary.rows(workload) {
        table.push(vec![
            title(entry),
            count(Some(cell.values(|load| load.requests as f64).iter().sum::<f64>() + cell.errors() as f64)),
            count(Some(cell.errors() as f64)),
            count(Some(cell.values(|load| load.reopened as f64).iter().sum())),
            milliseconds(cell.median(|load| load.p50_us as f64)),
            milliseconds(cell.median(|load| load.p99_us as f64)),
            milliseconds(cell.worst(|load| load.max_us as f64)),
            decimals(cell.median(Load::cpu_share), 3),
            decimals(cell.median(|load| load.pss_kib as f64 / 1024.0), 1),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::find_workload;
    use crate::measure::results::{Measure, example};

    #[test]
    fn connections_are_compared_for_as_many_requests() {
        let workload = find_workload("proxy-reuse").unwrap();
        let mut results = example::empty();
        for (entry, requests, accepted) in [(workload.entries[0], 5_000, 4), (workload.entries[1], 10_000, 100)] {
            let mut sample = example::load(workload.id, entry.subject, workload.connections()[0], 1, requests);
            sample.profile = entry.profile;
            if let Measure::Load(load) = &mut sample.measure {
                load.accepted = Some(accepted);
            }
            results.samples.push(sample);
        }
        let text = reuse_table(&Summary::of(&results), workload).to_markdown();
        assert!(text.contains("| Tsubame prefork | 4 | 8.0 | 0.08 "), "{text}");
        assert!(text.contains("| Apache prefork | 100 | 100.0 | 1 "), "{text}");
    }
}
