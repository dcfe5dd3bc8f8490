//! Conversations over the control socket: a process for each.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sys::local::Kind;
use sys::process::{Fork, Pid, Reaped, die_after, die_with, exit_now, fork, set_title};
use sys::signal::{Signal, unblock};
use sys::time::monotonic;

use super::{SIGNALS, Supervisor};
use crate::control::{self, Conversation};
use crate::limits::Fixed;

/// How many conversations there may be at once; others wait in the socket's queue.
const TALKING_MAX: usize = 8;
/// How many may wait to be accepted.
const BACKLOG: i32 = 16;
/// How long one may take: whoever talks longer has forgotten about it.
const TALKING_LONGEST: Duration = Duration::from_secs(60);

/// The socket, and who talks.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    socket: Option<Socket>,
    /// Each with when it began, on the monotonic clock.
    talking: Vec<(Pid, Duration)>,
    /// Nobody is accepted before, on the monotonic clock: it could not be done just now.
    deaf_until: Option<Duration>,
}

#[derive(Debug)]
struct Socket {
    listener: OwnedFd,
    path: PathBuf,
    /// Device and inode of the file that we made. As long as the listener is open no other file has them.
    file: Option<(u64, u64)>,
}

impl Socket {
    /// Takes the place of a socket that nobody listens to, as a server that was killed leaves it, or that is our own or the
    /// `predecessor`'s. Another server's is not ours to take, and no other file is.
    fn open(path: PathBuf, predecessor: Option<Pid>) -> io::Result<Socket> {
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is another file, which is no socket"));
            }
            Ok(_) => {
                let ours = |pid| pid == Pid::own() || Some(pid) == predecessor;
                let listens = sys::local::connect(&path, Kind::Stream).and_then(sys::local::peer_process);
                // `WouldBlock`: so many ask it that nobody else can.
                if listens.as_ref().map_or_else(|error| error.kind() == io::ErrorKind::WouldBlock, |pid| !ours(*pid)) {
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
                }
                std::fs::remove_file(&path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = sys::local::listen(&path, BACKLOG, Kind::Stream)?;
        let file = identity(&path);
        Ok(Socket { listener, path, file })
    }

    /// Whether the file is still the one that we made.
    fn is_there(&self) -> bool {
        self.file.is_some() && self.file == identity(&self.path)
    }

    fn close(self) {
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

impl Conversations {
    /// What becomes readable when somebody wants to talk; `None` while nobody would be accepted.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let listens =
            self.talking.len() < TALKING_MAX && self.deaf_until.is_none_or(|deaf_until| monotonic() >= deaf_until);
        self.socket.as_ref().filter(|_| listens).map(|socket| socket.listener.as_fd())
    }
}

impl Supervisor<'_> {
    /// Listens where the configuration says, from now on. A server without a control socket is a server all the same, and
    /// one that cannot have the new one keeps the old one.
    pub(super) fn open_control(&mut self, predecessor: Option<Pid>) {
        let Some(path) = control::path(&self.generation.settings) else { return self.close_control() };
        let old = self.conversations.socket.as_ref();
        if old.is_some_and(|old| old.path == path && old.is_there()) {
            return;
        }
        match Socket::open(path.clone(), predecessor) {
            Ok(socket) => {
                if let Some(old) = self.conversations.socket.replace(socket) {
                    old.close();
                }
            }
            Err(error) => {
                let (error, path) = (sys::describe(&error), path.display());
                let text = match old {
                    Some(old) if old.is_there() => format!("the control socket stays {}", old.path.display()),
                    _ => "no control socket: `tsubame ctl` cannot ask this server".into(),
                };
                seam::log!("core", Warn, "{error}: {path}: {text} (see ControlSocket)");
            }
        }
    }

    pub(super) fn close_control(&mut self) {
        if let Some(socket) = self.conversations.socket.take() {
            socket.close();
        }
    }

    /// Takes up conversations that wait, and ends those that take too long.
    pub(super) fn converse(&mut self) {
        let now = monotonic();
        for (pid, began) in &self.conversations.talking {
            if now.saturating_sub(*began) > TALKING_LONGEST {
                let _ = pid.kill(Signal::KILL);
            }
        }
        while let Some(listener) = self.conversations.descriptor() {
            let connection = match sys::local::accept(listener) {
                Ok(connection) => connection,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.turn_deaf(&error),
            };
            match fork() {
                Ok(Fork::Parent(pid)) => {
                    self.conversations.talking.push((pid, now));
                    self.conversations.deaf_until = None;
                }
                Ok(Fork::Child) => {
                    let life = || self.talk(connection);
                    exit_now(catch_unwind(AssertUnwindSafe(life)).unwrap_or(1))
                }
                Err(error) => return self.turn_deaf(&error),
            }
        }
    }

    /// Who waits has to wait until the next tick; told once, until somebody is answered again.
    fn turn_deaf(&mut self, error: &io::Error) {
        if self.conversations.deaf_until.replace(self.next_tick).is_none() {
            seam::log!(self.module(), Error, "{}: cannot answer at the control socket", sys::describe(error));
        }
    }

    /// Lives as the process of a conversation. Returns the exit status, which nobody looks at.
    fn talk(&mut self, connection: OwnedFd) -> i32 {
        let fixed = Fixed { limits: self.plan.limits, buckets: self.leave_parent().buckets() };
        let prepared = set_title(&format!("{}: control", self.about.program))
            .and_then(|()| die_with(self.pid, Signal::KILL))
            .and_then(|alive| unblock(&SIGNALS).map(|()| alive));
        // The parent's own look at the clock ends with the parent.
        die_after(TALKING_LONGEST);
        match prepared {
            Ok(true) => {
                let children = self.generation.identity.as_ref();
                let order = self.callbacks.converse(Conversation { connection, parent: self.pid, children, fixed });
                if let Some(signal) = order.filter(|_| Pid::parent() == Some(self.pid)) {
                    let _ = self.pid.kill(signal);
                }
                0
            }
            Ok(false) => 0,
            Err(error) => {
                seam::log!(self.module(), Error, "{}: cannot answer at the control socket", sys::describe(&error));
                1
            }
        }
    }

    /// Takes leave of a conversation; `false`: it was none.
    pub(super) fn conversation_ended(&mut self, reaped: &Reaped) -> bool {
        let Some(at) = self.conversations.talking.iter().position(|(pid, _)| *pid == reaped.pid) else { return false };
        self.conversations.talking.swap_remove(at);
        true
    }
}
