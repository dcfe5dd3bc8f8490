//! Talks to the service manager: sd_notify(3) messages, and listening sockets from it (sd_listen_fds(3)). A server that
//! this process replaces passes its sockets in the same way.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::Pid;
use crate::socket::{adopt, is_listening};

/// The socket of the service manager; without one, nothing is sent.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// The manager ends a process that does not say now and then that it lives.
    has_watchdog: bool,
}

impl Notifier {
    /// The socket that `NOTIFY_SOCKET` names: a path, or an abstract name after `@`; and whether there is a watchdog
    /// (sd_watchdog_enabled(3)), for this process if `WATCHDOG_PID` names one.
    pub fn from_env() -> Notifier {
        Notifier {
            socket: std::env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name).ok()),
            has_watchdog: std::env::var_os("WATCHDOG_USEC").is_some()
                && number(WATCHED).is_none_or(|pid| pid == Pid::own().number()),
        }
    }

    /// Says that this process lives, if the manager wants to know.
    pub fn alive(&self) {
        if self.has_watchdog {
            self.send("WATCHDOG=1");
        }
    }

    /// Sends a message, for instance `READY=1
    /// STATUS=...`. Never waits: a message that the manager does not take is lost.
    pub fn send(&self, message: &str) {
        if let Some(socket) = &self.socket {
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

/// How many sockets were passed, from descriptor 3 on.
const COUNT: &str = "LISTEN_FDS";
/// The most sockets that are ever passed.
const SOCKETS_MAX: i32 = 1 << 16;
/// The process that they are passed to: a service manager knows it.
const TO: &str = "LISTEN_PID";
/// The process that passes them, if it is a server to be replaced: its parent, and ours.
const FROM: &str = "TSUBAME_PREDECESSOR";

/// The server that this process replaces: our parent, if the environment says so. Call it once: the server may be gone
/// later.
pub fn predecessor() -> Option<Pid> {
    static PREDECESSOR: OnceLock<Option<Pid>> = OnceLock::new();
    *PREDECESSOR.get_or_init(|| Pid::parent().filter(|parent| number(FROM) == Some(parent.number())))
}

/// The process that the watchdog waits for. A successor is another one, and has to go on.
const WATCHED: &str = "WATCHDOG_PID";

/// The environment of a process that replaces this one: ours, plus the number of sockets it gets.
pub fn environment_of_successor(sockets: usize) -> Vec<(OsString, OsString)> {
    let ours = std::env::vars_os()
        .filter(|(name, _)| ![COUNT, TO, FROM, WATCHED, "LISTEN_FDNAMES"].iter().any(|own| name == own));
    let more = [(COUNT, sockets.to_string()), (FROM, Pid::own().to_string())];
    ours.chain(more.map(|(name, value)| (name.into(), value.into()))).collect()
}

fn number(name: &str) -> Option<i32> {
    std::env::var(name).ok()?.parse().ok()
}

/// The listening sockets from the service manager or a predecessor, made non-blocking and close-on-exec. Only the first
/// call gets them.
pub fn passed_sockets() -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let is_for_us = number(TO) == Some(Pid::own().number()) || predecessor().is_some();
    if !is_for_us || TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let count = number(COUNT).unwrap_or(0).clamp(0, SOCKETS_MAX);
    (3..3 + count)
        // SAFETY: only inspected: an open descriptor answers what it is, a closed one EBADF.
        .filter(|fd| is_listening(unsafe { BorrowedFd::borrow_raw(*fd) }))
        // SAFETY: the environment says that this process was started with these descriptors; no other code here takes
        // over listening sockets that it did not open, and this code runs once.
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .filter(|fd| adopt(fd).is_ok())
        .collect()
}
