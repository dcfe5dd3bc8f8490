//! `tsubame-lab count`: what one request costs a server, in numbers that a busy machine does not change.
//!
//! Times differ from run to run; instructions, allocations and system calls do not. One connection sends one request after
//! the other to a server in one process under valgrind. [`callgrind`] counts the work of one request, [`copies`] the
//! bytes that it moves in memory; [`trace`] shows the system calls of one request, and which cache lines and pages it touches. [`ceilings`] are the numbers
//! that no change may pass unnoticed.

mod callgrind;
mod ceilings;
mod copies;
mod requests;
mod trace;
mod traced;

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use crate::experiments::installation::Installation;
use crate::experiments::site::Account;
use crate::experiments::subject::{SUBJECTS, Subject};
use crate::experiments::workload::DOCUMENTS;
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::identity::Identity;
use crate::machine::interrupt;
use crate::machine::programs;
use crate::machine::scratch::Scratch;
use crate::screen::progress;
use crate::screen::table::Table;
use callgrind::Work;
use ceilings::{Ceiling, Ceilings};
use copies::Copies;
use requests::{CountedRequest, REQUESTS};
use trace::Footprint;
use traced::Setup;

/// The options of `count`.
#[derive(Args)]
pub(crate) struct CountOptions {
    /// Only these servers (see `tsubame-lab list`) [default: tsubame-percore, or those with ceilings]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    subjects: Vec<String>,

    /// Only these requests [default: all, or those with ceilings]
    #[arg(long = "workloads", value_name = "X,Y", value_delimiter = ',')]
    requests: Vec<String>,

    /// The tsubame program to count [default: target/dist/tsubame of the workspace around the current directory, or else target/release/tsubame]
    #[arg(long, value_name = "PATH")]
    tsubame: Option<PathBuf>,

    /// Count also the bytes copied for one request, and its distinct cache lines and pages, which takes a minute or more for each server
    #[arg(long)]
    lines: bool,

    /// Fail if a request costs more than this file allows
    #[arg(long, value_name = "FILE")]
    ceilings: Option<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What one request costs one server.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    request: &'static str,
    subject: &'static str,
    #[serde(flatten)]
    work: Work,
    /// In order. Valgrind hides the page with the kernel's fast clocks, so that each reading of a clock is a system call.
    system_calls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copied: Option<Copies>,
    #[serde(skip_serializing_if = "Option::is_none")]
    footprint: Option<Footprint>,
}

impl Cost {
    fn clock_readings(&self) -> usize {
        self.system_calls.iter().filter(|name| CLOCKS.contains(&name.as_str())).count()
    }

    /// The system calls besides those that only valgrind makes real ones.
    fn real_calls(&self) -> impl Iterator<Item = &str> {
        self.system_calls.iter().map(String::as_str).filter(|name| !CLOCKS.contains(name))
    }
}

/// The system calls that read a clock.
const CLOCKS: [&str; 3] = ["clock_gettime", "gettimeofday", "time"];

/// Runs `tsubame-lab count`.
pub(crate) fn run(options: &CountOptions) -> Result<()> {
    interrupt::catch()?;
    let ceilings = options.ceilings.as_deref().map(Ceilings::read).transpose()?;
    let pairs = pairs(options, ceilings.as_ref())?;
    let valgrind = programs::find(&["valgrind"])
        .ok_or_else(|| Error::new("valgrind counts, and is not here").advise("apt-get install valgrind"))?;
    let tsubame = programs::find_tsubame(options.tsubame.as_deref())?;
    let scratch = Scratch::new()?;
    let documents = scratch.create("documents")?;
    for document in DOCUMENTS {
        write_file(documents.join(document.name), document.content())?;
    }
    requests::write_directories(&documents)?;
    let setup = Setup {
        scripts: scratch.create("scripts")?,
        scratch: &scratch,
        documents,
        account: Account::choose(),
        apache: Installation::find(),
        identity: Identity::make(&scratch.create("identity")?)?,
        valgrind,
        written: Instant::now(),
    };
    let mut tasks = Vec::new();
    for (request, subject) in pairs {
        let program = subject
            .program
            .locate(tsubame.as_deref())
            .map_err(|remedy| Error::new(format!("{} is not here", subject.title)).advise(remedy))?;
        if let Some(script) = request.script {
            script.prepare(&setup.scripts)?;
        }
        tasks.push(Task { request, subject, program });
    }
    let costs = count_all(&setup, &tasks, options.lines)?;
    match options.json {
        true => say_line!("{}", serde_json::to_string_pretty(&costs).context(|| "write JSON".to_owned())?),
        false => say_line!("{}", table(&costs, options.lines).to_screen()),
    }
    ceilings.map_or(Ok(()), |ceilings| ceilings.check(&costs))
}

/// A request to count at a server.
struct Task {
    request: &'static CountedRequest,
    subject: &'static Subject,
    program: PathBuf,
}

/// Counts on all processors at a time: how busy the machine is does not matter.
fn count_all(setup: &Setup<'_>, tasks: &[Task], lines: bool) -> Result<Vec<Cost>> {
    let progress = progress::bar(tasks.len());
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Cost)>> {
        let mut costs = Vec::new();
        while let Some((number, task)) = tasks.iter().enumerate().nth(next.fetch_add(1, Relaxed)) {
            interrupt::check()?;
            progress::announce(&progress, &format!("{}: {}", task.request.id, task.subject.title));
            let cost = task.count(setup, lines);
            costs.push((number, cost.context(|| format!("count {} of {}", task.request.id, task.subject.id))?));
            progress.inc(1);
        }
        Ok(costs)
    };
    let mut all = std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let failed = |_| Error::new("a thread that counts has failed");
        threads.into_iter().map(|thread| thread.join().map_err(failed)?).collect::<Result<Vec<_>>>()
    })?
    .concat();
    progress.finish_and_clear();
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, cost)| cost).collect())
}

impl Task {
    fn count(&self, setup: &Setup<'_>, lines: bool) -> Result<Cost> {
        let Task { request, subject, program } = self;
        let work = callgrind::count(setup, subject, program, request)?;
        let system_calls = trace::system_calls(setup, subject, program, request)?;
        let copied = lines.then(|| copies::count(setup, subject, program, request)).transpose()?;
        let footprint = lines.then(|| trace::footprint(setup, subject, program, request)).transpose()?;
        Ok(Cost { request: request.id, subject: subject.id, work, system_calls, copied, footprint })
    }
}

/// The subjects that are servers. A floor answers without reading.
fn servers() -> impl Iterator<Item = &'static Subject> {
    SUBJECTS.iter().filter(|subject| !subject.id.starts_with("floor"))
}

/// What to count: each request at each server that can serve it.
fn pairs(
    options: &CountOptions,
    ceilings: Option<&Ceilings>,
) -> Result<Vec<(&'static CountedRequest, &'static Subject)>> {
    let known = |id: &str| {
        REQUESTS.iter().find(|request| request.id == id).ok_or_else(|| {
            let ids: Vec<&str> = REQUESTS.iter().map(|request| request.id).collect();
            Error::new(format!("no request is called {id:?}")).advise(format!("one of {}", ids.join(", ")))
        })
    };
    let server = |id: &str| {
        servers().find(|subject| subject.id == id).ok_or_else(|| {
            let ids: Vec<&str> = servers().map(|subject| subject.id).collect();
            Error::new(format!("no server is called {id:?}")).advise(format!("one of {}", ids.join(", ")))
        })
    };
    if let (Some(ceilings), true, true) = (ceilings, options.subjects.is_empty(), options.requests.is_empty()) {
        return ceilings
            .rows()
            .iter()
            .map(|Ceiling { request, subject, .. }| Ok((known(request)?, server(subject)?)))
            .collect();
    }
    let requests: Vec<&CountedRequest> = match options.requests.is_empty() {
        true => REQUESTS.iter().collect(),
        false => options.requests.iter().map(|id| known(id)).collect::<Result<_>>()?,
    };
    let subjects: Vec<&Subject> = match options.subjects.is_empty() {
        true => vec![server("tsubame-percore")?],
        false => options.subjects.iter().map(|id| server(id)).collect::<Result<_>>()?,
    };
    Ok(requests.iter().flat_map(|request| subjects.iter().map(move |subject| (*request, *subject))).collect())
}

fn table(costs: &[Cost], lines: bool) -> Table {
    let mut headers = vec!["request", "server", "instructions", "malloc + realloc", "system calls", "clock readings"];
    if lines {
        headers.extend(["bytes copied (copies)", "lines of code", "lines of data (written)", "pages of code / data"]);
    }
    let mut table = Table::new(2, &headers);
    for cost in costs {
        let Cost { request, subject, work, copied, footprint, .. } = cost;
        let mut row = vec![
            (*request).to_owned(),
            (*subject).to_owned(),
            format!("{:.0}", work.instructions),
            format!("{:.0} + {:.0}", work.allocations, work.reallocations),
            cost.real_calls().count().to_string(),
            cost.clock_readings().to_string(),
        ];
        if let (Some(copied), Some(print)) = (copied, footprint) {
            row.extend([
                format!("{:.0} ({:.0})", copied.bytes, copied.copies),
                print.code_lines.to_string(),
                format!("{} ({})", print.data_lines, print.written_lines),
                format!("{} / {}", print.code_pages, print.data_pages),
            ]);
        }
        table.push(row);
    }
    table
}
