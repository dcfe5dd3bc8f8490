//! Talking to the service manager: sd_notify(3) messages, and listening sockets it made for us (sd_listen_fds(3)).

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::Pid;
use crate::socket::{adopt, is_listening};

/// The socket of the service manager; without one nothing is sent.
#[derive(Debug, Default)]
pub struct Notifier(Option<UnixDatagram>);

impl Notifier {
    /// The one that `NOTIFY_SOCKET` names: a path, or with `@` in front an abstract name.
    pub fn from_env() -> Notifier {
        Notifier(std::env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name).ok()))
    }

    /// Sends a message, for instance `READY=1\nSTATUS=...`. Never waits: what the manager does not take is lost.
    pub fn send(&self, message: &str) {
        if let Some(socket) = &self.0 {
            let _ = socket.send(message.as_bytes());
        }
    }
}

fn connect(name: &OsString) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// The listening sockets that the service manager passed to this process (`LISTEN_PID`, `LISTEN_FDS`), made non-blocking
/// and close-on-exec. The first call gets them, later ones nothing.
pub fn passed_sockets() -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<i32>().ok());
    if number("LISTEN_PID") != Some(Pid::own().number()) || TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, 1024);
    (3..3 + count)
        // SAFETY: only looked at: an open descriptor is asked what it is, a closed one answers EBADF.
        .filter(|fd| is_listening(unsafe { BorrowedFd::borrow_raw(*fd) }))
        // SAFETY: LISTEN_PID says that this process was started with these descriptors; nothing else in it takes over
        // listening sockets that it did not open, and this code runs once.
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .filter(|fd| adopt(fd).is_ok())
        .collect()
}
