//! Processes: forking, reaping, names.

mod pid;
mod seen;

use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process as rx;

use crate::last_os_error;
use crate::signal::Signal;
use crate::time::from_timeval;

pub use pid::Pid;
pub use seen::{
    Thread, anonymous_memory, is_there_since, occupied, program_file, started, threads, ticks, tree_memory,
};

/// The side of a [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The old process; the new one has this number.
    Parent(Pid),
    /// The new process.
    Child,
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// The number of forks between the first process and this one. Code that remembers the number can tell whether a value
/// was made in its own process or copied into it.
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Forks this process. Refused (`Unsupported`) if it has a second thread: the copy would have only one of them, and the
/// other's locks would stay locked.
pub fn fork() -> io::Result<Fork> {
    // The directory has a link for each thread beside its own two. Listing it would use memory, and the parent's
    // changes to memory between two forks are not shared with the earlier child.
    if rustix::fs::stat("/proc/self/task")?.st_nlink > 3 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "fork from a process with threads"));
    }
    // SAFETY: the process has one thread (just checked, and no other could start one), so the child inherits a
    // consistent state.
    match unsafe { libc::fork() } {
        0 => {
            FORKS.fetch_add(1, Ordering::Relaxed);
            Ok(Fork::Child)
        }
        pid => Pid::new(pid).map(Fork::Parent).map_or_else(last_os_error, Ok),
    }
}

/// Makes the kernel end this process, and those that it starts from now on, before others when memory runs out: by this
/// many thousandths of all memory earlier (`oom_score_adj` in proc(5)). Everybody may, up to the most there is, as long as
/// the process has not changed its user.
pub fn expose_to_shortage(more: i32) -> io::Result<()> {
    const FILE: &str = "/proc/self/oom_score_adj";
    const MOST: i32 = 1000;
    let own: i32 = std::fs::read_to_string(FILE)?.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
    std::fs::write(FILE, own.saturating_add(more).min(MOST).to_string())
}

/// A descriptor that can be read once a child of ours has ended (pidfd_open(2)).
pub fn end_of(pid: Pid) -> io::Result<OwnedFd> {
    Ok(rx::pidfd_open(pid.0, rx::PidfdFlags::NONBLOCK)?)
}

/// The processor time that a process has used so far, without that of its children. `None`: there is no such process.
pub fn processor_time(pid: Pid) -> Option<Duration> {
    // The clock of another process is its number, negated, combined with the kind of clock (clock_getcpuclockid(3)).
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls fill their results and keep no pointer.
    let told = unsafe {
        libc::clock_getcpuclockid(pid.number(), &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0
    };
    let time = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    told.then(|| Duration::new(time.0, time.1))
}

/// Whether a child of ours has ended; it stays to be [reaped](reap). An error if there is no such child.
pub fn has_ended(pid: Pid) -> io::Result<bool> {
    let options = rx::WaitIdOptions::EXITED | rx::WaitIdOptions::NOWAIT | rx::WaitIdOptions::NOHANG;
    Ok(rx::waitid(rx::WaitId::Pid(pid.0), options)?.is_some())
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// By itself, with an exit status.
    Exited(i32),
    /// Killed by a signal.
    Signaled {
        /// The signal.
        signal: Signal,
        /// Whether there is a core dump.
        core: bool,
    },
}

/// A child that ended.
#[derive(Clone, Copy, Debug)]
pub struct Reaped {
    /// Its number.
    pub pid: Pid,
    /// How it ended.
    pub status: Status,
    /// CPU time in user mode, its own waited-for children included.
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
    /// Its peak resident memory, in KiB.
    pub max_rss: u64,
}

/// Takes the status of a child that ended; does not wait. `None`: no child (or not this one) has ended, or there is
/// none. Without `pid`, takes any child.
pub fn reap(pid: Option<Pid>) -> io::Result<Option<Reaped>> {
    let which = pid.map_or(-1, Pid::number);
    let mut status = 0;
    // SAFETY: `rusage` is plain data for which zero is valid; wait4 fills its results and keeps no pointer.
    let (got, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(which, &mut status, libc::WNOHANG, &mut usage), usage)
    };
    let pid = match Pid::new(got) {
        Some(pid) => pid,
        None if got == 0 => return Ok(None),
        None => {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ECHILD) { Ok(None) } else { Err(error) };
        }
    };
    let status = if libc::WIFSIGNALED(status) {
        Status::Signaled { signal: Signal::from_number(libc::WTERMSIG(status)), core: libc::WCOREDUMP(status) }
    } else {
        Status::Exited(libc::WEXITSTATUS(status))
    };
    Ok(Some(Reaped {
        pid,
        status,
        user: from_timeval(usage.ru_utime),
        system: from_timeval(usage.ru_stime),
        max_rss: usage.ru_maxrss.unsigned_abs(),
    }))
}

/// The peak resident memory of this process, in KiB.
pub fn own_max_rss() -> u64 {
    // SAFETY: `rusage` is plain data for which zero is valid; getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_maxrss.unsigned_abs()
}

/// Ends this process at once: no destructors and no exit handlers, so that a forked child cannot write its parent's
/// buffers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) does not return.
    unsafe { libc::_exit(status) }
}

/// Becomes the program of this process anew, with these arguments and one more variable: nothing of its memory stays. These
/// descriptors stay open in it, with their numbers, and those that are open until the exec; signals that are blocked stay so.
/// For a forked process with one thread. Returns only if it fails.
pub fn begin_anew(arguments: &[&CStr], variable: (&str, &str), kept: &[BorrowedFd<'_>]) -> io::Error {
    let ours = std::env::vars_os().filter(|(name, _)| name != variable.0);
    let ours = ours.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let all = ours.chain([[variable.0, "=", variable.1].concat().into_bytes()]);
    let Ok(env) = all.map(CString::new).collect::<Result<Vec<_>, _>>() else {
        return io::ErrorKind::InvalidInput.into();
    };
    let pointers = |texts: &mut dyn Iterator<Item = *const libc::c_char>| {
        texts.chain([std::ptr::null()]).collect::<Vec<*const libc::c_char>>()
    };
    let argv = pointers(&mut arguments.iter().map(|text| text.as_ptr()));
    let envp = pointers(&mut env.iter().map(|text| text.as_ptr()));
    for fd in kept {
        // SAFETY: the call changes a flag of an open descriptor.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) } < 0 {
            return io::Error::last_os_error();
        }
    }
    // SAFETY: both arrays end with a null pointer, and their texts live until the call has replaced them, or failed.
    unsafe { libc::execve(c"/proc/self/exe".as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// The descriptor that a process that [begins anew](begin_anew) was left under this number; closed at its next exec.
pub fn left_descriptor(number: i32) -> io::Result<OwnedFd> {
    let copy = crate::file::duplicate(number)?;
    // SAFETY: the number is that of an open descriptor, as its copy shows, for which no value of this new program stands yet.
    unsafe { libc::close(number) };
    Ok(copy)
}

/// The name of this process in lists that show no arguments; cut to 15 bytes.
pub fn set_short_name(name: &CStr) -> io::Result<()> {
    Ok(rustix::thread::set_name(name)?)
}

/// Starts a session without a terminal, led by this process.
pub fn new_session() -> io::Result<()> {
    rx::setsid()?;
    Ok(())
}

/// Points descriptors 0, 1 and 2 (those with `true`) to `/dev/null`.
pub fn close_standard(which: [bool; 3]) -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    for (number, wanted) in which.into_iter().enumerate() {
        let number = i32::try_from(number).unwrap_or(0);
        // SAFETY: dup2 replaces one of the standard descriptors, which no owned descriptor of ours stands for.
        if wanted && unsafe { libc::dup2(null.as_raw_fd(), number) } < 0 {
            return last_os_error();
        }
    }
    Ok(())
}

/// Closes all descriptors from 3 on except for these. For a forked process that uses nothing else of its parent's and ends with
/// [`exit_now`]: the values that own the others must neither be used nor dropped.
pub fn close_others(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for end in kept.into_iter().chain([u32::MAX]).filter(|end| *end >= 3) {
        // SAFETY: the call takes numbers and touches no memory; the caller uses none of what it closes.
        if first < end && unsafe { libc::syscall(libc::SYS_close_range, first, end - 1, 0) } != 0 {
            return last_os_error();
        }
        first = end.saturating_add(1);
    }
    Ok(())
}

/// Points descriptor 2, which panics and other careless code write to, to this file.
pub fn set_standard_error(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: dup2 replaces a standard descriptor, which no owned descriptor of ours stands for.
    if unsafe { libc::dup2(file.as_raw_fd(), 2) } < 0 { last_os_error() } else { Ok(()) }
}

/// Sends `signal` to this process when its parent ends, in whatever way. Holds until the process changes its user, so
/// call it after [`Identity::assume`](crate::cred::Identity::assume). `Ok(false)`: the parent was already another
/// process.
pub fn die_with(parent: Pid, signal: Signal) -> io::Result<bool> {
    // SAFETY: this prctl takes a number and touches no memory.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal.number()) } != 0 {
        return last_os_error();
    }
    Ok(Pid::parent() == Some(parent))
}

/// Sets the signal that reports a descriptor's events (fcntl(2)); the C library's headers hide it from us behind a
/// macro.
const F_SETSIG: i32 = 10;

/// Sends this process a signal when every holder of a pipe's other end has closed it, or if that has already happened.
pub fn signal_of_end(pipe: impl AsFd, signal: Signal) -> io::Result<()> {
    let pipe = pipe.as_fd();
    let flags = rustix::fs::fcntl_getfl(pipe)?.bits().cast_signed() | libc::O_NONBLOCK | libc::O_ASYNC;
    for (command, value) in [(libc::F_SETOWN, Pid::own().number()), (F_SETSIG, signal.number()), (libc::F_SETFL, flags)]
    {
        // SAFETY: these commands take a number and touch no memory; the descriptor is borrowed.
        if unsafe { libc::fcntl(pipe.as_raw_fd(), command, value) } == -1 {
            return last_os_error();
        }
    }
    // The kernel does not report an end in the past.
    if rustix::io::read(pipe, &mut [0; 1]) == Ok(0) {
        Pid::own().kill(signal)?;
    }
    Ok(())
}

/// Ends this process by `SIGALRM` after `limit`, whatever it does; a process that it forks has no such limit.
pub fn die_after(limit: Duration) {
    // SAFETY: alarm(2) takes a number and touches no memory.
    unsafe { libc::alarm(u32::try_from(limit.as_secs()).unwrap_or(u32::MAX)) };
}

/// Lets a process that changed its user dump core and be traced again, for `CoreDumpDirectory`.
pub fn allow_core_dumps() -> io::Result<()> {
    Ok(rx::set_dumpable_behavior(rx::DumpableBehavior::Dumpable)?)
}

/// Shows `title` as this process's command line in `ps`, cut to the available room; its short name stays.
///
/// The room is that of the original arguments, so [`std::env::args`] is useless afterwards. For a child, before it has
/// a second thread and before it drops its privileges.
pub fn set_title(title: &str) -> io::Result<()> {
    // A line of 52 numbers and a short name.
    let mut stat = [0; 2048];
    let read = std::fs::File::open("/proc/self/stat")?.read(&mut stat)?;
    let stat = String::from_utf8_lossy(&stat[..read]);
    // proc(5): the fields after the name in parentheses start with number 3; arg_start and arg_end are 48 and 49.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |number: usize| fields.split_whitespace().nth(number - 3).and_then(|field| field.parse().ok());
    let (Some(start), Some(end)) = (field(48), field(49)) else { return Ok(()) };
    let (start, end): (usize, usize) = (start, end);
    let room = end.saturating_sub(start);
    if start == 0 || room < 2 {
        return Ok(());
    }
    let text = &title.as_bytes()[..title.len().min(room - 1)];
    // SAFETY: the kernel says that our own arguments lie at start..end, writable memory at the top of the first stack.
    // Nobody holds a reference into it: `std::env::args` copies, and this is the only thread that could call it.
    unsafe {
        let area = std::ptr::with_exposed_provenance_mut::<u8>(start);
        std::ptr::copy_nonoverlapping(text.as_ptr(), area, text.len());
        std::ptr::write_bytes(area.add(text.len()), 0, room - text.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_is_one_process() {
        assert_eq!((Pid::new(0), Pid::new(-1)), (None, None));
        assert!(Pid::own().exists());
        assert_eq!(Pid::new(Pid::own().number()), Some(Pid::own()));
    }

    #[test]
    fn fork_is_refused_with_threads() {
        // The test harness itself runs tests in threads.
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        assert_eq!(fork().expect_err("two threads").kind(), io::ErrorKind::Unsupported);
        drop(end);
        let _ = thread.join();
    }
}
