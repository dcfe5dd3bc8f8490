//! How many scripts there is room for, however little memory they need: processes and pipes run out too.
//!
//! proc(5) `/proc/sys/fs/pipe-user-pages-soft`, `/proc/sys/kernel/pid_max` and `threads-max`; Linux `cgroup-v1/pids.rst`,
//! `cgroup-v2.rst`; getrlimit(2) `RLIMIT_NPROC`.

use std::path::Path;

use sys::cgroup;
use sys::rlimit::{self, Limit};

/// A script has three pipes, and a pipe has sixteen pages. A user over the system's soft limit gets smaller pipes from
/// then on, which all programs of that user feel.
const PAGES: u64 = 3 * 16;
/// How many processes a script is assumed to be: a shell and its commands.
const PROCESSES: u64 = 4;
/// The reserve for everybody else: a fraction of all pages, and of all processes.
const PAGES_RESERVE: u64 = 16;
const PROCESSES_RESERVE: u64 = 4;

/// How many scripts may run at once on this system. A limit that the system does not tell is not the tightest one.
pub(super) fn most_scripts() -> u64 {
    let kernel = |name: &str| cgroup::number(&Path::new("/proc/sys").join(name));
    let groups = cgroup::groups("pids").into_iter();
    let groups = groups.filter_map(|group| cgroup::number(&group.directory.join("pids.max")));
    let machine = [kernel("kernel/pid_max"), kernel("kernel/threads-max"), rlimit::get(Limit::Processes).soft];
    // 0 is no limit.
    let pages = kernel("fs/pipe-user-pages-soft").filter(|pages| *pages > 0);
    most(pages, groups.chain(machine.into_iter().flatten()).min())
}

fn most(pages: Option<u64>, processes: Option<u64>) -> u64 {
    let by_pipes = pages.map(|pages| (pages - pages / PAGES_RESERVE) / PAGES);
    let by_processes = processes.map(|processes| (processes - processes / PROCESSES_RESERVE) / PROCESSES);
    by_pipes.into_iter().chain(by_processes).min().unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_resource_decides() {
        assert_eq!(most(Some(16384), Some(32768)), 320);
        assert_eq!(most(Some(16384), Some(512)), 96);
        assert_eq!(most(None, Some(32768)), 6144);
        assert_eq!((most(None, None), most(Some(1), Some(1))), (u64::MAX, 1));
        assert!(most_scripts() > 0);
    }
}
