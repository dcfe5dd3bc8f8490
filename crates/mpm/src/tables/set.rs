//! The functions that the rows of the tables apply to their arguments.

use conf::values::{atoi, strtol};
use conf::{Cmd, Level, ModuleInfo, Outcome, Setting};
use runtime::STACK;

use super::{EVENT, PERCORE, PREFORK, WORKER};
use crate::settings::MpmSettings;

/// Sets a number, parsed like `atoi`.
pub(super) fn lenient(cmd: &mut Cmd<'_>, field: fn(&mut MpmSettings) -> &mut Setting<i64>, word: &str) -> Outcome {
    cmd.server_set(field, atoi(word).into())
}

/// Sets a number that must be above zero.
pub(super) fn positive(cmd: &mut Cmd<'_>, field: fn(&mut MpmSettings) -> &mut Setting<i64>, word: &str) -> Outcome {
    match atoi(word) {
        value @ 1.. => cmd.server_set(field, value.into()),
        _ => Err(format!("{} must be > 0", cmd.row.name).into()),
    }
}

/// Sets a size, parsed like `strtol`; it must not be below zero.
pub(super) fn not_negative(cmd: &mut Cmd<'_>, field: fn(&mut MpmSettings) -> &mut Setting<i64>, word: &str) -> Outcome {
    match strtol(word) {
        value @ 0.. if value < i64::MAX => cmd.server_set(field, value),
        _ => Err(format!("Invalid {} value: {word}", cmd.row.name).into()),
    }
}

/// Sets the size of a socket buffer, in bytes.
pub(super) fn buffer(cmd: &mut Cmd<'_>, field: fn(&mut MpmSettings) -> &mut Setting<i64>, word: &str) -> Outcome {
    match atoi(word) {
        value @ (0 | 512..) => cmd.server_set(field, value.into()),
        _ => Err(format!("{} must be >= 512 bytes, or 0 for system default.", cmd.row.name).into()),
    }
}

/// Notes that the directive has a new name.
pub(super) fn old_max_clients(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let mpms = [(&PREFORK, "AH00188: "), (&WORKER, "AH00324: "), (&EVENT, "AH00521: "), (&PERCORE, "")];
    let owner = |info: &ModuleInfo| info.directives.iter().any(|row| std::ptr::eq(row, cmd.row));
    if let Some((info, number)) = mpms.into_iter().find(|(info, _)| owner(info)) {
        let text = format!("{number}MaxClients is deprecated, use MaxRequestWorkers instead.");
        cmd.context.note(info.log_name(), Level::Info, text);
    }
    lenient(cmd, |s| &mut s.max_request_workers, word)
}

pub(super) fn max_connections_per_child(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    if cmd.row.name == "MaxRequestsPerChild" {
        let text = "AH00545: MaxRequestsPerChild is deprecated, use MaxConnectionsPerChild instead.";
        cmd.context.note("core", Level::Info, text);
    }
    lenient(cmd, |s| &mut s.max_connections_per_child, word)
}

pub(super) fn async_factor(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    match word.parse::<f64>() {
        Ok(factor) if factor > 0.0 => cmd.server_set(|s: &mut MpmSettings| &mut s.async_factor, factor),
        Ok(_) => Err("AsyncRequestWorkerFactor argument must be a positive number".into()),
        Err(_) => Err("error parsing value".into()),
    }
}

pub(super) fn thread_stack_size(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    if (1..STACK as i64).contains(&strtol(word)) {
        let text = format!("ThreadStackSize {word}: stacks may grow to {STACK} bytes; only what is used costs memory");
        cmd.context.note("core", Level::Notice, text);
    }
    not_negative(cmd, |s| &mut s.thread_stack_size, word)
}

pub(super) fn core_dump_directory(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let path = cmd.context.server_relative(word);
    if !cmd.context.system.exists(&path) {
        return Err(format!("CoreDumpDirectory {path} does not exist").into());
    }
    if !cmd.context.system.is_dir(&path) {
        return Err(format!("CoreDumpDirectory {path} is not a directory").into());
    }
    cmd.server_set(|s: &mut MpmSettings| &mut s.core_dump_directory, path)
}
