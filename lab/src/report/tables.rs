//! One table for each workload: its columns, and the format of figures.

mod proxies;

use crate::experiments::profile::{Entry, bare};
use crate::experiments::subject;
use crate::experiments::workload::{LoadShape, MixedConnections, Queue, Workload};
use crate::machine::stats::{Ratio, median};
use crate::measure::results::{Averages, Begun, CoreUse, Load, PressureEvents};
use crate::report::summary::{Cell, Figure, Summary, title};
use crate::screen::table::Table;
use crate::screen::text::grouped;
pub(super) use proxies::per_ten_thousand;
use proxies::{faults_table, reuse_table};

/// The sign for a missing figure.
pub(super) const NOTHING: &str = "–";

/// The subject that is 1 in the column "× floor".
const FLOOR: Entry = bare("floor");
/// The same for scripts.
const FLOOR_OF_SCRIPTS: Entry = bare("floor-spawn");

/// The table of a workload; `None` if no subject was measured.
pub(super) fn workload_table(summary: &Summary<'_>, workload: &'static Workload) -> Option<Table> {
    if summary.rows(workload).is_empty() {
        return None;
    }
    Some(match &workload.shape {
        LoadShape::Load { connections, .. } if connections.len() > 1 => sweep_table(summary, workload),
        LoadShape::Load { .. } => load_table(summary, workload),
        LoadShape::Idle { connections, .. } => idle_table(summary, workload, *connections),
        LoadShape::Children { .. } => children_table(summary, workload),
        LoadShape::Script { .. } => script_table(summary, workload),
        LoadShape::Many { noun, .. } => many_table(summary, workload, noun),
        LoadShape::Queue(queue) => queue_table(summary, workload, queue),
        LoadShape::MemoryPressure(_) => pressure_table(summary, workload),
        LoadShape::Rate { .. } => rate_table(summary, workload),
        LoadShape::MixedConnections(crowd) => crowd_table(summary, workload, crowd),
        LoadShape::Reuse(_) => reuse_table(summary, workload),
        LoadShape::Faults(_) => faults_table(summary, workload),
    })
}

fn load_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let connections = workload.connections()[0];
    let floor = summary.cell(workload, connections, FLOOR);
    let best = summary.best(workload, connections, workload.peers);
    let peer = match best {
        Some((peer, _)) => format!("× {}", title(peer)),
        None => "× peer".to_owned(),
    };
    let mut headers = vec!["subject", "req per CPU-s", "spread", "× floor", &peer];
    headers.extend(["req/s", "p50 ms", "p99 ms", "errors", "PSS MB"]);
    let mut table = Table::new(1, &headers);
    for (entry, _, cell) in summary.rows(workload) {
        let mut row = vec![title(entry)];
        row.push(count(cell.median(Load::per_cpu_second)));
        row.push(percent(cell.spread(Load::per_cpu_second)));
        row.push(decimals(floor.and_then(|floor| Some(cell.ratio(floor)?.middle)), 2));
        row.push(beside(cell, best.map(|(_, best)| best), Load::per_cpu_second));
        row.extend(common_columns(cell));
        table.push(row);
    }
    table
}

/// The last columns of every table of load.
fn common_columns(cell: &Cell<'_>) -> [String; 5] {
    [
        count(cell.median(Load::per_second)),
        milliseconds(cell.median(|load| load.p50_us as f64)),
        milliseconds(cell.median(|load| load.p99_us as f64)),
        count(Some(cell.errors() as f64)),
        decimals(cell.median(|load| load.pss_kib as f64 / 1024.0), 1),
    ]
}

/// One row for each number of connections, compared with the subject's own best.
fn sweep_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let peer = workload.peers.first().map(|peer| format!("× {}", title(*peer)));
    let mut headers = vec!["subject", "connections", "req per CPU-s", "× floor"];
    headers.extend(peer.as_deref());
    let rest = ["of best", "of best req/s", "req/s", "p50 ms", "p99 ms", "errors", "PSS MB", "hung"];
    let mut table = Table::new(2, &[&headers[..], &rest[..]].concat());
    let rows = summary.rows(workload);
    for (entry, connections, cell) in &rows {
        let of_best = |figure: fn(&Load) -> f64| {
            let own_cells = rows.iter().filter(|(other, ..)| other == entry);
            let best = own_cells.filter_map(|(.., cell)| cell.median(figure)).fold(0.0, f64::max);
            Some(cell.median(figure)? / best)
        };
        let mut row = vec![title(*entry), count(Some(f64::from(*connections)))];
        row.push(count(cell.median(Load::per_cpu_second)));
        let floor = summary.cell(workload, *connections, FLOOR);
        row.push(decimals(floor.and_then(|floor| Some(cell.ratio(floor)?.middle)), 2));
        if let Some(peer) = workload.peers.first() {
            row.push(beside(cell, summary.cell(workload, *connections, *peer), Load::per_cpu_second));
        }
        row.push(decimals(of_best(Load::per_cpu_second), 2));
        row.push(decimals(of_best(Load::per_second), 2));
        row.extend(common_columns(cell));
        row.push(count(Some(cell.hung() as f64)));
        table.push(row);
    }
    table
}

/// One row for each number of clients, and whether one thread was the bottleneck.
fn script_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let peer = workload.peers.first().map_or("× peer".to_owned(), |peer| format!("× {}", title(*peer)));
    let headers = ["subject", "clients", "req per CPU-s", "spread", "× floor", &peer];
    let rest = ["req/s", "p50 ms", "p99 ms", "errors", "PSS MB", "busiest", "idle"];
    let mut table = Table::new(2, &[&headers[..], &rest[..]].concat());
    for (entry, connections, cell) in summary.rows(workload) {
        let floor = summary.cell(workload, connections, FLOOR_OF_SCRIPTS);
        let best = summary.best(workload, connections, workload.peers);
        let mut row = vec![title(entry), count(Some(f64::from(connections)))];
        row.push(count(cell.median(Load::per_cpu_second)));
        row.push(percent(cell.spread(Load::per_cpu_second)));
        row.push(decimals(floor.and_then(|floor| Some(cell.ratio(floor)?.middle)), 2));
        row.push(beside(cell, best.map(|(_, best)| best), Load::per_cpu_second));
        row.extend(common_columns(cell));
        row.push(decimals(cell.median(|load| load.busiest), 2));
        row.push(percent(cell.median(|load| load.busy.idle)));
        table.push(row);
    }
    table
}

/// One row for each number of hosts or lines, compared with the subject's own rate with the fewest.
fn many_table(summary: &Summary<'_>, workload: &'static Workload, noun: &str) -> Table {
    let peer = workload.peers.first().map_or("× peer".to_owned(), |peer| format!("× {}", title(*peer)));
    let headers = ["subject", noun, "start s", "PSS MB then", "PSS MB after", "req per CPU-s", "spread", &peer];
    let rest = ["of the fewest", "req/s", "p99 ms", "errors"];
    let mut table = Table::new(2, &[&headers[..], &rest[..]].concat());
    let fewest = workload.connections()[0];
    for (entry, size, cell) in summary.rows(workload) {
        let theirs = workload.peers.first().and_then(|peer| summary.cell(workload, size, *peer));
        let of_fewest = summary.cell(workload, fewest, entry).and_then(|fewest| Some(cell.ratio(fewest)?.middle));
        let begun = |figure: fn(&Begun) -> u64| {
            let all = cell.loads().filter_map(|(_, load)| load.begun.as_ref().map(|begun| figure(begun) as f64));
            median(&all.collect::<Vec<_>>())
        };
        table.push(vec![
            title(entry),
            count(Some(f64::from(size))),
            decimals(begun(|begun| begun.answered_ms).map(|milliseconds| milliseconds / 1000.0), 2),
            decimals(begun(|begun| begun.pss_kib).map(|kib| kib / 1024.0), 1),
            decimals(cell.median(|load| load.pss_kib as f64 / 1024.0), 1),
            count(cell.median(Load::per_cpu_second)),
            percent(cell.spread(Load::per_cpu_second)),
            beside(cell, theirs, Load::per_cpu_second),
            decimals(of_fewest, 2),
            count(cell.median(Load::per_second)),
            milliseconds(cell.median(|load| load.p99_us as f64)),
            count(Some(cell.errors() as f64)),
        ]);
    }
    table
}

/// How long requests take, beside how long they would if they only waited for earlier ones.
fn queue_table(summary: &Summary<'_>, workload: &'static Workload, queue: &Queue) -> Table {
    let mut table = Table::new(
        1,
        &["subject", "req/s", "p50 ms", "by queueing", "p99 ms", "by queueing", "max ms", "errors", "PSS MB"],
    );
    for (entry, _, cell) in summary.rows(workload) {
        table.push(vec![
            title(entry),
            decimals(cell.median(Load::per_second), 2),
            milliseconds(cell.median(|load| load.p50_us as f64)),
            milliseconds(Some(queue.by_queueing_us(0.5) as f64)),
            milliseconds(cell.median(|load| load.p99_us as f64)),
            milliseconds(Some(queue.by_queueing_us(0.99) as f64)),
            milliseconds(cell.worst(|load| load.max_us as f64)),
            count(Some(cell.errors() as f64)),
            decimals(cell.median(|load| load.pss_kib as f64 / 1024.0), 1),
        ]);
    }
    table
}

/// Scripts, then files, then the memory.
fn pressure_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let peer = workload.peers.first().map_or("× peer".to_owned(), |peer| format!("× {}", title(*peer)));
    let headers = ["subject", "req/s", "spread", &peer, "p50 ms", "p99 ms", "failed"];
    let files = ["files p50 ms", "files p99 ms", "files failed"];
    let memory = ["at the limit", "killed", "faults", "swapped", "peak MB"];
    let mut table = Table::new(1, &[&headers[..], &files[..], &memory[..]].concat());
    for (entry, connections, cell) in summary.rows(workload) {
        let tuned = workload.peers.first().and_then(|peer| summary.cell(workload, connections, *peer));
        let middle = |figure: fn(&PressureEvents) -> u64| {
            median(&cell.pressure().map(|(events, _)| figure(events) as f64).collect::<Vec<_>>())
        };
        let files = |figure: fn(&PressureEvents) -> u64| {
            let latencies = cell.pressure().map(|(events, _)| events.file_milliseconds(figure));
            decimals(median(&latencies.collect::<Vec<_>>()).filter(|latency| latency.is_finite()), 2)
        };
        let all = |figure: fn(&PressureEvents) -> u64| cell.pressure().map(|(events, _)| figure(events)).sum::<u64>();
        table.push(vec![
            title(entry),
            decimals(cell.median(Load::per_second), 2),
            percent(cell.spread(Load::per_second)),
            beside(cell, tuned, Load::per_second),
            milliseconds(cell.median(|load| load.p50_us as f64)),
            milliseconds(cell.median(|load| load.p99_us as f64)),
            count(Some(cell.errors() as f64)),
            files(|events| events.file_p50_us),
            files(|events| events.file_p99_us),
            count(Some(all(|events| events.file_errors) as f64)),
            count(middle(|events| events.at_limit)),
            count(Some(all(|events| events.oom_kills) as f64)),
            count(middle(|events| events.major_faults)),
            count(middle(|events| events.swapped_pages)),
            count(middle(|events| events.peak_kib / 1024)),
        ]);
    }
    table
}

/// At a fixed rate all servers answer equally many requests; they differ in cost and delay.
fn rate_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let headers = ["subject", "CPU s per s", "of Apache's", "× floor", "spread"];
    let rest = ["req/s", "p50 ms", "p99 ms", "max ms", "errors", "replaced", "PSS MB"];
    let mut table = Table::new(1, &[&headers[..], &rest[..]].concat());
    for (entry, connections, cell) in summary.rows(workload) {
        let floor = summary.cell(workload, connections, FLOOR);
        let apache = counterpart(entry).and_then(|peer| summary.cell(workload, connections, peer));
        table.push(vec![
            title(entry),
            decimals(cell.median(Load::cpu_share), 3),
            beside(cell, apache, Load::cpu_share),
            decimals(floor.and_then(|floor| Some(cell.ratio_of(floor, Load::cpu_share)?.middle)), 2),
            percent(cell.spread(Load::cpu_share)),
            count(cell.median(Load::per_second)),
            milliseconds(cell.median(|load| load.p50_us as f64)),
            milliseconds(cell.median(|load| load.p99_us as f64)),
            milliseconds(cell.worst(|load| load.max_us as f64)),
            count(Some(cell.errors() as f64)),
            count(cell.median(|load| load.replaced as f64)),
            decimals(cell.median(|load| load.pss_kib as f64 / 1024.0), 1),
        ]);
    }
    table
}

/// Apache with the module of the same name and the same settings.
fn counterpart(entry: Entry) -> Option<Entry> {
    let mpm = entry.subject.strip_prefix("tsubame-")?;
    Some(Entry { subject: subject::find(&format!("apache-{mpm}"))?.id, ..entry })
}

fn crowd_table(summary: &Summary<'_>, workload: &'static Workload, crowd: &MixedConnections) -> Table {
    let headers =
        ["subject", "in the crowd", "turned away", "answered", "p50 ms", "p99 ms", "max ms", "failed", "PSS MB"];
    let mut table = Table::new(1, &headers);
    let asked = crowd.idle + crowd.slow + crowd.lingering;
    for (entry, _, cell) in summary.rows(workload) {
        table.push(vec![
            title(entry),
            count(cell.median(|load| load.lost as f64).map(|lost| f64::from(asked) - lost)),
            count(cell.median(|load| load.lost as f64)),
            count(cell.median(|load| load.requests as f64)),
            milliseconds(cell.median(|load| load.p50_us as f64)),
            milliseconds(cell.median(|load| load.p99_us as f64)),
            milliseconds(cell.worst(|load| load.max_us as f64)),
            count(cell.median(|load| load.errors.total() as f64)),
            decimals(cell.median(|load| load.pss_kib as f64 / 1024.0), 1),
        ]);
    }
    table
}

fn idle_table(summary: &Summary<'_>, workload: &'static Workload, connections: u32) -> Table {
    let headers = ["subject", "processes", "PSS MB before", "PSS MB with them", "KB each", "lost"];
    let mut table = Table::new(1, &headers);
    for (entry, _, cell) in summary.rows(workload) {
        let each = cell.median_memory(|memory| memory.growth_kib());
        table.push(vec![
            title(entry),
            count(cell.median_memory(|memory| memory.processes as f64)),
            decimals(cell.median_memory(|memory| memory.before_kib as f64 / 1024.0), 1),
            decimals(cell.median_memory(|memory| memory.after_kib as f64 / 1024.0), 1),
            decimals(each.map(|kib| kib / f64::from(connections)), 2),
            count(Some(cell.errors() as f64)),
        ]);
    }
    table
}

fn children_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let headers = ["subject", "processes", "PSS MB idle", "PSS MB after serving", "errors"];
    let mut table = Table::new(1, &headers);
    for (entry, _, cell) in summary.rows(workload) {
        table.push(vec![
            title(entry),
            count(cell.median_memory(|memory| memory.processes as f64)),
            decimals(cell.median_memory(|memory| memory.before_kib as f64 / 1024.0), 1),
            decimals(cell.median_memory(|memory| memory.after_kib as f64 / 1024.0), 1),
            count(Some(cell.errors() as f64)),
        ]);
    }
    table
}

/// The ratio to a peer with its bounds; the peer's own is 1.
fn beside(cell: &Cell<'_>, peer: Option<&Cell<'_>>, figure: Figure) -> String {
    match peer {
        Some(peer) if std::ptr::eq(peer, cell) => "1".to_owned(),
        _ => ratio(peer.and_then(|peer| cell.ratio_of(peer, figure))),
    }
}

/// `1.86 (1.80–1.93)`; without bounds after a single round.
pub(super) fn ratio(found: Option<Ratio>) -> String {
    found.map_or_else(|| NOTHING.to_owned(), |ratio| ratio.to_string())
}

/// The use of cores under each load, as in `sar`; `None` if a run does not record it.
pub(super) fn cores_table(summary: &Summary<'_>, workload: &'static Workload) -> Option<Table> {
    let headers = ["subject", "connections", "cores", "%user", "%nice", "%system", "%iowait", "%steal", "%idle"];
    let mut table = Table::new(3, &headers);
    let machine: fn(&Averages) -> CoreUse = |averages| averages.machine;
    let core: fn(&Averages) -> CoreUse = |averages| averages.core;
    let own = (!workload.shape.has_all_cores()).then_some(("the server's", core));
    for (entry, connections, cell) in summary.rows(workload) {
        for (name, of) in [("all", machine)].into_iter().chain(own) {
            let uses: Vec<CoreUse> = cell.loads().filter_map(|(_, load)| Some(of(load.averages.as_ref()?))).collect();
            let median = |figure: fn(&CoreUse) -> f64| median(&uses.iter().map(figure).collect::<Vec<_>>());
            let figures: [fn(&CoreUse) -> f64; 6] =
                [|it| it.user, |it| it.nice, |it| it.system, |it| it.iowait, |it| it.steal, |it| it.idle];
            let mut row = vec![title(entry), connections.to_string(), name.to_owned()];
            row.extend(figures.map(|figure| decimals(median(figure), 2)));
            if !uses.is_empty() {
                table.push(row);
            }
        }
    }
    (!table.is_empty()).then_some(table)
}

fn milliseconds(microseconds: Option<f64>) -> String {
    decimals(microseconds.map(|value| value / 1000.0), 2)
}

pub(super) fn decimals(value: Option<f64>, places: usize) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{value:.places$}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or(NOTHING.to_owned(), |share| format!("{:.0} %", share * 100.0))
}

/// A whole number in groups of three digits.
pub(super) fn count(value: Option<f64>) -> String {
    let Some(value) = value else {
        return NOTHING.to_owned();
    };
    grouped(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::EXPERIMENTS;
    use crate::experiments::profile::Profile;
    use crate::measure::results::example;

    #[test]
    fn figures_are_grouped() {
        assert_eq!(count(Some(1_234_567.4)), "1 234 567");
        assert_eq!(count(Some(100.0)), "100");
        assert_eq!(count(None), "–");
    }

    #[test]
    fn every_workload_has_a_table_with_as_many_cells_as_headers() {
        let mut results = example::empty();
        for workload in EXPERIMENTS.into_iter().flat_map(|experiment| experiment.workloads) {
            let (entry, connections) = (workload.entries[0], workload.connections()[0]);
            let mut sample = match &workload.shape {
                LoadShape::Idle { .. } | LoadShape::Children { .. } => {
                    example::memory(workload.id, entry.subject, connections, 1, 2)
                }
                _ => example::load(workload.id, entry.subject, connections, 1, 1000),
            };
            sample.profile = entry.profile;
            results.samples.push(sample);
        }
        let summary = Summary::of(&results);
        for workload in EXPERIMENTS.into_iter().flat_map(|experiment| experiment.workloads) {
            let text = workload_table(&summary, workload).unwrap().to_markdown();
            let columns: Vec<usize> = text.lines().map(|line| line.matches('|').count()).collect();
            assert!(columns.len() == 3 && columns.iter().all(|count| *count == columns[0]), "{text}");
        }
    }

    #[test]
    fn the_counterpart_runs_under_the_same_settings() {
        let own = Entry { subject: "tsubame-event", profile: Profile::Recycling };
        assert_eq!(counterpart(own), Some(Entry { subject: "apache-event", ..own }));
        assert_eq!(counterpart(bare("tsubame-percore")), None);
    }
}
