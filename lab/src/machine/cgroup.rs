//! Where control groups can be made on this machine, and which groups a process is in.

use std::path::{Path, PathBuf};

/// The prefix of the laboratory's groups, so that those of an interrupted run can be cleaned up.
pub(crate) const PREFIX: &str = "tsubame-lab.";

/// The places where groups with a controller can be made, the best place first; version 2 has all controllers in one
/// place, and is requested with an empty name.
pub(crate) fn mounted(kind: &str, controller: &str) -> Vec<PathBuf> {
    let (mounts, own_groups) = mounts_and_groups();
    directories(&mounts, &own_groups, kind, controller)
}

/// The groups of another process, from its own up to the root of the hierarchy; named as for [`mounted`].
pub(crate) fn groups_of(pid: u32, kind: &str, controller: &str) -> Vec<PathBuf> {
    let (mounts, _) = mounts_and_groups();
    let its_groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let found = directories(&mounts, &its_groups, kind, controller);
    let Some([group, root]) = found.get(..2) else { return Vec::new() };
    group.ancestors().take_while(|directory| directory.starts_with(root)).map(Path::to_owned).collect()
}

/// The mounts of this machine, and the groups of this process.
pub(super) fn mounts_and_groups() -> (String, String) {
    let read = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
    (read("/proc/self/mounts"), read("/proc/self/cgroup"))
}

/// The group of a process, and the root of its hierarchy, for every mount with that controller.
pub(super) fn directories(mounts: &str, own_groups: &str, kind: &str, controller: &str) -> Vec<PathBuf> {
    let own = own_group(own_groups, controller).trim_start_matches('/');
    let mount_of = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, mount, kind_of_mount, options, ..] = fields[..] else {
            return None;
        };
        let has_it = controller.is_empty() || options.split(',').any(|option| option == controller);
        (kind_of_mount == kind && has_it).then(|| PathBuf::from(mount))
    };
    mounts.lines().filter_map(mount_of).flat_map(|mount| [mount.join(own), mount]).collect()
}

/// The path after `ID:controllers:` in /proc/self/cgroup; cgroup v2 is the line without controllers.
fn own_group<'a>(own_groups: &'a str, controller: &str) -> &'a str {
    own_groups
        .lines()
        .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        .find(|(controllers, _)| controllers.split(',').any(|name| name == controller))
        .map_or("", |(_, path)| path)
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
    fn a_controller_is_looked_for_where_it_is() {
        assert_eq!(directories(MOUNTS, "2:cpu,cpuacct:/a\n", "cgroup", "memory"), Vec::<PathBuf>::new());
        let own = "9:memory:/b\n2:cpu,cpuacct:/a\n";
        assert_eq!(directories("m /cg/m cgroup rw,memory 0 0\n", own, "cgroup", "memory")[0], Path::new("/cg/m/b"));
    }
}
