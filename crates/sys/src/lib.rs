//! The kernel, with types: the only crate with `unsafe` code.
//!
//! One small file per facility. Everything returns [`std::io::Error`] with the system's error number, sets close-on-exec
//! on every descriptor it makes, and never blocks unless its documentation says so.

#![allow(unsafe_code)]
#![warn(unsafe_op_in_unsafe_fn)]

pub mod affinity;
pub mod block_on;
pub mod cgroup;
pub mod cred;
pub mod crypt;
pub mod errno;
pub mod event_fd;
pub mod event_loop;
pub mod file;
pub mod inotify;
mod library;
pub mod local;
pub mod memory;
pub mod notify;
pub mod pcre2;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod random;
pub mod resolve;
pub mod rlimit;
pub mod shared_lock;
pub mod shm;
pub mod signal;
pub mod signal_fd;
pub mod socket;
pub mod spawn;
pub mod sql;
pub mod syslog;
pub mod terminal;
pub mod thread;
pub mod time;
pub mod watch;
pub mod zstd;

/// An error in the form in which Apache's log lines begin with it: `(98)Address already in use`.
pub fn describe(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("({number}){}", reason(error)),
        None => error.to_string(),
    }
}

/// The text of an error alone: `Address already in use`.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" (os error").map_or(text.as_str(), |(text, _)| text).to_string()
}

/// Whether an error means that the process or the system has run out of descriptors, memory, or room for a process or a
/// thread: it may well have some again in a moment.
pub fn is_shortage(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN))
}

/// Whether an error means that this user lacks a permission that root has. `EPERM` does not count, as root may get it too.
pub fn is_denied(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EACCES)
}

/// Whether an error means that this process has used up its descriptors; other processes may have some left.
pub fn lacks_descriptors(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

/// The error of a libc call that returned a negative number.
fn last_os_error<T>() -> std::io::Result<T> {
    Err(std::io::Error::last_os_error())
}
