//! The hidden subcommand `launch`: arranges the process from inside, then becomes the program to measure.
//!
//! A process that enters its control group itself, before `exec`, is accounted from its first instruction, and all its
//! children inherit group, core and limits. It also needs no `unsafe` hook between fork and exec.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

use crate::machine::descriptors;
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::host::allowed_cores;

/// The options of the hidden `launch`.
#[derive(Args)]
pub(crate) struct LaunchOptions {
    /// A cgroup.procs file to enter; may be given more than once
    #[arg(long = "group", value_name = "FILE")]
    pub(crate) groups: Vec<PathBuf>,

    /// The only cores to run on
    #[arg(long, value_name = "A,B", value_delimiter = ',', required = true)]
    pub(crate) cores: Vec<usize>,

    /// The network namespace to enter, as a file
    #[arg(long, value_name = "FILE")]
    pub(crate) network: Option<PathBuf>,

    /// End at once with the laboratory, even while standing still
    #[arg(long)]
    pub(crate) kill: bool,

    /// Program and arguments
    #[arg(trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// The command line that starts `program` on `cores`, in `groups`.
pub(crate) fn command(groups: &[PathBuf], cores: &[usize], program: &Path) -> Result<Command> {
    let mut command = launcher(cores)?;
    for group in groups {
        command.arg("--group").arg(group);
    }
    command.arg("--").arg(program);
    Ok(command)
}

/// The same for a program that may stand still (SIGSTOP) when the laboratory ends, and then takes no other signal than
/// SIGKILL.
pub(crate) fn command_to_kill(cores: &[usize], program: &Path) -> Result<Command> {
    let mut command = launcher(cores)?;
    command.args(["--kill", "--"]).arg(program);
    Ok(command)
}

/// The command line that starts `program` on all cores, in `groups` and in the network namespace of a file.
pub(crate) fn command_within(network: &Path, groups: &[PathBuf], program: &Path) -> Result<Command> {
    let mut command = launcher(&allowed_cores()?)?;
    command.arg("--network").arg(network);
    for group in groups {
        command.arg("--group").arg(group);
    }
    command.arg("--").arg(program);
    Ok(command)
}

fn launcher(cores: &[usize]) -> Result<Command> {
    let lab = std::env::current_exe().context(|| "find the laboratory's own program".to_owned())?;
    let mut command = Command::new(lab);
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    command.args(["launch", "--cores", &cores.join(",")]);
    Ok(command)
}

/// Arranges this process and executes the command; returns only on failure.
pub(crate) fn exec(options: &LaunchOptions) -> Result<()> {
    // A server must not outlive an interrupted laboratory.
    let signal = if options.kill { Signal::KILL } else { Signal::TERM };
    set_parent_process_death_signal(Some(signal)).context(|| "ask for a signal when the laboratory ends".to_owned())?;
    for group in &options.groups {
        write_file(group, std::process::id().to_string())?;
    }
    options.network.as_deref().map_or(Ok(()), enter_network)?;
    pin(&options.cores)?;
    descriptors::raise_limit()?;

    let program = &options.command[0];
    let error = Command::new(program).args(&options.command[1..]).exec();
    Err(Error::new(format!("cannot execute {}: {error}", program.display())))
}

/// Moves the calling thread, and what it will start, into the network namespace of a file.
pub(crate) fn enter_network(file: &Path) -> Result<()> {
    let doing = || format!("enter the network namespace {}", file.display());
    let opened = File::open(file).context(doing)?;
    move_into_link_name_space(opened.as_fd(), Some(LinkNameSpaceType::Network)).context(doing)
}

/// Keeps the calling process, and its children, on these cores.
pub(crate) fn pin(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).context(|| format!("stay on cores {cores:?}"))
}
