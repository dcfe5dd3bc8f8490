//! The kernel's information about processes (proc(5)): memory, age, threads, programs.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use super::pid::Pid;

/// The private resident memory of a process, in bytes: heap and stacks, without files and shared memory. Pages still
/// shared with the process it was forked from count (`RssAnon` in proc(5)).
pub fn anonymous_memory(pid: Pid) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let mut pages = text.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok()).skip(1);
    let (Some(resident), Some(shared)) = (pages.next(), pages.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// How long the first thread of a process has run on a processor, or waited for a free one (`schedstat` in proc(5)).
pub fn occupied(pid: Pid) -> io::Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let times = text.split_ascii_whitespace().take(2).map_while(|word| word.parse::<u64>().ok());
    Ok(Duration::from_nanos(times.sum()))
}

/// The start of a process, in clock ticks since the machine's (field 22 of `/proc/PID/stat`); `Ok(None)`: it has ended,
/// though perhaps nobody has reaped it yet.
pub fn started(pid: Pid) -> io::Result<Option<u64>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return Ok(None);
    }
    // The state is field 3.
    fields.nth(18).and_then(|field| field.parse().ok()).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The current time, in the unit of [`started`].
pub fn ticks() -> u64 {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (since_boot.tv_sec.unsigned_abs(), since_boot.tv_nsec.unsigned_abs());
    let per_second = rustix::param::clock_ticks_per_second();
    seconds * per_second + nanos * per_second / 1_000_000_000
}

/// Whether the process of this number was already there at `moment` ([`ticks`]), or started within a second after it. A
/// later process has merely reused the number.
pub fn is_there_since(pid: Pid, moment: u64) -> bool {
    match started(pid) {
        Ok(started) => started.is_some_and(|started| started <= moment + rustix::param::clock_ticks_per_second()),
        // The system does not show the start.
        Err(_) => pid.exists(),
    }
}

/// A thread, as the kernel sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// `R` runs, `S` sleeps, `D` waits for a device, `T` is stopped (proc(5)).
    pub state: char,
    /// The system call that it waits in, if we are allowed to see it.
    pub call: Option<&'static str>,
}

/// System calls in which the threads of servers typically wait.
const CALLS: [(libc::c_long, &str); 18] = [
    (libc::SYS_futex, "futex"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_epoll_pwait, "epoll_wait"),
    (libc::SYS_epoll_pwait2, "epoll_wait"),
    (libc::SYS_read, "read"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_recvfrom, "recv"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_sendto, "send"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_sendfile, "sendfile"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_openat, "open"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_wait4, "wait"),
];
/// Older calls that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: [(libc::c_long, &str); 4] = [
    (libc::SYS_poll, "poll"),
    (libc::SYS_epoll_wait, "epoll_wait"),
    (libc::SYS_stat, "stat"),
    (libc::SYS_lstat, "lstat"),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: [(libc::c_long, &str); 0] = [];

/// The threads of a process; none if it is gone.
pub fn threads(pid: Pid) -> Vec<Thread> {
    let directory = format!("/proc/{pid}/task");
    let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let mut threads: Vec<Thread> = entries
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("{directory}/{id}/stat")).ok()?;
            let state = stat.rsplit_once(") ")?.1.chars().next()?;
            let call = std::fs::read_to_string(format!("{directory}/{id}/syscall")).ok();
            let number = call.as_deref().and_then(|call| call.split(' ').next()?.trim().parse().ok());
            let known = |number| CALLS.iter().chain(&OLD_CALLS).find(|(known, _)| *known == number);
            Some(Thread { id, state, call: number.and_then(known).map(|(_, name)| *name) })
        })
        .collect();
    threads.sort_by_key(|thread| thread.id);
    threads
}

/// The file that a process runs, under the name it had at the start. `None`: the process is gone, or we may not see it.
pub fn program_file(pid: Pid) -> Option<PathBuf> {
    let name = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?.into_os_string().into_vec();
    // proc(5): the suffix after the name of a file that was removed.
    let name = name.strip_suffix(b" (deleted)").unwrap_or(&name);
    Some(OsStr::from_bytes(name).into())
}

/// [`anonymous_memory`] of a process and all its descendants.
pub fn tree_memory(pid: Pid) -> io::Result<u64> {
    let mut all = anonymous_memory(pid)?;
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        // A process that has ended meanwhile has no memory. One whose parent has ended has moved to another.
        let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        let children = text.split_ascii_whitespace().filter_map(|word| word.parse().ok().and_then(Pid::new));
        for child in children {
            all += anonymous_memory(child).unwrap_or(0);
            parents.push(child);
        }
    }
    Ok(all)
}
