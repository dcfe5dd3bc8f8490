//! The memory of a server, and of its machine or control group.

use std::path::Path;

use serde::Serialize;

use crate::machine::cgroup;
use crate::machine::listener::Listener;
use crate::machine::procfs;

/// Proportional memory of a server's processes at one moment, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsedMemory {
    /// The memory of the children that serve, without the parent.
    pub(crate) children: u64,
    /// How many children those are.
    pub(crate) count: u64,
    /// The memory of all other processes they started: scripts and their backends.
    pub(crate) scripts: u64,
}

impl UsedMemory {
    /// Reads /proc; `None` if that is forbidden.
    pub(crate) fn of(server: &Listener) -> Option<Self> {
        let program = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let own = program(*server.roots().first()?);
        let below: Vec<u32> = server.processes().into_iter().filter(|pid| !server.roots().contains(pid)).collect();
        let (children, scripts): (Vec<u32>, Vec<u32>) = below.into_iter().partition(|pid| program(*pid) == own);
        Some(Self {
            children: procfs::pss_kib(&children).ok()?,
            count: children.len() as u64,
            scripts: procfs::pss_kib(&scripts).ok()?,
        })
    }

    /// The maximum of each, over two moments.
    pub(crate) fn most(self, other: Self) -> Self {
        let children = if other.children > self.children { other } else { self };
        Self { scripts: self.scripts.max(other.scripts), ..children }
    }
}

/// The share not given to workers: a tenth of the memory, for other programs and files.
const RESERVE: u64 = 10;

/// The memory available to a server, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AvailableMemory {
    /// The machine's total, or the control group's limit if that is smaller.
    pub(crate) all: u64,
    /// The part still available to programs, without swapping.
    pub(crate) left: u64,
    /// Whether the limit is that of a control group.
    pub(crate) is_group: bool,
}

impl AvailableMemory {
    /// The most memory that a server now using `used` may have, in KiB: without the reserve.
    pub(crate) fn usable(self, used: u64) -> u64 {
        (self.left + used).min(self.all).saturating_sub(self.all / RESERVE)
    }

    /// The narrowest of the machine and the groups that the process is in.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let (all, left) = procfs::memory_kib()?;
        let second = cgroup::groups_of(pid, "cgroup2", "");
        let second = second.iter().filter_map(|group| limited(group, "memory.max", "memory.current", "inactive_file"));
        let first = cgroup::groups_of(pid, "cgroup", "memory");
        let first = first.iter().filter_map(|group| {
            limited(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        });
        let machine = Self { all, left, is_group: false };
        // Version 1 writes "no limit" as a huge number, beyond any machine.
        let groups = second.chain(first).filter(|group| group.all < all);
        groups.chain([machine]).min_by_key(|room| room.left)
    }
}

/// A group with a limit. Files it has not used recently are memory it can reclaim.
fn limited(group: &Path, limit: &str, used: &str, unused_files: &str) -> Option<AvailableMemory> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let kib = |text: &str| Some(text.trim().parse::<u64>().ok()? / 1024);
    let all = kib(&read(limit)?)?;
    let stat = read("memory.stat").unwrap_or_default();
    let files = stat.lines().filter_map(|line| line.split_once(' ')).find(|(name, _)| *name == unused_files);
    let files = files.and_then(|(_, bytes)| kib(bytes)).unwrap_or(0);
    Some(AvailableMemory { all, left: all.saturating_sub(kib(&read(used)?)?.saturating_sub(files)), is_group: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_what_its_limit_leaves() {
        let directory = std::env::temp_dir().join(format!("tsubame-lab-room-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
        write("memory.current", "3145728\n");
        write("memory.stat", "anon 7\ninactive_file 1048576\n");
        let room = || limited(&directory, "memory.max", "memory.current", "inactive_file");
        write("memory.max", "max\n");
        assert_eq!(room(), None);
        write("memory.max", "8388608\n");
        assert_eq!(room(), Some(AvailableMemory { all: 8192, left: 6144, is_group: true }));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn this_machine_has_memory() {
        let room = AvailableMemory::of(std::process::id()).unwrap();
        assert!(room.left > 0 && room.left <= room.all, "{room:?}");
    }
}
