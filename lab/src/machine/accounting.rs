//! The source of a server's CPU time: a control group of its own, or else its process tree.
//!
//! A control group counts every process that was ever in it, ended ones included, in nanoseconds; that is what servers
//! made of many short-lived processes need. The process tree is the fallback: it sees ended processes only in ticks of
//! 10 ms, and only once another process in the tree has waited for them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::machine::cgroup::{PREFIX, directories, mounts_and_groups};
use crate::machine::error::{Context as _, Error, Result, read_text};
use crate::machine::memory_cgroup::{MemoryCgroup, MemoryEvents};
use crate::machine::procfs;

/// Ended processes leave their group a moment after they were waited for.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(2);

/// The way CPU time is measured on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// cgroup v1: `cpuacct.usage` below this directory.
    Cpuacct(PathBuf),
    /// cgroup v2: `cpu.stat` below this directory.
    Unified(PathBuf),
    /// Times of the process tree from /proc.
    ProcessTree,
}

impl Accounting {
    /// The best method that works here: tried, not guessed.
    pub(crate) fn detect() -> Self {
        let (mounts, own_groups) = mounts_and_groups();
        candidates(&mounts, &own_groups).into_iter().find(Accounting::works).unwrap_or(Self::ProcessTree)
    }

    /// What reports say about it.
    pub(crate) fn source(&self) -> CpuTimeSource {
        match self {
            Self::Cpuacct(_) => CpuTimeSource::Cpuacct,
            Self::Unified(_) => CpuTimeSource::Unified,
            Self::ProcessTree => CpuTimeSource::ProcessTree,
        }
    }

    fn works(&self) -> bool {
        self.clear_leftovers();
        let Ok(group) = self.group("probe") else {
            return false;
        };
        group.cpu(0).is_ok()
    }

    /// A new, empty group called `name`.
    pub(crate) fn group(&self, name: &str) -> Result<Group> {
        let directory = self.parent().map(|parent| parent.join(format!("{PREFIX}{}.{name}", std::process::id())));
        if let Some(directory) = &directory {
            std::fs::create_dir(directory).context(|| format!("create control group {}", directory.display()))?;
        }
        Ok(Group { accounting: self.clone(), directory, memory: None })
    }

    fn parent(&self) -> Option<&Path> {
        match self {
            Self::Cpuacct(directory) | Self::Unified(directory) => Some(directory),
            Self::ProcessTree => None,
        }
    }

    /// Removes groups of interrupted runs; the kernel refuses while anything lives in them.
    fn clear_leftovers(&self) {
        let entries = self.parent().and_then(|parent| std::fs::read_dir(parent).ok());
        for entry in entries.into_iter().flatten().flatten() {
            let owner = owner_of(&entry.file_name().to_string_lossy());
            if owner.is_some_and(|pid| procfs::stat(pid).is_none()) {
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }
}

/// The laboratory process that a group belongs to, by the group's name.
fn owner_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('.').next()?.parse().ok()
}

/// Where CPU time is read from. Results keep the text of each variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CpuTimeSource {
    #[serde(rename = "cgroup v1 cpuacct.usage, one group for each server (exact, ended processes included)")]
    Cpuacct,
    #[serde(rename = "cgroup v2 cpu.stat, one group for each server (exact, ended processes included)")]
    Unified,
    #[serde(
        rename = "schedstat, utime, stime, cutime and cstime of the process tree (coarse: what ends unnoticed is lost)"
    )]
    #[serde(alias = "utime, stime, cutime and cstime of the process tree in ticks of 10 ms (coarse)")]
    ProcessTree,
}

impl fmt::Display for CpuTimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Groups are made below our own group if that is allowed, otherwise below the root of the hierarchy.
fn candidates(mounts: &str, own_groups: &str) -> Vec<Accounting> {
    let first = directories(mounts, own_groups, "cgroup", "cpuacct").into_iter().map(Accounting::Cpuacct);
    let second = directories(mounts, own_groups, "cgroup2", "").into_iter().map(Accounting::Unified);
    first.chain(second).collect()
}

/// The processes of one server, together; dropping this removes the group.
#[derive(Debug)]
pub(crate) struct Group {
    accounting: Accounting,
    directory: Option<PathBuf>,
    memory: Option<MemoryCgroup>,
}

impl Group {
    /// Limits the group to this many bytes of memory.
    pub(crate) fn limit_memory(&mut self, name: &str, bytes: u64) -> Result<()> {
        self.memory = Some(match (&self.accounting, &self.directory) {
            (Accounting::Unified(_), Some(directory)) => MemoryCgroup::of(directory, bytes)?,
            _ => MemoryCgroup::make(name, bytes)?,
        });
        Ok(())
    }

    /// Memory events within that limit.
    pub(crate) fn memory_events(&self) -> Result<MemoryEvents> {
        self.memory.as_ref().map_or_else(|| Ok(MemoryEvents::default()), MemoryCgroup::memory_events)
    }

    /// The files to which a process writes its number in order to enter.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        self.procs().into_iter().chain(self.memory.as_ref().and_then(MemoryCgroup::entrance)).collect()
    }

    fn procs(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join("cgroup.procs"))
    }

    /// The CPU time used so far. `root` is the first process, for the case without a control group.
    pub(crate) fn cpu(&self, root: u32) -> Result<Duration> {
        match (&self.accounting, &self.directory) {
            (Accounting::Cpuacct(_), Some(directory)) => {
                let text = read_text(directory.join("cpuacct.usage"))?;
                let nanoseconds = text.trim().parse().context(|| "understand cpuacct.usage".to_owned())?;
                Ok(Duration::from_nanos(nanoseconds))
            }
            (Accounting::Unified(_), Some(directory)) => parse_cpu_stat(&read_text(directory.join("cpu.stat"))?)
                .ok_or_else(|| Error::new("cpu.stat has no usage_usec")),
            _ => Ok(procfs::tree(root).into_iter().filter_map(procfs::cpu_time).sum()),
        }
    }

    /// The living processes.
    pub(crate) fn pids(&self, root: u32) -> Vec<u32> {
        match self.procs() {
            Some(procs) => parse_pids(&std::fs::read_to_string(procs).unwrap_or_default()),
            None => procfs::tree(root),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(directory) = &self.directory else {
            return;
        };
        let deadline = Instant::now() + REMOVAL_DEADLINE;
        while std::fs::remove_dir(directory).is_err() && directory.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn parse_cpu_stat(text: &str) -> Option<Duration> {
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    usage.trim().parse().ok().map(Duration::from_micros)
}

fn parse_pids(text: &str) -> Vec<u32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
proc /proc proc rw 0 0
cgroup /cg/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup2 /cg/unified cgroup2 rw,relatime 0 0
";

    #[test]
    fn version_one_is_tried_first_and_the_own_group_before_the_root() {
        let found = candidates(MOUNTS, "4:memory:/m\n2:cpu,cpuacct:/job/7\n0::/u\n");
        let expected = [
            Accounting::Cpuacct("/cg/cpu,cpuacct/job/7".into()),
            Accounting::Cpuacct("/cg/cpu,cpuacct".into()),
            Accounting::Unified("/cg/unified/u".into()),
            Accounting::Unified("/cg/unified".into()),
        ];
        assert_eq!(found, expected);
        assert_eq!(candidates("proc /proc proc rw 0 0\n", ""), []);
    }

    #[test]
    fn groups_name_their_owner() {
        assert_eq!(owner_of("tsubame-lab.17.server"), Some(17));
        assert_eq!(owner_of("system.slice"), None);
    }

    #[test]
    fn usage_is_read_from_version_two() {
        let text = "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n";
        assert_eq!(parse_cpu_stat(text), Some(Duration::from_millis(1500)));
        assert_eq!(parse_cpu_stat("user_usec 1\n"), None);
    }

    #[test]
    fn a_process_tree_can_always_be_accounted() {
        let group = Accounting::ProcessTree.group("test").unwrap();
        let own = std::process::id();
        assert!(group.pids(own).contains(&own));
        assert!(group.cpu(own).is_ok());
    }
}
