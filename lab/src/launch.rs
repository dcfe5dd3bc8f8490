//! The hidden subcommand `launch`: arranges the process from inside, then becomes the program to measure.
//!
//! A process that enters its control group itself, before `exec`, is accounted from its first instruction, and all its
//! children inherit group, core and limits. It also needs no `unsafe` hook between fork and exec.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::cli::LaunchOptions;
use crate::error::{Context as _, Error, Result, write_file};

/// The command line that starts `program` on `cores`, in `groups`.
pub(crate) fn command(groups: &[PathBuf], cores: &[usize], program: &Path) -> Result<Command> {
    let lab = std::env::current_exe().context(|| "find the laboratory's own program".to_owned())?;
    let mut command = Command::new(lab);
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    command.arg("launch").args(["--cores", &cores.join(",")]);
    for group in groups {
        command.arg("--group").arg(group);
    }
    command.arg("--").arg(program);
    Ok(command)
}

/// Arranges this process and executes the command; returns only on failure.
pub(crate) fn exec(options: &LaunchOptions) -> Result<()> {
    // A server must not outlive an interrupted laboratory.
    set_parent_process_death_signal(Some(Signal::TERM))
        .context(|| "ask for a signal when the laboratory ends".to_owned())?;
    for group in &options.groups {
        write_file(group, std::process::id().to_string())?;
    }
    pin(&options.cores)?;
    raise_descriptor_limit()?;

    let program = &options.command[0];
    let error = Command::new(program).args(&options.command[1..]).exec();
    Err(Error::new(format!("cannot execute {}: {error}", program.display())))
}

/// Keeps the calling process, and its children, on these cores.
pub(crate) fn pin(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).context(|| format!("stay on cores {cores:?}"))
}

/// Enough for 20 000 connections in one process. Above the hard limit, only root may have it.
const DESCRIPTORS: u64 = 50_000;

/// Raises the limit of open descriptors as far as possible and returns it: thousands of connections need it.
pub(crate) fn raise_descriptor_limit() -> Result<u64> {
    let hard = getrlimit(Resource::Nofile).maximum;
    let enough = hard.map(|hard| hard.max(DESCRIPTORS));
    let raised = |maximum| setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map(|()| maximum);
    let maximum = raised(enough).or_else(|_| raised(hard)).context(|| "raise the limit of open files".to_owned())?;
    Ok(maximum.unwrap_or(u64::MAX))
}
