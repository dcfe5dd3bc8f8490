//! Starting programs without copying this process: the child shares our memory until its exec, as after vfork(2).
//!
//! `posix_spawn` does the same, but cannot set limits, and asks for the disposition of every signal each time. A child that
//! becomes another user gets a copy of the memory instead: whoever that user is could stop it before its exec, and us with it.
//!
//! Linux 5.9 or later, 64 bits. Between clone and exec a child may do next to nothing: no allocation, no lock, no panic, and only system calls
//! whose C functions keep nothing in memory (signal-safety(7)).

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::cred::Identity;
use crate::process::Pid;
use crate::rlimit::{Bounds, Limit};

/// A program to start. It inherits nothing but what is said here: no descriptor but those, no environment but `env`, no
/// blocked or ignored signals.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The file; not searched for in `PATH`.
    pub program: &'a CStr,
    /// The arguments, the name of the program first.
    pub argv: &'a [&'a CStr],
    /// `NAME=value`.
    pub env: &'a [&'a CStr],
    /// The working directory; ours if not given. A relative `program` is looked for there.
    pub directory: Option<Directory<'a>>,
    /// Standard input, output and error.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Descriptors that it gets as 3, 4 and so on.
    pub more: &'a [BorrowedFd<'a>],
    /// Whether it leads a process group of its own, so that it can be ended with all its children.
    pub own_group: bool,
    /// Limits that hold before its first instruction.
    pub limits: &'a [(Limit, Bounds)],
}

/// A directory to work in.
#[derive(Clone, Copy, Debug)]
pub enum Directory<'a> {
    /// By its name.
    Named(&'a CStr),
    /// One that was opened, whatever its name is by now.
    Open(BorrowedFd<'a>),
}

/// A program that is being started as another user: whoever that is may delay it.
#[derive(Debug)]
pub struct Starting {
    /// Its process.
    pub pid: Pid,
    /// Can be read once it is known whether it could be started; does not block.
    pub outcome: OwnedFd,
}

impl Starting {
    /// Whether it was started, or why not; then its process is ending. Once `outcome` can be read.
    pub fn result(&self) -> io::Result<()> {
        let mut error = [0; size_of::<i32>()];
        match rustix::io::read(&self.outcome, &mut error)? {
            0 => Ok(()),
            _ => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(error))),
        }
    }
}

impl Spawn<'_> {
    /// Starts the program. An error is that of the first step that failed, mostly the exec; then nothing runs.
    pub fn start(&self) -> io::Result<Pid> {
        self.start_noted(&AtomicU64::new(0))
    }

    /// The same; the number of its process stands in `number`, which was 0, before it does anything: others who see that memory
    /// know it even where this process is killed just now.
    pub fn start_noted(&self, number: &AtomicU64) -> io::Result<Pid> {
        let (pid, error) = self.clone_with(libc::CLONE_VM | libc::CLONE_VFORK, None, None, number)?;
        if error == 0 {
            return Ok(pid);
        }
        // SAFETY: it takes the status of one child of ours, which is ending, and keeps no pointer.
        unsafe { libc::waitpid(pid.number(), std::ptr::null_mut(), 0) };
        Err(io::Error::from_raw_os_error(error))
    }

    /// Starts the program as another user, which only root can do. Does not wait for its exec.
    pub fn start_as(&self, identity: &Identity) -> io::Result<Starting> {
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let (outcome, report) = rustix::pipe::pipe_with(flags)?;
        let (pid, _) = self.clone_with(0, Some(identity), Some(report), &AtomicU64::new(0))?;
        Ok(Starting { pid, outcome })
    }

    /// Starts the child; returns what it has told of itself, where the memory is the same.
    fn clone_with(
        &self,
        flags: libc::c_int,
        identity: Option<&Identity>,
        report: Option<OwnedFd>,
        number: &AtomicU64,
    ) -> io::Result<(Pid, i32)> {
        let mut end = 3 + i32::try_from(self.more.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // A source among the targets could be overwritten before its turn comes; it moves out of the way.
        let mut moved: Vec<OwnedFd> = Vec::new();
        let mut descriptors = Vec::with_capacity(3 + self.more.len());
        for (target, fd) in (0i32..).zip(self.stdio.iter().chain(self.more)) {
            let mut source = fd.as_raw_fd();
            if source <= end && source != target {
                let copy = rustix::io::fcntl_dupfd_cloexec(fd, end + 1)?;
                source = copy.as_raw_fd();
                moved.push(copy);
            }
            descriptors.push((source, target));
        }
        let report = report.map(|report| (report.as_raw_fd(), report));
        let mut report_to = None;
        if let Some((source, _)) = &report {
            // It keeps that one, until its exec, behind those that it gets.
            report_to = Some((*source, end));
            end += 1;
        }
        let limits: Vec<_> = self.limits.iter().map(|(limit, bounds)| (limit.number(), raw(*bounds))).collect();
        let plan = Plan {
            spawn: self,
            argv: &pointers(self.argv),
            env: &pointers(self.env),
            descriptors: &descriptors,
            report: report_to,
            end,
            limits: &limits,
            signals: not_default(),
            identity,
            error: AtomicI32::new(0),
        };
        let pid = without_signals(|| clone(&plan, flags, number))?;
        Ok((pid, plan.error.load(Ordering::Relaxed)))
    }
}

fn pointers(texts: &[&CStr]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

fn raw(bounds: Bounds) -> libc::rlimit {
    let number = |bound: Option<u64>| bound.unwrap_or(libc::RLIM_INFINITY);
    libc::rlimit { rlim_cur: number(bounds.soft), rlim_max: number(bounds.hard) }
}

/// The signals that are not left to their defaults in this process, asked for once: that is decided when it starts. An exec
/// keeps those that are ignored, and a handler must not run in a child that shares our memory.
fn not_default() -> &'static [i32] {
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

/// Does something while no signal can come to this thread, nor to a child that it starts.
fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are plain data, and the calls fill them before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = act();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// The stack of a child until its exec, in pieces of 16 bytes: as much as `posix_spawn` takes.
const STACK: usize = 32 * 1024 / 16;

fn clone(plan: &Plan<'_>, flags: libc::c_int, number: &AtomicU64) -> io::Result<Pid> {
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK);
    // SAFETY: the stack grows down from its end, which is aligned to 16 bytes. Where memory is shared this thread stands still
    // until the child has executed the program or ended, so stack and plan live as long as they are used; until then the
    // child reads memory of ours and writes only to its stack, to the C library's error number of this thread, and to
    // `Plan::error`. Where it is not the child has copies of them. The kernel writes the number of the child, which is positive,
    // into the lower half of `number` before the child runs.
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
    // SAFETY: this is the child that it is for.
    let error = unsafe { plan.carry_out() };
    plan.error.store(error, Ordering::Relaxed);
    if let Some((_, report)) = plan.report {
        let bytes = error.to_ne_bytes();
        // SAFETY: the pointer and the length are those of the array. Where the write fails the exit status tells.
        unsafe { libc::write(report, bytes.as_ptr().cast(), bytes.len()) };
    }
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(127) }
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the calls that set users and groups take numbers of 16 bits on some machines of 32 bits");

/// All that a child does, ready made: it may not allocate.
struct Plan<'a> {
    spawn: &'a Spawn<'a>,
    argv: &'a [*const libc::c_char],
    env: &'a [*const libc::c_char],
    /// Which descriptor becomes which.
    descriptors: &'a [(i32, i32)],
    /// Where it reports an error: which descriptor that is now, and which one it will be until the exec.
    report: Option<(i32, i32)>,
    /// The first number that it does not have.
    end: i32,
    limits: &'a [(libc::__rlimit_resource_t, libc::rlimit)],
    /// Those to give back to their defaults.
    signals: &'a [i32],
    /// Who it becomes.
    identity: Option<&'a Identity>,
    /// What went wrong.
    error: AtomicI32,
}

impl Plan<'_> {
    /// Becomes the program. Returns only if that fails: the error's number.
    ///
    /// # Safety
    /// Only for a child that has memory, but neither descriptors nor signal handlers, in common with its parent.
    unsafe fn carry_out(&self) -> i32 {
        // SAFETY: every pointer is to something that the parent made, terminated where it must be, and keeps while it
        // waits. The numbers of the user are set by system calls, because the C functions would set them for all threads
        // of the parent too.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            for signal in self.signals {
                libc::sigaction(*signal, &action, std::ptr::null_mut());
            }
            // First of all, so that every error can be told.
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
            if let Some(Identity { uid, gid, groups }) = self.identity
                && (libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) != 0
                    || libc::syscall(libc::SYS_setgid, *gid) != 0
                    || libc::syscall(libc::SYS_setuid, *uid) != 0)
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
                // With equal numbers all that is left to do is to end close-on-exec.
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

/// The error of the call before.
fn error() -> i32 {
    // SAFETY: the C library's error number of this thread is always there.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Status, reap};
    use crate::signal::{self, Signal};
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    /// Runs a program with its output in a pipe.
    fn run(program: &CStr, argv: &[&CStr], directory: Option<&CStr>) -> io::Result<(Status, String)> {
        let (mut reader, writer) = std::io::pipe()?;
        let null = File::open("/dev/null")?;
        let stdio = [null.as_fd(), writer.as_fd(), null.as_fd()];
        let pid = Spawn {
            program,
            argv,
            env: &[c"A=1"],
            directory: directory.map(Directory::Named),
            stdio,
            more: &[],
            own_group: true,
            limits: &[],
        }
        .start()?;
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        loop {
            if let Some(reaped) = reap(Some(pid))? {
                return Ok((reaped.status, text));
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_clean_environment() {
        let show = c"pwd; echo \"$A $HOME\"; ls /proc/self/fd | tr '\\n' ' '; grep SigBlk /proc/self/status; exit 3";
        signal::block(&[Signal::USR2]).expect("block");
        let (status, text) = run(c"/bin/sh", &[c"sh", c"-c", show], Some(c"/usr")).expect("sh runs");
        assert_eq!(status, Status::Exited(3));
        let mut lines = text.lines();
        assert_eq!((lines.next(), lines.next()), (Some("/usr"), Some("1 ")));
        // 3 is the directory that ls itself reads.
        assert_eq!(lines.next(), Some("0 1 2 3 SigBlk:\t0000000000000000"));
    }

    #[test]
    fn more_descriptors_have_the_next_numbers() {
        let (mut reader, writer) = std::io::pipe().expect("pipe");
        let (mut numbered, null) = (Vec::new(), File::open("/dev/null").expect("null"));
        for text in ["one", "two", "three"] {
            let (end, mut begin) = std::io::pipe().expect("pipe");
            std::io::Write::write_all(&mut begin, text.as_bytes()).expect("write");
            numbered.push(end);
        }
        // Whatever numbers they have here, those that they get are taken by others of them.
        let more: Vec<BorrowedFd<'_>> = numbered.iter().rev().map(AsFd::as_fd).collect();
        let argv = [c"sh", c"-c", c"cat <&3; cat <&4; cat <&5; ls /proc/self/fd | wc -l"];
        let stdio = [null.as_fd(), writer.as_fd(), null.as_fd()];
        let env = [c"PATH=/bin:/usr/bin"];
        let spawn = Spawn {
            program: c"/bin/sh",
            argv: &argv,
            env: &env,
            directory: None,
            stdio,
            more: &more,
            own_group: false,
            limits: &[],
        };
        let number = AtomicU64::new(0);
        let pid = spawn.start_noted(&number).expect("sh runs");
        assert_eq!(i64::try_from(number.into_inner()), Ok(i64::from(pid.number())));
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["threetwoone7"]);
    }

    #[test]
    fn another_user() {
        if !crate::cred::is_root() {
            return;
        }
        let identity = Identity { uid: 54321, gid: 54322, groups: vec![54322, 54323] };
        let (mut reader, writer) = std::io::pipe().expect("pipe");
        let (null, etc) = (File::open("/dev/null").expect("null"), File::open("/etc").expect("directory"));
        let start = |program: &CStr, writer: &std::io::PipeWriter| {
            let argv = [c"sh", c"-c", c"/usr/bin/id -u; /usr/bin/id -G; pwd; ls /proc/self/fd | tr '\\n' ' '"];
            let spawn = Spawn {
                program,
                argv: &argv,
                env: &[c"PATH=/bin:/usr/bin"],
                directory: Some(Directory::Open(etc.as_fd())),
                stdio: [null.as_fd(), writer.as_fd(), null.as_fd()],
                more: &[],
                own_group: true,
                limits: &[],
            };
            let starting = spawn.start_as(&identity).expect("a process");
            assert!(crate::poll::readable(&starting.outcome, None).expect("poll"));
            starting.result().map_err(|error| error.raw_os_error())
        };
        assert_eq!(start(c"/bin/sh", &writer), Ok(()));
        assert_eq!(start(c"passwd", &writer), Err(Some(libc::EACCES)), "a name in the directory");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "54321\n54322 54323\n/etc\n0 1 2 3 ");
    }

    #[test]
    fn the_error_of_the_exec_comes_back() {
        let error = |program, directory| run(program, &[c"x"], directory).expect_err("cannot run").raw_os_error();
        assert_eq!(error(c"/no/such/program", None), Some(libc::ENOENT));
        assert_eq!(error(c"/etc/passwd", None), Some(libc::EACCES));
        assert_eq!(error(c"/bin/sh", Some(c"/no/such/directory")), Some(libc::ENOENT));
    }

    #[test]
    fn death_by_signal_is_told() {
        let (status, _) = run(c"/bin/sh", &[c"sh", c"-c", c"kill -9 $$"], None).expect("sh runs");
        assert_eq!(status, Status::Signaled { signal: Signal::KILL, core: false });
    }
}
