//! The plots of a workload, as elements of the page.

use super::plot::{self, Axis, Bar, Line, Scale};
use crate::results::{Interval, Load, Moment};
use crate::stats;
use crate::summary::{Cell, Summary, title};
use crate::table::escape;
use crate::workload::{Entry, Kind, Workload};

const CONNECTIONS: Axis = Axis { name: "connections", scale: Scale::Logarithmic, end: 0.0 };
const RATE: Axis = Axis { name: "requests/s", scale: Scale::Linear, end: 0.0 };
const LATENCY: Axis = Axis { name: "ms", scale: Scale::Logarithmic, end: 0.0 };
const SHARE: Axis = Axis { name: "% of requests", scale: Scale::Nines, end: 0.0 };
const TIME: Axis = Axis { name: "s", scale: Scale::Linear, end: 0.0 };
const ANSWERS: Axis = Axis { name: "answers/s", scale: Scale::Linear, end: 0.0 };
const MILLISECONDS: Axis = Axis { name: "ms", scale: Scale::Linear, end: 0.0 };
const SWAPPED: Axis = Axis { name: "pages", scale: Scale::Linear, end: 0.0 };
const USE: Axis = Axis { name: "% in use", scale: Scale::Linear, end: 0.0 };

/// The figure to compare, with its interval; `below` is an element under it.
pub(super) fn picture(summary: &Summary<'_>, workload: &'static Workload, below: &str) -> String {
    let (heading, unit, values) = compared(workload);
    let several = workload.connections().len() > 1;
    let bar = |(entry, connections, cell): &(Entry, u32, &Cell<'_>)| {
        let values = values(cell);
        let name = if several { format!("{}, {connections}", title(*entry)) } else { title(*entry) };
        Some(Bar {
            name,
            value: stats::median(&values)?,
            interval: stats::interval(&values),
            class: match entry.subject {
                own if own.starts_with("tsubame-") => "own",
                floor if floor.starts_with("floor") => "floor",
                _ => "",
            },
        })
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
            let points = load.latencies.iter().map(|(share, us)| [(*us as f64 / 1000.0).max(0.001), *share]);
            Some(Line { name: title(entry), points: points.collect() })
        })
        .collect::<Vec<Line>>()
    };
    let plot = |connections: &u32| {
        let heading = format!("Latency: requests answered within, {connections} connections, first round");
        plotted(&heading, [&LATENCY, &SHARE], &of(*connections))
    };
    workload.connections().iter().map(plot).collect()
}

/// The first round of each over time: the clients' view, and the load of server and machine, on one time line.
pub(super) fn courses(summary: &Summary<'_>, workload: &'static Workload) -> String {
    let mut figures = String::new();
    for (entry, connections, cell) in summary.rows(workload) {
        let Some((_, load)) = cell.loads().find(|(_, load)| load.course.len() > 1 || load.intervals.len() > 1) else {
            continue;
        };
        let heading = format!("{}, {connections} {}", title(entry), workload.noun());
        figures += &format!("<figure><h3>{}</h3>\n{}</figure>\n", escape(&heading), course(&heading, load));
    }
    match figures.is_empty() {
        true => figures,
        false => format!(
            "<details><summary>Answers, latencies, CPU, memory and swap over time, first round</summary>\n\
             <div class=\"plots\">\n{figures}</div></details>\n"
        ),
    }
}

/// The figure to compare in a workload: its name, its unit, and how to get it.
type Compared = (&'static str, &'static str, fn(&Cell<'_>) -> Vec<f64>);

fn compared(workload: &Workload) -> Compared {
    match &workload.kind {
        Kind::Load { .. } | Kind::Script { .. } | Kind::Many { .. } => {
            ("requests per CPU-second (higher is better)", "requests per CPU-second", |cell| {
                cell.values(Load::per_cpu_second)
            })
        }
        Kind::Rate { .. } => ("CPU seconds per second at the same rate (lower is better)", "CPU s per s", |cell| {
            cell.values(Load::cpu_share)
        }),
        Kind::Crowd(_) | Kind::Queue(_) => {
            ("p99 of latency in ms (lower is better)", "ms", |cell| cell.values(|load| load.p99_us as f64 / 1000.0))
        }
        Kind::Squeeze(_) => {
            ("good answers per second (higher is better)", "per second", |cell| cell.values(Load::per_second))
        }
        Kind::Idle { .. } | Kind::Children { .. } => ("memory in MB of PSS (lower is better)", "MB", |cell| {
            cell.memories().map(|memory| memory.after_kib as f64 / 1024.0).collect()
        }),
    }
}

/// Plots one below the other, with each moment in the same place in all of them.
fn course(heading: &str, load: &Load) -> String {
    let seen = |name: &str, figure: fn(&Interval) -> f64| Line {
        name: name.to_owned(),
        points: load.intervals.iter().map(|interval| [interval.until, figure(interval)]).collect(),
    };
    // Without answers there are no times.
    let took = |name: &str, figure: fn(&Interval) -> u64| {
        let answered = load.intervals.iter().filter(|interval| interval.answers > 0.0);
        let points = answered.map(|interval| [interval.until, figure(interval) as f64 / 1000.0]).collect();
        Line { name: name.to_owned(), points }
    };
    let done = |name: &str, figure: fn(&Moment) -> f64| Line {
        name: name.to_owned(),
        points: load.course.iter().map(|moment| [moment.at, figure(moment)]).collect(),
    };
    let mut answers = vec![seen("answers", |interval| interval.answers)];
    answers.extend(load.errors.total().gt(&0).then(|| seen("failures", |interval| interval.failures)));
    let latencies =
        [took("p50 of latency", |interval| interval.p50_us), took("p99 of latency", |interval| interval.p99_us)];
    let shares = [
        done("CPU of the server, of a core", |moment| moment.server * 100.0),
        done("the generator's core", |moment| moment.generator_core * 100.0),
        done("memory of the machine", |moment| moment.memory * 100.0),
    ];
    let swapped = [done("swapped out since the beginning", |moment| moment.swapped_pages as f64)];
    let last = |points: &[[f64; 2]]| points.last().map_or(0.0, |[at, _]| *at);
    let end = last(&answers[0].points).max(last(&shares[0].points));
    let time = Axis { end, ..TIME };
    let plot = |up: &Axis, lines: &[Line]| match lines.iter().any(|line| line.points.len() > 1) {
        true => plot::lines(&format!("{heading}: {}", up.name), plot::LOW, [&time, up], lines),
        false => String::new(),
    };
    let mut text = plot(&ANSWERS, &answers) + &plot(&MILLISECONDS, &latencies) + &plot(&USE, &shares);
    if load.course.iter().any(|moment| moment.swapped_pages > 0) {
        text += &plot(&SWAPPED, &swapped);
    }
    text
}

fn plotted(heading: &str, axes: [&Axis; 2], lines: &[Line]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("<figure><h3>{}</h3>\n{}</figure>\n", escape(heading), plot::lines(heading, plot::TALL, axes, lines))
}
