//! The control group of a node, of version 1 or 2: its memory without swap, and its share of a processor.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::network::is_abandoned;
use crate::machine::cgroup::{PREFIX, mounted};
use crate::machine::error::{Error, Result, write_file};

/// How long processes may take to disappear after SIGKILL.
const END_LIMIT: Duration = Duration::from_secs(5);

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(10);

/// The kernel divides time into periods, and stops a group that has used its share until the next one. This is shorter than
/// the kernel's 100 ms, or every request would wait for so long now and then.
const PERIOD_US: u64 = 20_000;

/// How many times as much of a processor a node gets as another program that wants one at the same time, up to its share:
/// what a node can do must not depend on what else runs on the machine.
const PRECEDENCE: u64 = 10;

/// What a node has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// Memory in bytes, all of it without swap.
    pub(super) memory: u64,
    /// Percent of one processor.
    pub(super) percent: u64,
}

/// The group of a node; dropping this ends everything in it.
#[derive(Debug)]
pub(super) struct Group {
    /// One directory under version 2, one for each controller under version 1.
    directories: Vec<PathBuf>,
}

/// A file, what to write to it, and whether the group is useless without it.
type Limit = (&'static str, String, bool);

impl Group {
    /// A new group with these limits.
    pub(super) fn make(name: &str, capacity: Capacity) -> Result<Self> {
        let mut group = Self { directories: Vec::new() };
        let [memory, cpu] = first_version(capacity);
        if mounted("cgroup", "memory").is_empty() {
            group.add(&mounted("cgroup2", ""), name, &second_version(capacity))?;
        } else {
            group.add(&mounted("cgroup", "memory"), name, &memory)?;
            group.add(&mounted("cgroup", "cpu"), name, &cpu)?;
        }
        Ok(group)
    }

    /// Makes a directory in the first of `parents` in which the limits can be set.
    fn add(&mut self, parents: &[PathBuf], name: &str, limits: &[Limit]) -> Result<()> {
        let is_made = |directory: &Path| {
            let set = |(file, text, is_needed): &Limit| write_file(directory.join(file), text).is_ok() || !is_needed;
            std::fs::create_dir(directory).is_ok() && limits.iter().all(set)
        };
        for parent in parents {
            // Version 2 only; where the controllers are there already, this does nothing.
            let _ = std::fs::write(parent.join("cgroup.subtree_control"), "+memory +cpu");
            let directory = parent.join(format!("{PREFIX}{}.{name}", std::process::id()));
            if is_made(&directory) {
                self.directories.push(directory);
                return Ok(());
            }
            let _ = std::fs::remove_dir(&directory);
        }
        Err(Error::new("no control group may limit memory and processors here")
            .advise("run as root, with the controllers memory and cpu"))
    }

    /// The files to which a process writes its number in order to enter.
    pub(super) fn entrances(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// Signals all its processes.
    pub(super) fn signal(&self, signal: Signal) {
        self.directories.first().into_iter().for_each(|directory| signal_all(directory, signal));
    }

    /// Kills all its processes, and waits until there are none.
    pub(super) fn end(&self) {
        self.directories.iter().for_each(|directory| end_all(directory));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
        for directory in &self.directories {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// The limits of version 1 (Linux `cgroup-v1/memory.rst`, `sched-bwc.rst`): memory, then processors.
fn first_version(Capacity { memory, percent }: Capacity) -> [Vec<Limit>; 2] {
    let memory = vec![
        ("memory.limit_in_bytes", memory.to_string(), true),
        // Memory and swap together; not there without swap accounting.
        ("memory.memsw.limit_in_bytes", memory.to_string(), false),
    ];
    let cpu = vec![
        ("cpu.cfs_period_us", PERIOD_US.to_string(), true),
        ("cpu.cfs_quota_us", (PERIOD_US * percent / 100).to_string(), true),
        ("cpu.shares", (1024 * PRECEDENCE).to_string(), false),
    ];
    [memory, cpu]
}

/// The limits of version 2 (Linux `cgroup-v2.rst`).
fn second_version(Capacity { memory, percent }: Capacity) -> Vec<Limit> {
    vec![
        ("memory.max", memory.to_string(), true),
        ("memory.swap.max", "0".to_owned(), false),
        ("cpu.max", format!("{} {PERIOD_US}", PERIOD_US * percent / 100), true),
        ("cpu.weight", (100 * PRECEDENCE).to_string(), false),
    ]
}

fn pids(directory: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn signal_all(directory: &Path, signal: Signal) {
    for pid in pids(directory).into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn end_all(directory: &Path) {
    let deadline = Instant::now() + END_LIMIT;
    while !pids(directory).is_empty() && Instant::now() < deadline {
        signal_all(directory, Signal::KILL);
        std::thread::sleep(INTERVAL);
    }
}

/// The beginning of the names of nodes' groups.
pub(super) const NODE: &str = "fleet-node";

/// Ends what laboratories that are gone have left in their nodes' groups, and removes the groups.
pub(super) fn clear_leftovers() {
    let parents = [mounted("cgroup", "memory"), mounted("cgroup", "cpu"), mounted("cgroup2", "")].concat();
    for entry in parents.iter().filter_map(|parent| std::fs::read_dir(parent).ok()).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains(NODE) && is_abandoned(&name) {
            end_all(&entry.path());
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_have_the_same_limits() {
        let capacity = Capacity { memory: 1 << 30, percent: 45 };
        let [memory, cpu] = first_version(capacity);
        assert_eq!((memory[0].1.as_str(), memory[1].1.as_str()), ("1073741824", "1073741824"));
        assert_eq!(cpu.into_iter().map(|(_, text, _)| text).collect::<Vec<_>>(), ["20000", "9000", "10240"]);
        let texts: Vec<String> = second_version(capacity).into_iter().map(|(_, text, _)| text).collect();
        assert_eq!(texts, ["1073741824", "0", "9000 20000", "1000"]);
    }
}
