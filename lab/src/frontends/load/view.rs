//! The display in a terminal while a load runs: a few lines that are redrawn, and removed at the end.

use std::io::IsTerminal as _;
use std::sync::atomic::Ordering::Relaxed;

use indicatif::{FormattedDuration, ProgressBar, ProgressStyle};

use crate::load::timeline::IntervalSummary;
use crate::load::{self, Live, Plan, Record};
use crate::machine::error::Result;
use crate::screen::blocks;
use crate::screen::no_echo::NoEcho;

/// How many seconds are shown side by side.
const SECONDS: u64 = 60;

/// Runs a plan, like [`load::run`], and displays it.
pub(super) fn run(plan: &Plan) -> Result<Record> {
    let mut view = View::of(plan);
    let _no_echo = NoEcho::new();
    let record = load::run(plan, &Live::default(), |live| view.show(live));
    view.bar.finish_and_clear();
    record
}

/// The lines, on standard error.
struct View {
    bar: ProgressBar,
    count: Option<u64>,
    /// The last second shown.
    shown: Option<u64>,
    /// The text for the last seconds.
    recent: String,
}

impl View {
    /// The view of a plan; nothing is shown if standard error is no terminal.
    fn of(plan: &Plan) -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::no_length() } else { ProgressBar::hidden() };
        let requests = plan.scenario.as_ref().map_or(1, |scenario| scenario.length() as u64);
        let count = plan.count.map(|count| count.saturating_mul(requests));
        let (length, of) = match (count, plan.time) {
            (Some(count), _) => (count, "{pos} of {len} requests".to_owned()),
            (None, time) => {
                let time = time.unwrap_or_default();
                (time.as_millis() as u64, format!("{{elapsed_precise}} of {}", FormattedDuration(time)))
            }
        };
        // The template is a valid constant.
        let style = ProgressStyle::with_template(&format!("{{bar:40}} {{percent:>3}} %  {of}\n{{msg}}"));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_length(length);
        Self { bar, count, shown: None, recent: String::new() }
    }

    /// Shows the progress. Called several times a second.
    fn show(&mut self, live: &Live) {
        if self.bar.is_hidden() {
            return;
        }
        let (responses, failures) = (live.responses.load(Relaxed), live.failures.load(Relaxed));
        let elapsed = live.elapsed();
        self.bar.set_position(match self.count {
            Some(_) => responses + failures,
            None => elapsed.as_millis() as u64,
        });
        let last = live.last_second();
        if last.is_some() && last != self.shown {
            self.shown = last;
            self.recent = last.map(|last| recent(live, last)).unwrap_or_default();
        }
        let mean = responses as f64 / elapsed.as_secs_f64().max(0.001);
        self.bar.set_message(format!("{mean:>12.0} responses per second on average, {failures} failed{}", self.recent));
    }
}

/// Two lines about the last seconds: the results of the last one, and responses in each.
fn recent(live: &Live, last: u64) -> String {
    let progress = live.progress();
    let first = (last + 1).saturating_sub(SECONDS);
    let responses = (first..=last).map(|second| progress.second(second).map_or(0, |second| second.responses));
    let responses: Vec<u64> = responses.collect();
    let latest = progress.second(last).map(|second| IntervalSummary::of(&second)).unwrap_or_default();
    drop(progress);
    let milliseconds = |micros: u64| micros as f64 / 1000.0;
    format!(
        "\n{:>12} in the last second, {} failed, p50 {:.3} ms, p99 {:.3} ms\n{:>12} {}",
        latest.responses,
        latest.failures,
        milliseconds(latest.p50_us),
        milliseconds(latest.p99_us),
        "",
        blocks::plot(&responses, 1).concat(),
    )
}
