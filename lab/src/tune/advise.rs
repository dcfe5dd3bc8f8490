//! `tsubame-lab advise`: how many workers a running server should have, from its status page and /proc, without any load.
//!
//! [`crate::load::status`] and [`memory`] observe, [`decision`] decides.

pub(crate) mod decision;
pub(crate) mod memory;

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::load::status;
use crate::machine::duration::duration;
use crate::machine::error::{Context as _, Result};
use crate::machine::host;
use crate::machine::interrupt;
use crate::machine::listener::Listener;
use crate::screen::style;
use crate::screen::table::Table;
use decision::{Advice, Observations};
use memory::{AvailableMemory, UsedMemory};

/// The options of `advise`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AdviseOptions {
    /// The server's status page: Apache's or Tsubame's `server-status`, nginx's `stub_status`
    #[arg(long, value_name = "URL", default_value = "http://localhost/server-status?auto")]
    url: String,

    /// How long to look for the peak, four times a second; Ctrl-C ends it early
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    watch: Duration,

    /// The most workers that are ever busy at once, where you know it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    peak: Option<u64>,

    /// Print what was seen and decided as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tsubame-lab advise                                       the server at port 80
  tsubame-lab advise --url localhost:8080/server-status --watch 1h
  tsubame-lab advise --peak 150                            the daily peak, as your monitoring knows it
Where the status page is: `<Location /server-status> SetHandler server-status` in Apache and Tsubame,
`location = /server-status { stub_status; }` in nginx.";

/// How often to observe the server.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long the server may take to answer: it may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// The results in a form for other programs.
#[derive(Serialize)]
struct Results<'r> {
    seen: &'r Observations,
    advice: &'r Advice,
}

/// Runs `tsubame-lab advise`.
pub(crate) fn run(options: &AdviseOptions) -> Result<()> {
    interrupt::catch()?;
    let facts = watch(options)?;
    let advice = decision::decide(&facts);
    match options.json {
        true => {
            let results = serde_json::to_string(&Results { seen: &facts, advice: &advice });
            say_line!("{}", results.context(|| "write the advice as JSON".to_owned())?);
        }
        false => say!("{}", text(&facts, &advice)),
    }
    Ok(())
}

/// Observes the server until the time is over or the user interrupts.
fn watch(options: &AdviseOptions) -> Result<Observations> {
    let url = status::page(&options.url)?;
    let address = url.resolve(false)?;
    let server = Listener::at(address);
    let begin = Instant::now();
    let mut last = status::fetch(&url, PATIENCE)?;
    let mut peak = last.busy;
    let mut was_full = last.is_full;
    let mut used = server.as_ref().and_then(UsedMemory::of);
    while begin.elapsed() < options.watch && !interrupt::is_asked() {
        std::thread::sleep(INTERVAL.min(options.watch));
        last = status::fetch(&url, PATIENCE)?;
        peak = peak.max(last.busy);
        was_full |= last.is_full;
        used = used.zip(server.as_ref().and_then(UsedMemory::of)).map(|(most, now)| most.most(now));
    }
    // nginx's memory does not depend on its connections.
    let used = used.filter(|_| last.mpm != "nginx");
    let workers = (last.busy + last.idle).max(1);
    let root = server.as_ref().and_then(|server| server.roots().first().copied());
    Ok(Observations {
        mpm: last.mpm,
        busy: last.busy,
        peak: options.peak.unwrap_or(peak),
        was_full: was_full && options.peak.is_none(),
        seconds: begin.elapsed().as_secs(),
        worker_kib: used.map(|used| used.children.div_ceil(workers) + used.scripts.div_ceil(peak.max(1))),
        used_kib: used.map_or(0, |used| used.children + used.scripts),
        room: root.and_then(AvailableMemory::of),
        cores: host::allowed_cores()?.len() as u64,
    })
}

fn text(facts: &Observations, advice: &Advice) -> String {
    let unknown = || "not known".to_owned();
    let mib = |kib: u64| format!("{:.1} MiB", kib as f64 / 1024.0);
    let mut table = Table::new(1, &["seen", facts.mpm.as_str()]);
    let place = if facts.room.is_some_and(|room| room.is_group) { "control group" } else { "machine" };
    let rows = [
        ("busy now".to_owned(), facts.busy.to_string()),
        ("busy at the peak".to_owned(), facts.peak.to_string()),
        ("memory of a worker (PSS)".to_owned(), facts.worker_kib.map_or_else(unknown, mib)),
        ("memory of all workers (PSS)".to_owned(), facts.worker_kib.map_or_else(unknown, |_| mib(facts.used_kib))),
        (format!("memory left in the {place}"), facts.room.map_or_else(unknown, |room| mib(room.left))),
        (
            "workers that the memory can hold".to_owned(),
            advice.memory_bound.map_or_else(unknown, |bound| bound.to_string()),
        ),
    ];
    let told = if facts.mpm == "nginx" { 2 } else { rows.len() };
    for (name, value) in rows.into_iter().take(told) {
        table.push(vec![name, value]);
    }
    let mut out = table.to_text();
    if !advice.settings.is_empty() {
        out += &format!("\n{}\n", decision::fragment(&facts.mpm, &advice.settings).trim_end());
    }
    out.push('\n');
    for doubt in &advice.doubts {
        out += &format!("  {} {doubt}\n", style::doubtful("!"));
    }
    out
}
