//! The plots of a workload, as elements of the page.

use crate::experiments::profile::{Entry, Side};
use crate::experiments::workload::{LoadShape, Workload};
use crate::machine::stats;
use crate::measure::results::{Load, MachineSample};
use crate::page::curves::{over_time, plotted, timed, within};
use crate::page::plot::{self, Axis, Bar, Line, Scale};
use crate::report::summary::{Cell, Summary, title};
use crate::report::tables::per_ten_thousand;
use crate::screen::table::escape;

const CONNECTIONS: Axis = Axis { name: "connections", scale: Scale::Logarithmic, end: 0.0 };
const RATE: Axis = Axis { name: "requests/s", scale: Scale::Linear, end: 0.0 };
const SWAPPED: Axis = Axis { name: "pages", scale: Scale::Linear, end: 0.0 };
const USE: Axis = Axis { name: "% in use", scale: Scale::Linear, end: 0.0 };

/// The figure to compare, with its interval; `below` is an element under it.
pub(super) fn picture(summary: &Summary<'_>, workload: &'static Workload, below: &str) -> String {
    let Compared { name, unit, lower_is_better, values } = compared(workload);
    let heading = format!("{name} ({} is better)", if lower_is_better { "lower" } else { "higher" });
    let several = workload.connections().len() > 1;
    let bar = |(entry, connections, cell): &(Entry, u32, &Cell<'_>)| {
        let values = values(cell);
        let name = if several { format!("{}, {connections}", title(*entry)) } else { title(*entry) };
        Some(Bar { name, value: stats::median(&values)?, interval: stats::interval(&values), class: class(*entry) })
    };
    // With several numbers of connections, the targets refer to the first; the others have a plot of their own.
    let rows = summary.rows(workload);
    let first = rows.iter().map(|(_, connections, _)| *connections).min();
    let bars: Vec<Bar> =
        rows.iter().filter(|(_, connections, _)| Some(*connections) == first).filter_map(bar).collect();
    format!(
        "<figure class=\"picture\"><h3><a href=\"#{0}\">{0}</a>: {1}</h3>\n{2}<figcaption>{3}</figcaption>{4}</figure>\n",
        workload.id,
        escape(workload.title),
        plot::bars(&format!("{}: {heading}", workload.id), unit, &bars),
        heading,
        below
    )
}

/// The highlighting of a subject.
fn class(entry: Entry) -> &'static str {
    match entry.side() {
        Side::Own => "own",
        Side::Floor => "floor",
        Side::Other => "",
    }
}

/// req/s against concurrency, if there are several.
pub(super) fn concurrency(summary: &Summary<'_>, workload: &'static Workload) -> String {
    let rows = summary.rows(workload);
    let line = |entry: &Entry| {
        let own = rows.iter().filter(|(other, ..)| other == entry);
        let point = |(_, connections, cell): &(Entry, u32, &Cell<'_>)| {
            Some([f64::from(*connections), cell.median(Load::per_second)?])
        };
        Line { name: title(*entry), points: own.filter_map(point).collect() }
    };
    if workload.connections().len() < 2 {
        return String::new();
    }
    let lines: Vec<Line> = workload.entries.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    plotted("Requests per second against connections", [&CONNECTIONS, &RATE], &lines)
}

/// The share of requests within each latency, for each number of connections.
pub(super) fn latencies(summary: &Summary<'_>, workload: &'static Workload) -> String {
    let of = |wanted: u32| {
        let rows = summary.rows(workload).into_iter().filter(move |(_, connections, _)| *connections == wanted);
        rows.filter_map(|(entry, _, cell)| {
            let (_, load) = cell.loads().find(|(_, load)| !load.latencies.is_empty())?;
            Some((title(entry), load.latencies.clone()))
        })
        .collect::<Vec<_>>()
    };
    let plot = |connections: &u32| {
        let heading = format!("Latency: requests answered within, {connections} connections, first round");
        within(&heading, &of(*connections))
    };
    workload.connections().iter().map(plot).collect()
}

/// Plots of the first round of each subject over time: the clients' view, and the load of server and machine, on one time line.
pub(super) fn time_plots(summary: &Summary<'_>, workload: &'static Workload) -> String {
    let mut figures = String::new();
    for (entry, connections, cell) in summary.rows(workload) {
        let Some((_, load)) = cell.loads().find(|(_, load)| load.moments.len() > 1 || load.intervals.len() > 1) else {
            continue;
        };
        let heading = format!("{}, {connections} {}", title(entry), workload.noun());
        figures += &format!("<figure><h3>{}</h3>\n{}</figure>\n", escape(&heading), time_plot(&heading, load));
    }
    match figures.is_empty() {
        true => figures,
        false => format!(
            "<details><summary>Answers, latencies, CPU, memory and swap over time, first round</summary>\n\
             <div class=\"plots\">\n{figures}</div></details>\n"
        ),
    }
}

/// The figure to compare in a workload.
pub(super) struct Compared {
    name: &'static str,
    unit: &'static str,
    pub(super) lower_is_better: bool,
    /// The figure in each round.
    pub(super) values: fn(&Cell<'_>) -> Vec<f64>,
}

pub(super) fn compared(workload: &Workload) -> Compared {
    match &workload.shape {
        LoadShape::Load { .. } | LoadShape::Script { .. } | LoadShape::Many { .. } => Compared {
            name: "requests per CPU-second",
            unit: "requests per CPU-second",
            lower_is_better: false,
            values: |cell| cell.values(Load::per_cpu_second),
        },
        LoadShape::Rate { .. } => Compared {
            name: "CPU seconds per second at the same rate",
            unit: "CPU s per s",
            lower_is_better: true,
            values: |cell| cell.values(Load::cpu_share),
        },
        LoadShape::Reuse(_) => Compared {
            name: "new connections to the origin for 10 000 requests",
            unit: "connections",
            lower_is_better: true,
            values: |cell| cell.values(per_ten_thousand),
        },
        LoadShape::MixedConnections(_) | LoadShape::Queue(_) | LoadShape::Faults(_) => Compared {
            name: "p99 of latency in ms",
            unit: "ms",
            lower_is_better: true,
            values: |cell| cell.values(|load| load.p99_us as f64 / 1000.0),
        },
        LoadShape::MemoryPressure(_) => Compared {
            name: "good answers per second",
            unit: "per second",
            lower_is_better: false,
            values: |cell| cell.values(Load::per_second),
        },
        LoadShape::Idle { .. } | LoadShape::Children { .. } => Compared {
            name: "memory in MB of PSS",
            unit: "MB",
            lower_is_better: true,
            values: |cell| cell.memories().map(|memory| memory.after_kib as f64 / 1024.0).collect(),
        },
    }
}

/// Plots one below the other, with each moment in the same place in all of them.
fn time_plot(heading: &str, load: &Load) -> String {
    let done = |name: &str, figure: fn(&MachineSample) -> f64| Line {
        name: name.to_owned(),
        points: load.moments.iter().map(|moment| [moment.at, figure(moment)]).collect(),
    };
    let shares = [
        done("CPU of the server, of a core", |moment| moment.server * 100.0),
        done("the generator's core", |moment| moment.generator_core * 100.0),
        done("memory of the machine", |moment| moment.memory * 100.0),
    ];
    let swapped = [done("swapped out since the beginning", |moment| moment.swapped_pages as f64)];
    let ends = [load.intervals.last().map(|interval| interval.until), load.moments.last().map(|moment| moment.at)];
    let end = ends.into_iter().flatten().fold(0.0, f64::max);
    let mut text = over_time(heading, &load.intervals, load.errors.total() > 0, end).concat();
    text += &timed(heading, end, &USE, &shares);
    if load.moments.iter().any(|moment| moment.swapped_pages > 0) {
        text += &timed(heading, end, &SWAPPED, &swapped);
    }
    text
}
