//! Signals: their numbers and descriptions, and which of them a thread holds back.

use std::fmt;
use std::io;

/// The number of a POSIX signal.
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

pub(crate) fn set_of(signals: &[Signal]) -> libc::sigset_t {
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

/// While it lives, these signals stay pending in this thread, in threads that it starts and in its forked children.
pub struct Blocked {
    /// What was blocked before.
    before: libc::sigset_t,
}

impl Blocked {
    /// Blocks the signals besides those that are blocked already.
    pub fn new(signals: &[Signal]) -> io::Result<Blocked> {
        let (set, mut before) = (set_of(signals), set_of(&[]));
        // SAFETY: both sets are initialised.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) } {
            0 => Ok(Blocked { before }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set came from the system. The call fails only for an unknown first argument.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Undoes [`block`].
pub fn unblock(signals: &[Signal]) -> io::Result<()> {
    change_mask(libc::SIG_UNBLOCK, signals)
}
