//! The open descriptors of a process, as /proc tells.

use sys::process::Pid;

/// What a process has open: the targets of the links below /proc/PID/fd.
pub fn of(pid: Pid) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect()
}

/// What an idle child has open and should not: connections, directories, pipes of scripts. Files that it served lately it
/// may keep.
pub fn leaks(parent: Pid, child: i32) -> Vec<String> {
    let Some(child) = Pid::new(child) else { return Vec::new() };
    let inherited = of(parent);
    let own = of(child).into_iter().filter(|target| !inherited.contains(target));
    own.filter(|target| is_leak(target)).map(|target| format!("child {child}: {target}")).collect()
}

/// A child's reactor lives on anonymous inodes and a socket pair; it has no other sockets of its own when it is idle.
fn is_leak(target: &str) -> bool {
    if let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
        return ["tcp", "tcp6"].iter().any(|table| is_in(table, inode));
    }
    let kept = std::fs::metadata(target).is_ok_and(|meta| meta.is_file()) || target.ends_with(" (deleted)");
    !kept && !target.starts_with("anon_inode:") && !target.starts_with("/dev/")
}

/// Whether a socket is in a table of the kernel (its tenth column is the inode).
fn is_in(table: &str, inode: &str) -> bool {
    let table = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    table.lines().any(|line| line.split_whitespace().nth(9) == Some(inode))
}
