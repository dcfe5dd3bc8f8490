//! The files of a log: the one that is written now, and those that logrotate, rotatelogs or cronolog put aside.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::fmt::strtime::BrokenDownTime;

use crate::machine::error::{Error, Result};

/// What programs that compress append to a name.
const COMPRESSED: [&str; 7] = [".gz", ".xz", ".bz2", ".zst", ".zstd", ".lzma", ".Z"];

/// The longest number that counts rotations; a longer one is a date, or seconds since 1970.
const COUNT_DIGITS: usize = 5;

/// When a file was put aside, oldest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    /// The digits of a date: `access.log-20261129`, `access.log.1700000000`.
    Dated(String),
    /// `access.log.2` is older than `access.log.1`.
    Counted(Reverse<u32>),
    /// The log itself.
    Current,
}

/// The files of a log, oldest first. The path may be a pattern of strftime: `/var/log/access.%Y%m%d.log`.
pub(crate) fn files_of(log: &Path) -> Result<Vec<PathBuf>> {
    let is_pattern = log.to_string_lossy().contains('%');
    let files = if is_pattern { matching(log)? } else { rotated(log)? };
    if !files.is_empty() {
        return Ok(files);
    }
    let why = match log.exists() {
        true => format!("{} is not a file: what was logged there cannot be read back", log.display()),
        false => format!("there is no log {}, and none that was rotated", log.display()),
    };
    Err(Error::new(why).advise("name a file that holds the log"))
}

/// A log and its siblings.
fn rotated(log: &Path) -> Result<Vec<PathBuf>> {
    let Some(base) = log.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let mut files = BTreeMap::new();
    for path in entries(log.parent().unwrap_or(Path::new("")))? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let plain = uncompressed(name).to_owned();
        let is_plain = name == plain;
        let Some(age) = age(base, &plain).filter(|_| path.is_file()) else { continue };
        let known = files.entry((age, plain)).or_insert_with(|| path.clone());
        // While a file is being compressed, only the original is whole.
        if is_plain {
            *known = path;
        }
    }
    Ok(files.into_values().collect())
}

/// How old a file is by its name, if it belongs to the log of the name `base`: `access.log.1`, or `access.1.log` if
/// logrotate keeps the extension.
fn age(base: &str, name: &str) -> Option<Age> {
    if name == base {
        return Some(Age::Current);
    }
    let inner = || {
        let (stem, extension) = base.rsplit_once('.')?;
        name.strip_prefix(stem)?.strip_suffix(extension)?.strip_suffix('.')
    };
    name.strip_prefix(base).and_then(age_of_suffix).or_else(|| age_of_suffix(inner()?))
}

/// The age that a suffix means: `.1`, `-20261129`, `.2026-11-29_00:00`.
fn age_of_suffix(suffix: &str) -> Option<Age> {
    let stamp = suffix.strip_prefix(['.', '-', '_'])?;
    let is_part = |char: char| char.is_ascii_digit() || matches!(char, '-' | '_' | '.' | ':');
    let is_stamp = stamp.starts_with(|char: char| char.is_ascii_digit()) && stamp.chars().all(is_part);
    match stamp.parse() {
        _ if !is_stamp => None,
        Ok(count) if stamp.len() <= COUNT_DIGITS => Some(Age::Counted(Reverse(count))),
        _ => Some(Age::Dated(stamp.chars().filter(char::is_ascii_digit).collect())),
    }
}

/// The files whose paths match a pattern of strftime, and those among them that were compressed.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    let mut is_behind_pattern = false;
    let mut components = pattern.iter().peekable();
    while let Some(component) = components.next() {
        let component = component.to_string_lossy();
        let is_pattern = component.contains('%');
        let matches = |entry: &PathBuf| {
            let name = entry.file_name().and_then(|name| name.to_str()).map(uncompressed);
            name.is_some_and(|name| name == component || is_pattern && BrokenDownTime::parse(&*component, name).is_ok())
        };
        let mut longer = Vec::new();
        for path in found {
            match is_pattern || components.peek().is_none() {
                // Not everything that looks like a year has logs in it.
                true if is_behind_pattern && !path.is_dir() => {}
                true => longer.extend(entries(&path)?.into_iter().filter(matches)),
                false => longer.push(path.join(&*component)),
            }
        }
        is_behind_pattern |= is_pattern;
        found = longer;
    }
    found.retain(|path| path.is_file());
    // While a file is being compressed, only the original is whole.
    let originals: HashSet<PathBuf> = found.iter().cloned().collect();
    found.retain(|path| {
        let plain = path.to_str().map(uncompressed).map(Path::new);
        plain.is_none_or(|plain| plain == path || !originals.contains(plain))
    });
    found.sort_by_cached_key(|path| (told_time(pattern, path), changed(path), path.clone()));
    Ok(found)
}

/// What a path tells of its time, from years to seconds. A pattern need not have all of them.
fn told_time(pattern: &Path, path: &Path) -> [Option<i64>; 8] {
    let path = path.to_string_lossy();
    let told = BrokenDownTime::parse(&*pattern.to_string_lossy(), uncompressed(&path)).unwrap_or_default();
    [
        told.timestamp().map(|time| time.as_second()),
        told.year().map(i64::from),
        told.month().map(i64::from),
        told.day_of_year().map(i64::from),
        told.day().map(i64::from),
        told.hour().map(i64::from),
        told.minute().map(i64::from),
        told.second().map(i64::from),
    ]
}

/// When a file was last written.
fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

/// The paths of a directory's files and directories. Other things, such as sockets, are no logs.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let failed = |error| {
        Error::new(format!("cannot look for logs in {}: {error}", here.display()))
            .advise("run the laboratory as a user that may read the logs, such as root or a member of the group adm")
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(here).map_err(failed)? {
        paths.push(directory.join(entry.map_err(failed)?.file_name()));
    }
    paths.retain(|path| path.is_file() || path.is_dir());
    Ok(paths)
}

/// A name without what tells that it is compressed.
fn uncompressed(name: &str) -> &str {
    COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::scratch::Scratch;

    /// Makes these files, and tells those of the log.
    fn listed(test: &str, files: &[&str], log: &str) -> Vec<String> {
        let scratch = Scratch::for_test(test);
        for file in files {
            let path = scratch.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = files_of(&scratch.path().join(log)).unwrap();
        found.iter().map(|path| path.strip_prefix(scratch.path()).unwrap().display().to_string()).collect()
    }

    #[test]
    fn counted_files_come_in_order() {
        let files = [
            "a.log",
            "a.log.1",
            "a.log.10.gz",
            "a.log.2",
            "a.log.2.gz",
            "a.log.3.zst",
            "b.log.1",
            "a.log.bak",
            "a.log.1x",
        ];
        let expected = ["a.log.10.gz", "a.log.3.zst", "a.log.2", "a.log.1", "a.log"];
        assert_eq!(listed("counted", &files, "a.log"), expected);
    }

    #[test]
    fn dated_files_come_in_order() {
        let files = ["a.log", "a.log-20261129", "a.log-20261128.gz", "a.log-20261101.xz", "a.log-", "a.log.d/x"];
        let expected = ["a.log-20261101.xz", "a.log-20261128.gz", "a.log-20261129", "a.log"];
        assert_eq!(listed("dated", &files, "a.log"), expected);
        assert_eq!(
            listed("epoch", &["a.1700086400", "a.1700000000.bz2", "ab.17"], "a"),
            ["a.1700000000.bz2", "a.1700086400"]
        );
    }

    #[test]
    fn the_extension_may_come_last() {
        let files = ["a.log", "a.1.log", "a-20261128.log.gz", "a.log.2", "a.other.log"];
        assert_eq!(listed("extension", &files, "a.log"), ["a-20261128.log.gz", "a.log.2", "a.1.log", "a.log"]);
    }

    #[test]
    fn patterns_find_their_files() {
        let files =
            ["a.20261201.log", "a.20261130.log.gz", "a.20260101.log", "a.x.log", "a.20261301.log", "b.20260101.log"];
        let expected = ["a.20260101.log", "a.20261130.log.gz", "a.20261201.log"];
        assert_eq!(listed("pattern", &files, "a.%Y%m%d.log"), expected);
        let files = [
            "2026/01/31/a.log",
            "2025/12/01/a.log",
            "2026/01/04/a.log.gz",
            "2026/01/04/a.log",
            "2024/12/31/a.log.xz",
            "x/01/01/a.log",
        ];
        let expected = ["2024/12/31/a.log.xz", "2025/12/01/a.log", "2026/01/04/a.log", "2026/01/31/a.log"];
        assert_eq!(listed("directories", &files, "%Y/%m/%d/a.log"), expected);
        assert_eq!(listed("others", &["2025", "2024/x", "2026/logs/a.log"], "%Y/logs/a.log"), ["2026/logs/a.log"]);
        assert_eq!(
            listed("reversed", &["a.01-12-2026", "a.02-11-2026"], "a.%d-%m-%Y"),
            ["a.02-11-2026", "a.01-12-2026"]
        );
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let scratch = Scratch::for_test("absent");
        let error = |log: &str| files_of(&scratch.path().join(log)).unwrap_err().to_string();
        assert!(error("a.log").contains("there is no log"));
        assert!(error("none/a.log").contains("cannot look for logs"));
        assert!(error("%Y.log").contains("there is no log"));
        assert!(files_of(Path::new("/dev/null")).unwrap_err().to_string().contains("is not a file"));
    }
}
