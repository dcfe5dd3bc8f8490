//! Prints the notices about a configuration, and the reasons why one cannot run.

use std::process::ExitCode;

use conf::{Level, Notice, Origin};
use server::Failed;

use super::explanation;
use crate::cli::{self, Options};
use crate::config::{self, ConfigSource, Configured};
use crate::messages::print;
use crate::style::Style;

/// Writes the notices about the configuration to standard error, or to the `-E` file.
pub(crate) fn notices<'a>(options: &Options, notices: impl IntoIterator<Item = &'a Notice>) {
    let level = options.level.unwrap_or(Level::Warn);
    for notice in notices {
        if notice.level <= level || notice.level == Level::Notice {
            print(options, &line(notice));
        }
    }
}

/// A notice as Apache prints it before its log is open.
fn line(notice: &Notice) -> String {
    if notice.bare {
        return notice.text.clone();
    }
    let format = server::log::Format::standard();
    format.bare_line(notice.module, notice.level, &notice.text)
}

/// Reads a configuration and writes its notices. `Err`: it cannot run, and the reason was reported.
pub(crate) fn read(options: &Options, source: &ConfigSource<'_>) -> Result<Configured, ExitCode> {
    let configured = config::read(options, source).map_err(|failed| {
        failure(options, &failed);
        ExitCode::FAILURE
    })?;
    notices(options, &configured.loaded.notices);
    Ok(configured)
}

/// Reports why a configuration cannot run.
pub(crate) fn failure(options: &Options, failed: &Failed) {
    // Files that include each other are read repeatedly and repeat their notices.
    let repeats = |notice: &&Notice| notice.origin.as_ref().is_some_and(Origin::repeats);
    notices(options, failed.notices.iter().filter(|notice| !repeats(notice)));
    print(
        options,
        explanation::of(&failed.error, &failed.into(), &options.program, style(options)).trim_end_matches('\n'),
    );
    cli::misplaced(options).iter().for_each(|advice| print(options, &explanation::note(&format!("help: {advice}"))));
}

/// Reports the other errors of a configuration; the first was reported already.
pub(crate) fn other_errors(options: &Options, failed: &Failed) {
    if let Some(text) =
        explanation::of_others(&config::read_everything(options), &failed.error, &options.program, style(options))
    {
        print(options, text.trim_end_matches('\n'));
    }
}

/// The style for the output of [`print`](fn@print).
fn style(options: &Options) -> Style {
    if options.errors.is_some() { Style(false) } else { Style::of_errors() }
}
