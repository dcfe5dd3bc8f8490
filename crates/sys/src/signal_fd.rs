//! Signals, read as data from a descriptor instead of interrupting the program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::last_os_error;
use crate::process::Pid;
use crate::signal::{Signal, block, set_of};

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
                Ok(Some((Signal::from_number(field(0)), Pid::new(field(12)))))
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
