//! Reads the configuration that the command line names.

use std::path::PathBuf;
use std::sync::Arc;

use conf::{Language, Notice, Origin, Source};
use modules::idle;
use mpm::Chosen;
use mpm::settings::MpmSettings;
use server::machine::Machine;
use server::{Failed, Loaded, Sources, load, read_only};

use super::envvars;
use super::known::{KNOWN, UNSELECTED};
use crate::cli::{self, Options};
use crate::version::{self, PID_FILE};

/// A configuration that can run.
pub(crate) struct Configured {
    /// The server and what was read.
    pub(crate) loaded: Loaded,
    /// The MPM that it chooses.
    pub(crate) mpm: Chosen,
}

/// The configuration to read: a file, or a text of our own.
pub(crate) enum ConfigSource<'a> {
    /// The file that the command line names.
    File,
    /// Name, text and variables.
    Own(&'a str, &'a str, &'a [(&'a str, &'a str)]),
}

/// Reads and resolves a configuration.
pub(crate) fn read(options: &Options, text: &ConfigSource<'_>) -> Result<Configured, Box<Failed>> {
    let (loaded, mpm) = read_with(options, text, false);
    match (loaded, mpm) {
        (Ok(loaded), Some(mpm)) => Ok(Configured { loaded, mpm }),
        (Ok(_), None) => unreachable!("a configuration that loaded was checked"),
        (Err(failed), _) => Err(failed),
    }
}

/// Reads and resolves as much as possible and continues after each error, for a report.
pub(crate) fn read_everything(options: &Options) -> Result<Loaded, Box<Failed>> {
    // With a file that lies elsewhere, nothing else is known to be wrong.
    read_with(options, &ConfigSource::File, cli::misplaced(options).is_none()).0
}

fn read_with(
    options: &Options,
    text: &ConfigSource<'_>,
    keep_errors: bool,
) -> (Result<Loaded, Box<Failed>>, Option<Chosen>) {
    let chosen = std::cell::Cell::new(None);
    let loaded = with_sources(options, text, keep_errors, |language, sources| {
        load(Arc::new(Machine), language, sources, version::software, |draft, context| {
            let mpm = mpm::choose(context.language.loaded(), &options.program)?;
            if sources.file.is_some() && !draft.main.get::<MpmSettings>().pid_file.is_set() {
                let path = context.server_relative(PID_FILE);
                draft.main.edit::<MpmSettings>().pid_file.set(path, &built_in());
            }
            mpm::control::check(&draft.main)?;
            context.notices.extend(mpm.check(&draft.main, mpm::When::Start));
            context.notices.extend(idle::notice(&context.language));
            chosen.set(Some(mpm));
            Ok(())
        })
    });
    (loaded, chosen.take())
}

/// Reads only enough to know the loaded modules; also returns the notices.
pub(crate) fn read_language(options: &Options) -> Result<(Language, Vec<Notice>), Box<Failed>> {
    with_sources(options, &ConfigSource::File, false, |language, sources| {
        read_only(Arc::new(Machine), language, sources)
    })
}

/// Calls `read` with what the command line names: the defines, and the text to read.
fn with_sources<T>(
    options: &Options,
    text: &ConfigSource<'_>,
    keep_errors: bool,
    read: impl FnOnce(Language, &Sources<'_>) -> T,
) -> T {
    let mut language = Language::new(&KNOWN, &UNSELECTED, &cli::server_root(options)).with_idle(&idle::MODULES);
    for name in &options.defines {
        language.define(name, None);
    }
    let file = cli::config_file(options);
    if matches!(text, ConfigSource::File) {
        envvars::read_beside(options, &file);
    }
    let (file, text) = match text {
        ConfigSource::File => (Some(file.as_str()), None),
        ConfigSource::Own(name, text, variables) => {
            for (name, value) in *variables {
                language.define(name, Some(value));
            }
            (None, Some((*name, *text)))
        }
    };
    let (program, before, after) = (options.program.as_str(), &options.before[..], &options.after[..]);
    read(language, &Sources { program, before, file, text, after, keep_errors })
}

/// The control socket and pid file of a configuration that cannot be applied. A server that was started with an earlier
/// version of it may still be running.
pub(crate) fn socket(failed: &Failed) -> Option<(PathBuf, PathBuf)> {
    let last = |name: &str| {
        let node = failed.tree.iter().rev().find(|node| node.name.eq_ignore_ascii_case(name))?;
        conf::words::words(&node.args).into_iter().next()
    };
    let path = |word: String| PathBuf::from(conf::paths::join(&failed.language.server_root, &word));
    if failed.tree.is_empty() {
        return None;
    }
    let pid_file = path(last("PidFile").unwrap_or_else(|| PID_FILE.into()));
    match last("ControlSocket") {
        Some(word) if word.eq_ignore_ascii_case("none") => None,
        Some(word) => Some((path(word), pid_file)),
        None => Some((mpm::control::beside(&pid_file), pid_file)),
    }
}

fn built_in() -> Origin {
    Origin { source: Arc::new(Source::new("built-in default")), line: 0 }
}
