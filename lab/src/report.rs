//! Tells a run: tables on the terminal, report.md for the documentation, setup.txt for whoever repeats it.

use std::path::Path;

use crate::error::{Result, write_file};
use crate::results::{Failure, Load, Results};
use crate::style;
use crate::subject;
use crate::summary::{Cell, Summary, title};
use crate::table::Table;
use crate::target::TARGETS;
use crate::trust;
use crate::workload::{Entry, Kind, WORKLOADS, Workload, bare};

/// What stands where there is no figure.
const NOTHING: &str = "–";

/// The subject that is 1 in the column "× floor".
const FLOOR: Entry = bare("floor");

/// How the figures came about, for the document.
const METHOD: &str = "\
Each server has one core to itself, the load generator (`wrk`, one thread) another; both stay there. The servers take \
turns: each is started, checked (the bytes of two answers), warmed up for a second, measured and stopped before the \
next one, and only then comes the next round. Figures are medians over the rounds; ratios are taken within a round and \
then their median. **req per CPU-s** is requests per second of CPU time that all processes of the server used in the \
measured time; it is the figure to compare. req/s, p50 and p99 also depend on the load generator. Latencies are wrk's, \
in a closed loop. Errors are failed connections, timeouts and statuses above 399, of all rounds together. Memory is \
the proportional set size of all processes of the server, taken right after the load. The **floor** is an epoll loop \
that answers one fixed response to every read, without parsing. Measurements over thousands of connections are longer \
(a second for every 1500), for they include the opening of the connections. Debian's configuration is used as it is, \
including its `MaxKeepAliveRequests 100`. Idle connections have made one request each and rested for a second.";

/// Writes report.md and setup.txt for results that were kept earlier.
pub(crate) fn rewrite(directory: &Path) -> Result<()> {
    let results = Results::load(directory)?;
    write(&results, directory)?;
    print(&results);
    Ok(())
}

/// Writes report.md and setup.txt.
pub(crate) fn write(results: &Results, directory: &Path) -> Result<()> {
    write_file(directory.join("report.md"), markdown(results))?;
    write_file(directory.join("setup.txt"), setup(results))
}

/// Prints everything that matters on standard output.
pub(crate) fn print(results: &Results) {
    let summary = Summary::of(results);
    for workload in &WORKLOADS {
        if let Some(table) = workload_table(&summary, workload) {
            println!("\n{} — {}", style::heading(workload.id), workload.title);
            print!("{}", table.to_text());
        }
    }
    print_targets(&summary);
    print_list("Reasons to doubt these figures", &doubts(results, &summary));
    print_list("Not measured", &absences(results));
    println!();
}

fn print_targets(summary: &Summary<'_>) {
    println!("\n{}", style::heading("Targets"));
    let mut open = 0;
    for target in &TARGETS {
        let verdict = target.judge(summary);
        let word = match verdict.met {
            Some(true) => style::good("met   "),
            Some(false) => style::bad("missed"),
            None => {
                open += 1;
                continue;
            }
        };
        println!("  {word}  {}: {}", target.text, verdict.measured);
    }
    if open > 0 {
        println!("  {open} of {} not measured", TARGETS.len());
    }
}

fn print_list(heading: &str, items: &[String]) {
    if !items.is_empty() {
        println!("\n{}", style::heading(heading));
    }
    for item in items {
        println!("  {} {item}", style::doubtful("!"));
    }
}

fn doubts(results: &Results, summary: &Summary<'_>) -> Vec<String> {
    trust::doubts(results, summary).iter().map(ToString::to_string).collect()
}

/// Who is not here, and what did not work: the first reason, and in how many rounds.
fn absences(results: &Results) -> Vec<String> {
    let absent =
        results.subjects.iter().filter_map(|subject| Some(format!("{}: {}", subject.title, subject.absent.as_ref()?)));
    let mut items: Vec<String> = absent.collect();
    let mut told: Vec<(&str, Entry)> = Vec::new();
    for failure in &results.failures {
        let Some(subject) = subject::find(&failure.subject) else {
            continue;
        };
        let key = (failure.workload.as_str(), Entry { subject: subject.id, profile: failure.profile });
        if told.contains(&key) {
            continue;
        }
        told.push(key);
        let same = |other: &&Failure| {
            (&other.workload, &other.subject, other.profile) == (&failure.workload, &failure.subject, failure.profile)
        };
        let times = results.failures.iter().filter(same).count();
        items.push(format!("{} on {}, {times} time(s): {}", title(key.1), key.0, failure.reason));
    }
    items
}

fn markdown(results: &Results) -> String {
    let summary = Summary::of(results);
    let host = &results.host;
    let mut text = format!(
        "# HTTP benchmarks\n\n\
         Measured {} by `tsubame-lab run http`: {} round(s) of {} s, on {} ({} core(s), {}, Linux {}). \
         Measure it on your own machine: `cargo run --release -p tsubame-lab -- run http --out DIR`.\n\n",
        results.started, results.rounds, results.seconds, host.cpu, host.cores, host.system, host.kernel
    );
    text += &markdown_list("Reasons to doubt these figures", &doubts(results, &summary));
    text += "## Targets\n\n";
    text += &target_table(&summary).to_markdown();
    for workload in &WORKLOADS {
        if let Some(table) = workload_table(&summary, workload) {
            text += &format!("\n## `{}`: {}\n\n{}", workload.id, workload.title, table.to_markdown());
        }
    }
    text += &format!("\n## Method\n\n{METHOD}\n\nCPU time was read from: {}.\n\n", results.accounting);
    text += &markdown_list("Not measured", &absences(results));
    text += "## Who\n\n";
    let mut versions = Table::new(2, &["subject", "version"]);
    for subject in &results.subjects {
        let version = subject.version.as_deref().unwrap_or("not here");
        versions.push(vec![subject.title.clone(), version.to_owned()]);
    }
    versions.push(vec!["load generator".to_owned(), host.generator.clone()]);
    text += &versions.to_markdown();
    text += "\nRaw data: `results.json` and `raw.csv`; exact configurations and the machine: `setup.txt`.\n";
    text
}

fn markdown_list(heading: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let lines: String = items.iter().map(|item| format!("- {}\n", item.replace('\n', " "))).collect();
    format!("## {heading}\n\n{lines}\n")
}

fn target_table(summary: &Summary<'_>) -> Table {
    let mut table = Table::new(3, &["target", "", "measured"]);
    for target in &TARGETS {
        let verdict = target.judge(summary);
        let word = match verdict.met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => NOTHING,
        };
        table.push(vec![target.text.to_owned(), word.to_owned(), verdict.measured]);
    }
    table
}

fn workload_table(summary: &Summary<'_>, workload: &'static Workload) -> Option<Table> {
    if summary.rows(workload).is_empty() {
        return None;
    }
    Some(match &workload.kind {
        Kind::Load { connections, .. } if connections.len() > 1 => sweep_table(summary, workload),
        Kind::Load { .. } => load_table(summary, workload),
        Kind::Idle { connections } => idle_table(summary, workload, *connections),
        Kind::Children { .. } => children_table(summary, workload),
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
        row.push(decimals(floor.and_then(|floor| cell.ratio(floor)), 2));
        row.push(decimals(best.and_then(|(_, best)| cell.ratio(best)), 2));
        row.extend(common_columns(cell));
        table.push(row);
    }
    table
}

/// The columns that every table of load ends with.
fn common_columns(cell: &Cell<'_>) -> [String; 5] {
    [
        count(cell.median(Load::per_second)),
        decimals(cell.median(|load| load.p50_us as f64 / 1000.0), 2),
        decimals(cell.median(|load| load.p99_us as f64 / 1000.0), 2),
        count(Some(cell.errors() as f64)),
        decimals(cell.median(|load| load.pss_kib as f64 / 1024.0), 1),
    ]
}

/// One row for each number of connections, compared with the subject's own best.
fn sweep_table(summary: &Summary<'_>, workload: &'static Workload) -> Table {
    let headers = ["subject", "connections", "req per CPU-s", "× floor", "of best", "of best req/s"];
    let rest = ["req/s", "p50 ms", "p99 ms", "errors", "PSS MB"];
    let mut table = Table::new(1, &[&headers[..], &rest[..]].concat());
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
        row.push(decimals(floor.and_then(|floor| cell.ratio(floor)), 2));
        row.push(decimals(of_best(Load::per_cpu_second), 2));
        row.push(decimals(of_best(Load::per_second), 2));
        row.extend(common_columns(cell));
        table.push(row);
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

/// Everything that a repetition must reproduce.
fn setup(results: &Results) -> String {
    let host = &results.host;
    let mut text = format!(
        "Measured {}, {} round(s) of {} s\n\nsystem     {}\nkernel     {}\nprocessor  {}, {} core(s), governor {}\n\
         memory     {} MiB\nload       {} when it began\ngenerator  {}\nCPU time   {}\n",
        results.started,
        results.rounds,
        results.seconds,
        host.system,
        host.kernel,
        host.cpu,
        host.cores,
        host.governor.as_deref().unwrap_or("unknown"),
        host.memory_mib,
        host.load_average,
        host.generator,
        results.accounting,
    );
    for subject in &results.subjects {
        let version = subject.version.as_deref().unwrap_or("not here");
        text += &format!("\n==== {} ({}): {version}\n", subject.title, subject.id);
        for configuration in &subject.configurations {
            text += &format!("\n-- {:?} configuration: {}\n", configuration.profile, configuration.command);
            for variable in &configuration.environment {
                text += &format!("   {variable}\n");
            }
            for (name, content) in &configuration.files {
                text += &format!("\n---- {name}\n{content}");
            }
            if !configuration.as_installed.is_empty() {
                text += &format!("\n---- as installed: {}\n", configuration.as_installed.join(" "));
            }
        }
    }
    text
}

fn decimals(value: Option<f64>, places: usize) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{value:.places$}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or(NOTHING.to_owned(), |share| format!("{:.0} %", share * 100.0))
}

/// A whole number in groups of three digits.
fn count(value: Option<f64>) -> String {
    let Some(value) = value else {
        return NOTHING.to_owned();
    };
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{SubjectRecord, example};

    fn results() -> Results {
        let mut results = example::empty();
        for round in 1..=3 {
            results.samples.extend([
                example::load("keepalive", "floor", 100, round, 100_000),
                example::load("keepalive", "tsubame-percore", 100, round, 90_000),
                example::load("keepalive", "h2o", 100, round, 60_000),
            ]);
        }
        results.samples.push(example::memory("idle", "nginx", 10_000, 1024, 6144));
        results.subjects.push(SubjectRecord {
            id: "caddy".to_owned(),
            title: "caddy".to_owned(),
            version: None,
            absent: Some("apt-get install caddy".to_owned()),
            configurations: Vec::new(),
        });
        results
    }

    #[test]
    fn the_document_has_ratios_targets_and_absences() {
        let text = markdown(&results());
        for expected in [
            "| Tsubame percore | 90 000 | 0 % | 0.90 | 1.50 | 90 000 | 1.00 | 2.00 | 0 | 1.0 |",
            "| subject | req per CPU-s | spread | × floor | × h2o |",
            "| keep-alive: percore ≥ 0.85 × the floor | met | 0.90 × floor (bare epoll loop) |",
            "| nginx | 2 | 1.0 | 6.0 | 0.51 | 0 |",
            "- caddy: apt-get install caddy",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
        assert!(!text.contains("`file16k`:"), "{text}");
    }

    #[test]
    fn doubts_stand_above_the_figures() {
        let mut results = results();
        results.rounds = 1;
        let text = markdown(&results);
        assert!(text.find("only 1 round").unwrap() < text.find("## Targets").unwrap());
    }

    #[test]
    fn figures_are_grouped() {
        assert_eq!(count(Some(1_234_567.4)), "1 234 567");
        assert_eq!(count(Some(100.0)), "100");
        assert_eq!(count(None), "–");
    }
}
