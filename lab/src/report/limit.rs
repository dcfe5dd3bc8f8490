//! The factor that limited a server's responses, with the figures that show it.

use crate::experiments::workload::{LoadShape, Workload};
use crate::measure::results::Load;
use crate::report::summary::Cell;

/// Above this share of its time, a resource has nothing in reserve.
const FULL: f64 = 0.9;
/// Above this share of two cores, other programs take time that the server could have had.
const DISTURBED: f64 = 0.2;

/// The limit in words; `None` for measurements at rest. A run over loopback has no network that could be full.
pub(super) fn limit(workload: &Workload, cell: &Cell<'_>) -> Option<String> {
    let percent = |figure: fn(&Load) -> f64| cell.median(figure).map(|share| share * 100.0);
    let server = percent(|load| load.busy.server)?;
    let generator = percent(|load| load.busy.generator)?;
    let origins = percent(|load| load.busy.origins)?;
    let others = percent(|load| load.busy.others)?;
    let idle = percent(|load| load.busy.idle)?;
    let busiest = percent(|load| load.busiest)?;
    let shortages = cell.pressure().map(|(events, _)| events.at_limit + events.swapped_pages).max().unwrap_or(0);
    let full = FULL * 100.0;
    let both_cores = workload.shape.has_all_cores();
    Some(if has_a_schedule(&workload.shape) && server < full {
        format!("the load: there were no more requests; the server used {server:.0} % of a core")
    } else if shortages > 0 {
        format!(
            "memory: it was at its limit, or pages were swapped out, {shortages} times; server {server:.0} % of a core"
        )
    } else if !both_cores && server >= full {
        format!("CPU of the server: {server:.0} % of its core")
    } else if others >= DISTURBED * 100.0 {
        format!("other programs: they took {others:.0} % of both cores; server {server:.0} % of a core")
    } else if both_cores && idle <= 100.0 - full {
        format!("CPU: {idle:.0} % of both cores were idle")
    } else if busiest >= full {
        format!("one thread of the server: {busiest:.0} % of a core, while {idle:.0} % of both cores were idle")
    } else if generator + origins >= full && origins > 0.0 {
        format!(
            "the load generator and the origin: {generator:.0} % and {origins:.0} % of their core; server {server:.0} % of its own"
        )
    } else if generator >= full {
        format!("the load generator: {generator:.0} % of its core; server {server:.0} % of its own")
    } else {
        format!("waiting (workers or connections): server {server:.0} %, generator {generator:.0} %, {idle:.0} % idle")
    })
}

/// Whether requests come when they are due, not when others are answered.
fn has_a_schedule(shape: &LoadShape) -> bool {
    use LoadShape::{Faults, MixedConnections, Queue, Rate};
    matches!(shape, Rate { .. } | MixedConnections(_) | Queue(_) | Faults(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::experiment::find_workload;
    use crate::experiments::profile::bare;
    use crate::measure::results::{Measure, example};
    use crate::report::summary::Summary;

    fn limited(change: fn(&mut Load)) -> String {
        let mut results = example::empty();
        let mut sample = example::load("keepalive", "nginx", 100, 1, 1000);
        if let Measure::Load(load) = &mut sample.measure {
            change(load);
        }
        results.samples.push(sample);
        let workload = find_workload("keepalive").unwrap();
        limit(workload, Summary::of(&results).cell(workload, 100, bare("nginx")).unwrap()).unwrap()
    }

    #[test]
    fn the_limit_is_what_has_nothing_in_reserve() {
        assert!(limited(|_| ()).starts_with("CPU of the server: 100 %"));
        let idle = |load: &mut Load| load.busy.server = 0.5;
        assert!(limited(idle).starts_with("waiting"));
        assert!(
            limited(|load| (load.busy.server, load.busy.generator) = (0.5, 0.99)).starts_with("the load generator")
        );
        assert!(
            limited(|load| (load.busy.server, load.busy.others) = (0.5, 0.4))
                .starts_with("other programs: they took 40 %")
        );
        assert!(
            limited(|load| (load.busy.server, load.busy.generator, load.busy.origins) = (0.5, 0.4, 0.59))
                .starts_with("the load generator and the origin: 40 % and 59 %")
        );
        assert!(limited(|load| (load.busy.server, load.busiest) = (0.5, 0.95)).starts_with("one thread"));
    }
}
