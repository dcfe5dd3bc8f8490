//! Reads the lines of several logs, with what was rotated.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use super::file::{Counts, Step, read};
use super::format::LogFormat;
use super::guess::{Guess, guess};
use super::logged::Logged;
use super::rotation::files_of;
use crate::machine::error::{Error, Result};
use crate::machine::interrupt;
use crate::screen::progress;
use crate::screen::text::grouped;

/// A log to read.
#[derive(Debug)]
pub(crate) struct Log {
    /// The number of the site that the log belongs to, 0 if that is nobody's own.
    pub(crate) site: usize,
    /// The host of lines that name none.
    pub(crate) host: Option<String>,
    pub(crate) path: PathBuf,
    /// None: the format is guessed.
    pub(crate) format: Option<LogFormat>,
    /// The administrator has named the log, so the log has to be there; one of the configuration may not have begun yet.
    pub(crate) is_named: bool,
}

/// A line of a log.
#[derive(Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) log: &'e Log,
    /// The number of the log.
    pub(crate) number: usize,
    /// The number of the file among all files of all logs.
    pub(crate) file: usize,
    /// The number of the line in that file, from 1.
    pub(crate) line: u64,
    pub(crate) text: &'e [u8],
    pub(crate) logged: Logged<'e>,
}

/// Hands out all lines of the files that are wanted, and returns the files in the order of their numbers. What cannot be read is noted.
///
/// # Errors
/// A log that the administrator has named is not there, or its format is not known; Ctrl-C was pressed.
pub(crate) fn read_logs(
    logs: &[Log],
    is_wanted: &dyn Fn(&Path) -> bool,
    notes: &mut Vec<String>,
    take: &mut dyn FnMut(Entry<'_>),
) -> Result<Vec<PathBuf>> {
    let mut found: Vec<(usize, &Log, PathBuf)> = Vec::new();
    for (number, log) in logs.iter().enumerate() {
        match files_of(&log.path) {
            Ok(files) => {
                found.extend(files.into_iter().filter(|file| is_wanted(file)).map(|file| (number, log, file)));
            }
            Err(error) if log.is_named => return Err(error),
            Err(error) => notes.push(error.to_string()),
        }
    }
    let size = |path: &PathBuf| path.metadata().map_or(0, |meta| meta.len());
    let bytes: u64 = found.iter().map(|(_, _, file)| size(file)).sum();
    let bar = progress::bar(usize::try_from(bytes).unwrap_or(usize::MAX));
    if !found.is_empty() {
        progress::announce(&bar, "reading the access logs");
    }
    for (file, (number, log, path)) in found.iter().enumerate() {
        let mut take =
            |line: u64, text: &[u8], logged: Logged<'_>| take(Entry { log, number: *number, file, line, text, logged });
        read_file(log, path, &bar, notes, &mut take)?;
    }
    bar.finish_and_clear();
    Ok(found.into_iter().map(|(_, _, file)| file).collect())
}

fn read_file(
    log: &Log,
    path: &Path,
    bar: &ProgressBar,
    notes: &mut Vec<String>,
    take: &mut dyn FnMut(u64, &[u8], Logged<'_>),
) -> Result<()> {
    let guessed;
    let shown = path.display();
    let format = match &log.format {
        Some(format) => format,
        None => match format_of(path)? {
            Some(Guess { name, text, format }) => {
                notes.push(format!("{shown} is read as {name}: {text}"));
                guessed = format;
                &guessed
            }
            None if path.metadata().is_ok_and(|meta| meta.len() == 0) => return Ok(()),
            None => return Err(Error::new(format!("{shown} has no format that is known"))),
        },
    };
    let begun = bar.position();
    let mut progress = |bytes: u64| {
        bar.set_position(begun + bytes);
        interrupt::check()
    };
    let counts = read(path, &mut progress, &mut |line, text| match format.read(text) {
        Some(logged) => {
            take(line, text, logged);
            Step::Read
        }
        None => Step::Unreadable,
    });
    match counts {
        Ok(Counts { lines, first_unreadable, unreadable, too_long }) => {
            let share = format!("{} of {}", grouped(unreadable as f64), grouped(lines as f64));
            notes.extend(
                first_unreadable
                    .map(|first| format!("{shown}: {share} lines are not of its format; the first is {first}")),
            );
            notes.extend((too_long > 0).then(|| format!("{shown}: {too_long} lines are longer than 64 KiB")));
        }
        Err(error) if interrupt::is_asked() => return Err(error),
        // One file that cannot be read is no reason to read none.
        Err(error) => notes.push(error.to_string()),
    }
    Ok(())
}

/// The format of a log that was named without one.
pub(crate) fn format_of(path: &Path) -> Result<Option<Guess>> {
    const LINES: usize = 200;
    let mut lines: Vec<Vec<u8>> = Vec::new();
    read(path, &mut |_| Ok(()), &mut |_, line| {
        lines.push(line.to_vec());
        if lines.len() < LINES { Step::Read } else { Step::Enough }
    })?;
    Ok(guess(lines.iter().map(Vec::as_slice)))
}
