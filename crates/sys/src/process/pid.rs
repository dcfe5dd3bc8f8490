//! The number of a process, and what can be asked of any process by its number.

use std::io;

use rustix::process as rx;

use crate::last_os_error;
use crate::signal::Signal;

/// The number of one process; never 0 or negative, which kill(2) would take for a whole group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pid(pub(super) rx::Pid);

impl Pid {
    /// A process number read from somewhere; `None` if it cannot be one.
    pub fn new(number: i32) -> Option<Pid> {
        if number > 0 { rx::Pid::from_raw(number).map(Pid) } else { None }
    }

    /// This process.
    pub fn own() -> Pid {
        Pid(rx::getpid())
    }

    /// The parent of this process; `None` when it lives outside our process namespace.
    pub fn parent() -> Option<Pid> {
        rx::getppid().map(Pid)
    }

    /// The number of the process, which is positive.
    pub fn number(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }

    /// Sends a signal.
    pub fn kill(self, signal: Signal) -> io::Result<()> {
        // SAFETY: kill(2) touches no memory; the number is that of one process.
        if unsafe { libc::kill(self.number(), signal.number()) } == 0 { Ok(()) } else { last_os_error() }
    }

    /// Sends a signal to the process group that this process leads.
    pub fn kill_group(self, signal: Signal) -> io::Result<()> {
        // SAFETY: kill(2) touches no memory; the number is that of one process group.
        if unsafe { libc::kill(-self.number(), signal.number()) } == 0 { Ok(()) } else { last_os_error() }
    }

    /// Whether the process group that this process leads, or led, has members.
    pub fn group_exists(self) -> bool {
        !matches!(rx::test_kill_process_group(self.0), Err(rustix::io::Errno::SRCH))
    }

    /// Whether there is such a process, whoever owns it.
    pub fn exists(self) -> bool {
        !matches!(rx::test_kill_process(self.0), Err(rustix::io::Errno::SRCH))
    }
}

impl From<rx::Pid> for Pid {
    fn from(pid: rx::Pid) -> Pid {
        Pid(pid)
    }
}

impl From<Pid> for rx::Pid {
    fn from(pid: Pid) -> rx::Pid {
        pid.0
    }
}

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.number().fmt(f)
    }
}
