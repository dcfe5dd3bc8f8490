//! Reads the configuration that the command line names.

use std::path::PathBuf;
use std::sync::Arc;

use conf::{Language, Notice, Origin, Source};
use modules::idle;
use mpm::Chosen;
use mpm::settings::MpmSettings;
use server::{Failed, Loaded, load, read_only};

use super::inputs::{ConfigSource, Inputs, ReadSources};
use crate::cli::{self, Options};
use crate::version::{self, PID_FILE};

/// A configuration that can run.
pub(crate) struct Configured {
    /// The server and what was read.
    pub(crate) loaded: Loaded,
    /// The MPM that it chooses.
    pub(crate) mpm: Chosen,
    /// What it was read from.
    pub(crate) sources: ReadSources,
}

/// Reads and resolves a configuration.
pub(crate) fn read(options: &Options, text: &ConfigSource<'_>) -> Result<Configured, Box<Failed>> {
    let (mut loaded, mpm, sources) = read_with(options, text, false)?;
    loaded.server.version = sources.given.version();
    match mpm {
        Some(mpm) => Ok(Configured { loaded, mpm, sources }),
        None => unreachable!("a configuration that loaded was checked"),
    }
}

/// Reads and resolves as much as possible and continues after each error, for a report.
pub(crate) fn read_everything(options: &Options) -> Result<Loaded, Box<Failed>> {
    // With a file that lies elsewhere, nothing else is known to be wrong.
    let (loaded, ..) = read_with(options, &ConfigSource::File, cli::misplaced(options).is_none())?;
    Ok(loaded)
}

fn read_with(
    options: &Options,
    text: &ConfigSource<'_>,
    keep_errors: bool,
) -> Result<(Loaded, Option<Chosen>, ReadSources), Box<Failed>> {
    let chosen = std::cell::Cell::new(None);
    let inputs = Inputs::of(options, text)?;
    let loaded = inputs.with(keep_errors, |language, sources| {
        load(inputs.files.clone(), language, sources, version::software, |draft, context| {
            let mpm = mpm::choose(context.language.loaded(), &options.program)?;
            if sources.file.is_some() && !draft.main.get::<MpmSettings>().pid_file.is_set() {
                let path = context.server_relative(PID_FILE);
                draft.main.edit::<MpmSettings>().pid_file.set(path, &built_in());
            }
            mpm::control::check(&draft.main)?;
            context.notices.extend(mpm.check(&draft.main, mpm::When::Start));
            context.notices.extend(idle::notice(&context.language));
            context.notices.extend(inputs.notice());
            chosen.set(Some(mpm));
            Ok(())
        })
    })?;
    let sources = inputs.read(&loaded.server.language.server_root);
    Ok((loaded, chosen.take(), sources))
}

/// Reads only enough to know the loaded modules; also returns the notices.
pub(crate) fn read_language(options: &Options) -> Result<(Language, Vec<Notice>), Box<Failed>> {
    let inputs = Inputs::of(options, &ConfigSource::File)?;
    inputs.with(false, |language, sources| read_only(inputs.files.clone(), language, sources))
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
