//! Signals, read as data from a descriptor instead of interrupting the program.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::last_os_error;
use crate::process::Pid;

/// A signal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(i32);

#[allow(missing_docs, reason = "the names are POSIX's")]
impl Signal {
    pub const HUP: Signal = Signal(libc::SIGHUP);
    pub const INT: Signal = Signal(libc::SIGINT);
    pub const QUIT: Signal = Signal(libc::SIGQUIT);
    pub const KILL: Signal = Signal(libc::SIGKILL);
    pub const USR1: Signal = Signal(libc::SIGUSR1);
    pub const USR2: Signal = Signal(libc::SIGUSR2);
    pub const SEGV: Signal = Signal(libc::SIGSEGV);
    pub const PIPE: Signal = Signal(libc::SIGPIPE);
    pub const ALRM: Signal = Signal(libc::SIGALRM);
    pub const TERM: Signal = Signal(libc::SIGTERM);
    pub const CHLD: Signal = Signal(libc::SIGCHLD);
    pub const URG: Signal = Signal(libc::SIGURG);
    pub const WINCH: Signal = Signal(libc::SIGWINCH);
    pub const XCPU: Signal = Signal(libc::SIGXCPU);
    pub const XFSZ: Signal = Signal(libc::SIGXFSZ);
    pub const STOP: Signal = Signal(libc::SIGSTOP);
    pub const CONT: Signal = Signal(libc::SIGCONT);
}

impl Signal {
    /// The signal with a number, if there is one.
    pub fn new(number: i32) -> Option<Signal> {
        (1..=libc::SIGRTMAX()).contains(&number).then_some(Signal(number))
    }

    /// The number, as the system knows it.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// The signal with a number from the system.
    pub(crate) const fn from_number(number: i32) -> Signal {
        Signal(number)
    }

    /// The C library's description (`Segmentation fault`).
    pub fn description(self) -> &'static str {
        match self.0 {
            libc::SIGHUP => "Hangup",
            libc::SIGINT => "Interrupt",
            libc::SIGQUIT => "Quit",
            libc::SIGILL => "Illegal instruction",
            libc::SIGTRAP => "Trace/breakpoint trap",
            libc::SIGABRT => "Aborted",
            libc::SIGBUS => "Bus error",
            libc::SIGFPE => "Floating point exception",
            libc::SIGKILL => "Killed",
            libc::SIGUSR1 => "User defined signal 1",
            libc::SIGUSR2 => "User defined signal 2",
            libc::SIGSEGV => "Segmentation fault",
            libc::SIGPIPE => "Broken pipe",
            libc::SIGALRM => "Alarm clock",
            libc::SIGTERM => "Terminated",
            libc::SIGXCPU => "CPU time limit exceeded",
            libc::SIGXFSZ => "File size limit exceeded",
            libc::SIGSYS => "Bad system call",
            _ => "Unknown signal",
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.description())
    }
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    // SAFETY: `sigset_t` is plain data; sigemptyset initialises it, sigaddset refuses invalid numbers.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, signal.0);
        }
        set
    }
}

fn change_mask(how: i32, signals: &[Signal]) -> io::Result<()> {
    let set = set_of(signals);
    // SAFETY: `set` is initialised; the old mask is not requested.
    match unsafe { libc::pthread_sigmask(how, &set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Keeps signals from interrupting this thread (and its future threads and forked children); they stay pending.
pub fn block(signals: &[Signal]) -> io::Result<()> {
    change_mask(libc::SIG_BLOCK, signals)
}

/// Undoes [`block`].
pub fn unblock(signals: &[Signal]) -> io::Result<()> {
    change_mask(libc::SIG_UNBLOCK, signals)
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

/// A descriptor from which blocked signals are read.
#[derive(Clone, Debug)]
pub struct SignalFd(Arc<OwnedFd>);

impl SignalFd {
    /// Blocks the signals and opens a descriptor for them. A forked child needs its own.
    pub fn new(signals: &[Signal]) -> io::Result<SignalFd> {
        block(signals)?;
        let set = set_of(signals);
        // SAFETY: `set` is initialised; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
        if fd < 0 {
            return last_os_error();
        }
        // SAFETY: a new descriptor that nobody else owns.
        Ok(SignalFd(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The descriptor for a reactor to watch.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.0.clone()
    }

    /// The next pending signal, and the process that sent it, if one did; does not wait.
    pub fn read(&self) -> io::Result<Option<(Signal, Option<Pid>)>> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&*self.0, &mut info) {
            Ok(read) if read == info.len() => {
                // Of the fields of signalfd_siginfo (signalfd(2)), four bytes each: `ssi_signo` and `ssi_pid`.
                let field = |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
                Ok(Some((Signal(field(0)), Pid::new(field(12)))))
            }
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_read_as_data() {
        let fd = SignalFd::new(&[Signal::WINCH]).expect("signalfd");
        assert_eq!(fd.read().expect("read"), None);
        // SAFETY: raises a signal that this thread has blocked.
        unsafe { libc::raise(libc::SIGWINCH) };
        assert_eq!(fd.read().expect("read"), Some((Signal::WINCH, Some(Pid::own()))));
    }
}
