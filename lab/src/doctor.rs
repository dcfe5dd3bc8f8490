//! `tsubame-lab doctor`: shows what is available, what is missing, and the command to install it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::experiments::experiment::EXPERIMENTS;
use crate::experiments::program::Program;
use crate::experiments::subject::SUBJECTS;
use crate::machine::accounting::{Accounting, CpuTimeSource};
use crate::machine::descriptors;
use crate::machine::error::{Context as _, Result};
use crate::machine::host::Cores;
use crate::machine::procfs;
use crate::machine::programs;
use crate::machine::script::{COMPILER, PERL};
use crate::screen::style;
use crate::screen::table::Table;

/// How long to observe how busy the machine is.
const WATCH: Duration = Duration::from_millis(500);

/// More than this share of busy cores disturbs a run.
const BUSY_MAX: f64 = 0.05;

/// One item of the examination.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    /// What is available.
    found: Option<String>,
    /// What to do if it is missing or not as it should be.
    remedy: Option<String>,
}

/// The options of `doctor`.
#[derive(Args)]
pub(crate) struct DoctorOptions {
    /// The tsubame program to look for [default: as in `run http`]
    #[arg(long, value_name = "PATH")]
    pub(crate) tsubame: Option<PathBuf>,

    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Examines everything that `run` depends on.
pub(crate) fn examine(options: &DoctorOptions) -> Result<()> {
    let mut findings = find_programs(options)?;
    findings.push(examine_accounting());
    findings.push(examine_cores()?);
    findings.push(examine_quiet()?);
    findings.push(examine_descriptors());
    if options.json {
        let json = serde_json::to_string_pretty(&findings).context(|| "write the findings as JSON".to_owned())?;
        say_line!("{json}");
    } else {
        print(&findings);
    }
    Ok(())
}

fn print(findings: &[Finding]) {
    let mut table = Table::new(2, &["", ""]);
    for finding in findings {
        let found = finding.found.as_deref().unwrap_or("not here");
        table.push(vec![finding.what.clone(), found.to_owned()]);
    }
    // Colour is added after alignment, because it has no width.
    for (line, finding) in table.to_text().lines().skip(1).zip(findings) {
        match &finding.remedy {
            None => say_line!("{} {line}", style::good("ok     ")),
            Some(remedy) if finding.found.is_none() => {
                say_line!("{} {line}; to get it: {remedy}", style::bad("missing"))
            }
            Some(remedy) => say_line!("{} {line}: {remedy}", style::doubtful("look   ")),
        }
    }
}

fn find_programs(options: &DoctorOptions) -> Result<Vec<Finding>> {
    let tsubame = programs::find_tsubame(options.tsubame.as_deref())?;
    let mut findings = Vec::new();
    for (what, name) in [("gcc (for scripts in C)", COMPILER), ("perl (for scripts in Perl)", PERL)] {
        let located = programs::find(&[name]).ok_or_else(|| format!("apt-get install {name}"));
        findings.push(about_program(what, &located, &["--version"]));
    }
    for subject in SUBJECTS.iter().filter(|subject| !matches!(subject.program, Program::Lab)) {
        let located = subject.program.locate(tsubame.as_deref());
        findings.push(about_program(subject.title, &located, subject.version));
    }
    Ok(findings)
}

fn about_program(what: &str, located: &std::result::Result<PathBuf, String>, version: &[&str]) -> Finding {
    let found = located.as_ref().ok().map(|program| {
        let version = programs::version_of(program, version).unwrap_or_else(|| "of unknown version".to_owned());
        format!("{version} ({})", program.display())
    });
    Finding { what: what.to_owned(), found, remedy: located.as_ref().err().cloned() }
}

fn examine_accounting() -> Finding {
    let source = Accounting::detect().source();
    let coarse = source == CpuTimeSource::ProcessTree;
    Finding {
        what: "CPU accounting".to_owned(),
        found: Some(source.to_string()),
        remedy: coarse.then(|| {
            "run as root, or let this user make control groups (systemd-run --user --scope -p Delegate=yes)".to_owned()
        }),
    }
}

fn examine_cores() -> Result<Finding> {
    let cores = Cores::choose()?;
    let alone = cores.server != cores.generator;
    Ok(Finding {
        what: "cores".to_owned(),
        found: Some(format!("server on {}, load generator on {}", cores.server, cores.generator)),
        remedy: (!alone).then(|| "two cores are needed to keep server and load generator apart".to_owned()),
    })
}

fn examine_quiet() -> Result<Finding> {
    let cores = Cores::choose()?.both();
    let before = procfs::core_time(&cores)?;
    std::thread::sleep(WATCH);
    let after = procfs::core_time(&cores)?;
    let share = |spent: Duration| spent.as_secs_f64() / (WATCH.as_secs_f64() * cores.len() as f64);
    let (busy, stolen) = (share(after.busy() - before.busy()), share(after.stolen - before.stolen));
    Ok(Finding {
        what: "quiet".to_owned(),
        found: Some(format!("{:.0} % busy, {:.0} % stolen", busy * 100.0, stolen * 100.0)),
        remedy: (busy + stolen > BUSY_MAX).then(|| "wait until nothing else runs".to_owned()),
    })
}

fn examine_descriptors() -> Finding {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    // The limit is raised for measurements; nothing else needs it here, and this program ends soon.
    let allowed = descriptors::raise_limit().unwrap_or(limit);
    let workloads = EXPERIMENTS.into_iter().flat_map(|experiment| experiment.workloads);
    let needed = workloads.flat_map(|workload| workload.connections()).max().copied().unwrap_or(0);
    let enough = allowed > u64::from(needed) + 1000;
    Finding {
        what: "open files".to_owned(),
        found: Some(format!("{allowed} allowed, {needed} connections at most")),
        remedy: (!enough).then(|| "ulimit -Hn 50000 (as root)".to_owned()),
    }
}
