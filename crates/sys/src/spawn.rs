//! Starts programs without copying this process: the child shares our memory until its exec, as after vfork(2).
//!
//! `posix_spawn` does the same, but cannot set limits, and queries the disposition of every signal each time. A child
//! that changes its user gets a copy of the memory instead: that user could stop it before its exec, and us with it.

mod child;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::cred::Identity;
use crate::process::Pid;
use crate::rlimit::{Bounds, Limit};
use crate::signal::Signal;
use child::{Plan, clone, not_default, without_signals};

/// A program to start. It inherits only what is listed here: these descriptors, the environment `env`, and no blocked
/// or ignored signals.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The file; not searched for in `PATH`.
    pub program: &'a CStr,
    /// The arguments, the name of the program first.
    pub argv: &'a [&'a CStr],
    /// `NAME=value`.
    pub env: &'a [&'a CStr],
    /// The working directory; ours by default. A relative `program` is resolved there.
    pub directory: Option<Directory<'a>>,
    /// Standard input, output and error.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Further descriptors, which it gets as 3, 4 and so on.
    pub more: &'a [BorrowedFd<'a>],
    /// Whether it leads its own process group, so that it can be ended with all its children.
    pub own_group: bool,
    /// Limits that hold before its first instruction.
    pub limits: &'a [(Limit, Bounds)],
    /// How much nicer it is than this process (nice(2)).
    pub nicer: u8,
    /// The signal it gets when the thread that starts it ends, in whatever way.
    pub end_with_us: Option<Signal>,
}

/// A directory to work in.
#[derive(Clone, Copy, Debug)]
pub enum Directory<'a> {
    /// By its name.
    Named(&'a CStr),
    /// An open one, whatever its name is by now.
    Open(BorrowedFd<'a>),
}

/// A program that is being started as another user, who may delay it.
#[derive(Debug)]
pub struct Starting {
    /// Its process.
    pub pid: Pid,
    /// Readable once it is known whether the program could be started; does not block.
    pub outcome: OwnedFd,
}

impl Starting {
    /// Whether the program was started, or why not; in that case its process is ending. Call it once `outcome` is
    /// readable.
    pub fn result(&self) -> io::Result<()> {
        let mut error = [0; size_of::<i32>()];
        match rustix::io::read(&self.outcome, &mut error)? {
            0 => Ok(()),
            _ => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(error))),
        }
    }
}

impl Spawn<'_> {
    /// Starts the program. An error is that of the first step that failed, mostly the exec; in that case nothing runs.
    pub fn start(&self) -> io::Result<Pid> {
        self.start_noted(&AtomicU64::new(0))
    }

    /// Starts the program, and stores the number of the process in `number`, which was 0, before the process does anything:
    /// others who see that memory know the number even if this process is killed at that moment.
    pub fn start_noted(&self, number: &AtomicU64) -> io::Result<Pid> {
        let (pid, error) = self.clone_with(libc::CLONE_VM | libc::CLONE_VFORK, None, None, number)?;
        if error == 0 {
            return Ok(pid);
        }
        // SAFETY: it takes the status of one child of ours, which is ending, and keeps no pointer.
        unsafe { libc::waitpid(pid.number(), std::ptr::null_mut(), 0) };
        Err(io::Error::from_raw_os_error(error))
    }

    /// Starts the program as another user, which only root may do. Does not wait for its exec.
    pub fn start_as(&self, identity: &Identity) -> io::Result<Starting> {
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let (outcome, report) = rustix::pipe::pipe_with(flags)?;
        let (pid, _) = self.clone_with(0, Some(identity), Some(report), &AtomicU64::new(0))?;
        Ok(Starting { pid, outcome })
    }

    /// Starts the child; returns its report, if it shares our memory.
    fn clone_with(
        &self,
        flags: libc::c_int,
        identity: Option<&Identity>,
        report: Option<OwnedFd>,
        number: &AtomicU64,
    ) -> io::Result<(Pid, i32)> {
        let mut end = 3 + i32::try_from(self.more.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // A source among the targets could be overwritten before its turn; it moves out of the way.
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
            // The child keeps that descriptor until its exec, after its own descriptors.
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

#[cfg(test)]
mod tests;
