//! The child's steps until its exec.
//!
//! Linux 5.9 or later, 64 bits. Between clone and exec a child may do next to nothing: no allocation, no lock, no
//! panic, and only system calls whose C functions keep no state in memory (signal-safety(7)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::{Directory, Spawn};
use crate::cred::Identity;
use crate::process::Pid;

/// The signals whose disposition in this process is not the default, found out once: dispositions are set at the start.
/// An exec keeps ignored signals ignored, and a handler must not run in a child that shares our memory.
pub(super) fn not_default() -> &'static [i32] {
    static SIGNALS: OnceLock<Vec<i32>> = OnceLock::new();
    SIGNALS.get_or_init(|| {
        let differs = |signal: &i32| {
            // SAFETY: `sigaction` is plain data for which zero is valid; the call fills it and changes nothing.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(*signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction != libc::SIG_DFL
            }
        };
        (1..=libc::SIGRTMAX()).filter(differs).collect()
    })
}

/// Runs `act` while no handler can run in this thread, or in a child that it starts. `SIGCHLD` stays as it is: nobody
/// handles that, and the kernel would wake another thread for each script that ends meanwhile.
pub(super) fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are plain data, and the calls fill them before they are read.
    unsafe {
        let (mut most, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut most);
        libc::sigdelset(&mut most, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, &most, &mut before);
        let result = act();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// The stack of a child until its exec, in pieces of 16 bytes: the same as for `posix_spawn`.
const STACK: usize = 32 * 1024 / 16;

/// Starts a child that carries out the plan; stores its number in `number` before it does anything.
pub(super) fn clone(plan: &Plan<'_>, flags: libc::c_int, number: &AtomicU64) -> io::Result<Pid> {
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK);
    // SAFETY: the stack grows down from its end, which is aligned to 16 bytes. If memory is shared, this thread stands
    // still until the child has executed the program or ended, so stack and plan live as long as they are used; until
    // then the child reads our memory and writes only to its stack, to the C library's error number of this thread, and
    // to `Plan::error`. If memory is not shared, the child has copies. The kernel writes the number of the child, which
    // is positive, into the lower half of `number` before the child runs.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK);
        let number = number.as_ptr().cast::<libc::pid_t>().add(usize::from(cfg!(target_endian = "big")));
        let flags = flags | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
        libc::clone(child, top.cast(), flags, std::ptr::from_ref(plan).cast_mut().cast(), number)
    };
    Pid::new(pid).map_or_else(crate::last_os_error, Ok)
}

extern "C" fn child(plan: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `clone` passes a plan that lives until this process has ended or runs another program.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    // SAFETY: this is the child that the plan is for.
    let error = unsafe { plan.carry_out() };
    plan.error.store(error, Ordering::Relaxed);
    if let Some((_, report)) = plan.report {
        let bytes = error.to_ne_bytes();
        // SAFETY: the pointer and the length are those of the array. If the write fails, the exit status still tells.
        unsafe { libc::write(report, bytes.as_ptr().cast(), bytes.len()) };
    }
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(127) }
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the calls that set users and groups take numbers of 16 bits on some machines of 32 bits");

/// All steps of a child, prepared in advance: it may not allocate.
pub(super) struct Plan<'a> {
    pub(super) spawn: &'a Spawn<'a>,
    pub(super) argv: &'a [*const libc::c_char],
    pub(super) env: &'a [*const libc::c_char],
    /// The descriptors and their new numbers.
    pub(super) descriptors: &'a [(i32, i32)],
    /// The descriptor for error reports: its current number, and its number until the exec.
    pub(super) report: Option<(i32, i32)>,
    /// The first descriptor number that it does not keep.
    pub(super) end: i32,
    pub(super) limits: &'a [(libc::__rlimit_resource_t, libc::rlimit)],
    /// The signals to reset to their defaults.
    pub(super) signals: &'a [i32],
    /// The user it changes to.
    pub(super) identity: Option<&'a Identity>,
    /// The number of the error.
    pub(super) error: AtomicI32,
}

impl Plan<'_> {
    /// Becomes the program. Returns only on failure, with the error's number.
    ///
    /// # Safety
    /// Only for a child that shares memory with its parent, but neither descriptors nor signal handlers.
    unsafe fn carry_out(&self) -> i32 {
        // SAFETY: every pointer is to data that the parent made, terminated where necessary, and keeps while it waits.
        // The user is changed by system calls, because the C functions would change all threads of the parent too.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            for signal in self.signals {
                libc::sigaction(*signal, &action, std::ptr::null_mut());
            }
            // First of all, so that every error can be reported.
            if let Some((source, target)) = self.report
                && source != target
                && libc::dup3(source, target, libc::O_CLOEXEC) < 0
            {
                return error();
            }
            if self.spawn.own_group && libc::setpgid(0, 0) != 0 {
                return error();
            }
            for (limit, bounds) in self.limits {
                if libc::setrlimit(*limit, bounds) != 0 {
                    return error();
                }
            }
            if self.spawn.nicer > 0 {
                // Everybody may do this.
                libc::nice(self.spawn.nicer.into());
            }
            if let Some(Identity { uid, gid, groups }) = self.identity
                && (libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) != 0
                    || libc::syscall(libc::SYS_setgid, *gid) != 0
                    || libc::syscall(libc::SYS_setuid, *uid) != 0)
            {
                return error();
            }
            // A change of the user would have cancelled this.
            if let Some(signal) = self.spawn.end_with_us
                && libc::prctl(libc::PR_SET_PDEATHSIG, signal.number()) != 0
            {
                return error();
            }
            let entered = match self.spawn.directory {
                None => 0,
                Some(Directory::Named(name)) => libc::chdir(name.as_ptr()),
                Some(Directory::Open(directory)) => libc::fchdir(directory.as_raw_fd()),
            };
            if entered != 0 {
                return error();
            }
            for (source, target) in self.descriptors {
                // If the numbers are equal, only close-on-exec has to be cleared.
                let done = match source == target {
                    true => libc::fcntl(*source, libc::F_SETFD, 0),
                    false => libc::dup2(*source, *target),
                };
                if done < 0 {
                    return error();
                }
            }
            if libc::syscall(libc::SYS_close_range, self.end, libc::c_uint::MAX, 0) != 0 {
                return error();
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            libc::execve(self.spawn.program.as_ptr(), self.argv.as_ptr(), self.env.as_ptr());
            error()
        }
    }
}

/// The error of the last call.
fn error() -> i32 {
    // SAFETY: the C library's error number of this thread is always there.
    unsafe { *libc::__errno_location() }
}
