//! A control group with little memory, and its memory events.

use std::path::{Path, PathBuf};

use crate::machine::cgroup::{PREFIX, mounted};
use crate::machine::error::{Context as _, Error, Result, read_text, write_file};

/// A group whose processes together may use this much memory, and any amount of swap.
#[derive(Debug)]
pub(crate) struct MemoryCgroup {
    directory: PathBuf,
    files: &'static Files,
    /// Whether we made it, and have to remove it.
    own: bool,
}

/// The kernel's names.
#[derive(Debug)]
struct Files {
    limit: &'static str,
    peak: &'static str,
    /// The counter of attempts to exceed the limit: a file, and a line in it if it has several.
    at_limit: (&'static str, &'static str),
    oom_kills: (&'static str, &'static str),
    major_faults: (&'static str, &'static str),
}

/// cgroup v1 (Linux `cgroup-v1/memory.rst`).
static FIRST: Files = Files {
    limit: "memory.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    at_limit: ("memory.failcnt", ""),
    oom_kills: ("memory.oom_control", "oom_kill"),
    major_faults: ("memory.stat", "total_pgmajfault"),
};

/// cgroup v2 (Linux `cgroup-v2.rst`).
static SECOND: Files = Files {
    limit: "memory.max",
    peak: "memory.peak",
    at_limit: ("memory.events", "max"),
    oom_kills: ("memory.events", "oom_kill"),
    major_faults: ("memory.stat", "pgmajfault"),
};

/// The events in a group since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryEvents {
    /// How often its processes wanted more memory than there was.
    pub(crate) at_limit: u64,
    /// Processes that the kernel killed for lack of memory.
    pub(crate) oom_kills: u64,
    /// Pages that had to be read from disk.
    pub(crate) major_faults: u64,
    /// The most memory that was in use, in KiB.
    pub(crate) peak_kib: u64,
}

impl MemoryCgroup {
    /// A new group of version 1, in the hierarchy with the memory controller.
    pub(crate) fn make(name: &str, bytes: u64) -> Result<Self> {
        let absent =
            || Error::new("no control group may limit memory here").advise("run as root, with the memory controller");
        let parents = mounted("cgroup", "memory");
        let made = parents.into_iter().find_map(|parent| {
            let directory = parent.join(format!("{PREFIX}{}.{name}", std::process::id()));
            std::fs::create_dir(&directory).ok().map(|()| directory)
        });
        Self { directory: made.ok_or_else(absent)?, files: &FIRST, own: true }.limited(bytes)
    }

    /// An existing group of version 2, which has all controllers.
    pub(crate) fn of(directory: &Path, bytes: u64) -> Result<Self> {
        if let Some(parent) = directory.parent() {
            // If the controller was already enabled this fails, which does no harm.
            let _ = write_file(parent.join("cgroup.subtree_control"), "+memory");
        }
        Self { directory: directory.to_owned(), files: &SECOND, own: false }.limited(bytes)
    }

    fn limited(self, bytes: u64) -> Result<Self> {
        write_file(self.directory.join(self.files.limit), bytes.to_string()).map(|()| self)
    }

    /// The file to which a process writes its number in order to enter, if it is a separate group.
    pub(crate) fn entrance(&self) -> Option<PathBuf> {
        self.own.then(|| self.directory.join("cgroup.procs"))
    }

    /// The events so far.
    pub(crate) fn memory_events(&self) -> Result<MemoryEvents> {
        let read = |(file, line): (&str, &str)| number(&read_text(self.directory.join(file))?, file, line);
        Ok(MemoryEvents {
            at_limit: read(self.files.at_limit)?,
            oom_kills: read(self.files.oom_kills)?,
            major_faults: read(self.files.major_faults)?,
            // Kernels before 6 do not show it in version 2.
            peak_kib: read((self.files.peak, "")).unwrap_or(0) / 1024,
        })
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        if self.own {
            let _ = std::fs::remove_dir(&self.directory);
        }
    }
}

/// The only number in a file, or the one after the first word of one of its lines.
fn number(text: &str, file: &str, line: &str) -> Result<u64> {
    let found = match line {
        "" => Some(text),
        _ => text.lines().find_map(|each| each.strip_prefix(line)?.strip_prefix(' ')),
    };
    let found = found.ok_or_else(|| Error::new(format!("{file} has no line {line}")))?;
    found.trim().parse().context(|| format!("understand {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::scratch::Scratch;

    #[test]
    fn numbers_are_found_in_both_kinds_of_files() {
        assert_eq!(number("17\n", "memory.failcnt", "").unwrap(), 17);
        let text = "low 0\nmax 5\noom 1\noom_kill 3\n";
        assert_eq!(number(text, "memory.events", "oom_kill").unwrap(), 3);
        assert_eq!(number(text, "memory.events", "oom").unwrap(), 1);
        assert!(number(text, "memory.events", "high").is_err());
    }

    #[test]
    fn both_versions_tell_the_same() {
        let scratch = Scratch::for_test("memory-cgroup");
        let texts = [
            ("memory.failcnt", "7\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("memory.max_usage_in_bytes", "2048\n"),
            ("memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\n"),
            ("memory.peak", "2048\n"),
            ("memory.stat", "pgmajfault 5\ntotal_pgmajfault 5\n"),
        ];
        for (name, text) in texts {
            write_file(scratch.path().join(name), text).unwrap();
        }
        for files in [&FIRST, &SECOND] {
            let group = MemoryCgroup { directory: scratch.path().to_owned(), files, own: false };
            let expected = MemoryEvents { at_limit: 7, oom_kills: 2, major_faults: 5, peak_kib: 2 };
            assert_eq!(group.limited(1 << 30).unwrap().memory_events().unwrap(), expected);
            assert_eq!(std::fs::read_to_string(scratch.path().join(files.limit)).unwrap(), "1073741824");
        }
    }
}
