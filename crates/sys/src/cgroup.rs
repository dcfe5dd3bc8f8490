//! Control groups: where the limits of this process are (cgroups(7)).

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// A control group around this process: its own, or one above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The directory with its files.
    pub directory: PathBuf,
    /// Whether it belongs to version 2, whose files have other names.
    pub is_unified: bool,
}

impl Group {
    /// The file with the limit of its memory.
    pub fn memory_limit(&self) -> PathBuf {
        self.directory.join(if self.is_unified { "memory.max" } else { "memory.limit_in_bytes" })
    }
}

/// The groups of this process for a controller (`memory`, `pids`), from its own up to the root. None where the system
/// has no groups.
pub fn groups(controller: &str) -> Vec<Group> {
    groups_of(&read_to_string("/proc/self/cgroup").unwrap_or_default(), Path::new("/sys/fs/cgroup"), controller)
}

/// The groups that a text such as `/proc/self/cgroup` names, below the directory where groups are mounted. Lines are
/// `NUMBER:CONTROLLERS:PATH`; version 2 has an empty middle.
pub fn groups_of(own: &str, mount: &Path, controller: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => mount.to_path_buf(),
            _ if controllers.split(',').any(|name| name == controller) => mount.join(controller),
            _ => continue,
        };
        let own = root.join(path.trim_start_matches('/'));
        // Inside a container the path may be one of the outside; then the mounted group is its own.
        let own = if own.is_dir() { own } else { root.clone() };
        let up = own.ancestors().take_while(|directory| directory.starts_with(&root));
        let is_unified = controllers.is_empty();
        found.extend(up.map(|directory| Group { directory: directory.to_path_buf(), is_unified }));
    }
    found
}

/// The number in a file of a group. `None`: the file does not exist, or says `max`.
pub fn number(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}
