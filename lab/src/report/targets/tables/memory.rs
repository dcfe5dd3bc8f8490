//! The targets about scripts that need more memory than there is, for each multi-processing module, without any number
//! in its configuration.

use crate::experiments::profile::Profile::{FourWorkers, Unconfigured};
use crate::experiments::profile::{Entry, under};
use crate::measure::results::{Load, PressureEvents};
use crate::report::targets::target::{Rule, Target};

/// Every target.
pub(super) static TARGETS: [Target; 10] = [
    at_most("no script is ended for want of memory", |events, _| events.oom_kills as f64, 0.0),
    at_most("nothing is swapped out (pages)", |events, _| events.swapped_pages as f64, 0.0),
    at_most("no request fails", |events, load| (load.errors.total() + events.file_errors) as f64, 0.0),
    at_most("files: p50 ≤ 5 ms", |events, _| events.file_milliseconds(|each| each.file_p50_us), 5.0),
    at_most("files: p99 ≤ 50 ms", |events, _| events.file_milliseconds(|each| each.file_p99_us), 50.0),
    as_fast("10 clients: req/s ≥ 0.95 × Apache with MaxRequestWorkers 4", "memory-10"),
    as_fast("100 clients: req/s ≥ 0.95 × Apache with MaxRequestWorkers 4", "memory-100"),
    as_fast("ten scripts: req/s ≥ 0.95 × Apache with MaxRequestWorkers 4", "memory-mix"),
    as_fast("a script that grows: req/s ≥ 0.95 × Apache with MaxRequestWorkers 4", "memory-growing"),
    as_fast("a script with a child: req/s ≥ 0.95 × Apache with MaxRequestWorkers 4", "memory-child"),
];

const TUNED: Entry = under(FourWorkers, "apache-prefork");

static OURS: [Entry; 4] = [
    under(Unconfigured, "tsubame-percore"),
    under(Unconfigured, "tsubame-prefork"),
    under(Unconfigured, "tsubame-worker"),
    under(Unconfigured, "tsubame-event"),
];

static PAIRS: [(Entry, Entry); 4] = [(OURS[0], TUNED), (OURS[1], TUNED), (OURS[2], TUNED), (OURS[3], TUNED)];

const fn at_most(text: &'static str, figure: fn(&PressureEvents, &Load) -> f64, limit: f64) -> Target {
    Target { text, rule: Rule::PressureEvents { subjects: &OURS, figure, limit } }
}

const fn as_fast(text: &'static str, workload: &'static str) -> Target {
    Target { text, rule: Rule::Each { workload, pairs: &PAIRS, figure: Load::per_second, factor: 0.95 } }
}
