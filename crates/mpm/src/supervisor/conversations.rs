//! Conversations over the control socket: a process for each.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sys::process::{Fork, Pid, Reaped, Status, die_with, exit_now, fork, set_title};
use sys::signal::{Signal, unblock};
use sys::time::monotonic;

use super::companions::Companions;
use super::{Asked, Graceful, SIGNALS, Supervisor};
use crate::control::{self, Request};

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
}

#[derive(Debug)]
struct Socket {
    listener: OwnedFd,
    path: PathBuf,
    /// Device and inode of the file that we made.
    file: Option<(u64, u64)>,
}

impl Socket {
    /// `heir`: what is there may be taken from the server whose place this one takes.
    fn open(path: PathBuf, heir: bool) -> io::Result<Socket> {
        // A file that nobody listens to is left over from a server that was killed; another server's is not ours to take.
        if !heir && sys::local::connect(&path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let mut name = path.clone().into_os_string();
        name.push(format!(".{}", Pid::own()));
        let new = PathBuf::from(name);
        let listener = sys::local::listen(&new, BACKLOG)?;
        let file = identity(&new);
        if let Err(error) = std::fs::rename(&new, &path) {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        Ok(Socket { listener, path, file })
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

impl Conversations {
    /// What becomes readable when somebody wants to talk.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let listens = self.talking.len() < TALKING_MAX;
        self.socket.as_ref().filter(|_| listens).map(|socket| socket.listener.as_fd())
    }

    /// Removes the file, if it is still the one that we made.
    fn close(&mut self) {
        if let Some(socket) = self.socket.take()
            && socket.file.is_some()
            && socket.file == identity(&socket.path)
        {
            let _ = std::fs::remove_file(&socket.path);
        }
    }
}

impl Supervisor<'_> {
    /// Listens where the configuration says, from now on; `heir`: at the place of another server that leaves it. A server without a control socket is a server all the same.
    pub(super) fn open_control(&mut self, heir: bool) {
        let wanted = control::path(&self.generation.settings);
        if self.conversations.socket.as_ref().map(|socket| &socket.path) == wanted.as_ref() {
            return;
        }
        self.conversations.close();
        let Some(path) = wanted else { return };
        match Socket::open(path.clone(), heir) {
            Ok(socket) => self.conversations.socket = Some(socket),
            Err(error) => {
                let (error, path) = (sys::describe(&error), path.display());
                let text = "no control socket: `tsubame ctl` cannot ask this server (see ControlSocket)";
                seam::log!("core", Warn, "{error}: {path}: {text}");
            }
        }
    }

    pub(super) fn close_control(&mut self) {
        self.conversations.close();
    }

    /// Takes up conversations that wait, and ends those that take too long.
    pub(super) fn converse(&mut self) {
        let now = monotonic();
        for (pid, began) in &self.conversations.talking {
            if now.saturating_sub(*began) > TALKING_LONGEST {
                let _ = pid.kill(Signal::KILL);
            }
        }
        while let Some(connection) = self.conversations.descriptor().and_then(|fd| sys::local::accept(fd).ok()) {
            match fork() {
                Ok(Fork::Parent(pid)) => self.conversations.talking.push((pid, now)),
                Ok(Fork::Child) => {
                    let life = || self.talk(connection);
                    exit_now(catch_unwind(AssertUnwindSafe(life)).unwrap_or(1))
                }
                Err(error) => {
                    seam::log!(self.module(), Error, "{}: cannot answer at the control socket", sys::describe(&error));
                    return;
                }
            }
        }
    }

    /// Lives as the process of a conversation. Returns the exit status.
    fn talk(&mut self, connection: OwnedFd) -> i32 {
        self.notifier = sys::notify::Notifier::default();
        self.listeners = crate::Listeners::default();
        self.companions = Companions::default();
        self.conversations = Conversations::default();
        let prepared = set_title(&format!("{}: control", self.about.program))
            .and_then(|()| die_with(self.pid, Signal::KILL))
            .and_then(|alive| unblock(&SIGNALS).map(|()| alive));
        match prepared {
            Ok(true) => self.hooks.converse(connection, self.pid, self.generation.identity.as_ref()).status(),
            Ok(false) => 0,
            Err(error) => {
                seam::log!(self.module(), Error, "{}: cannot answer at the control socket", sys::describe(&error));
                1
            }
        }
    }

    /// Takes leave of a conversation, and does what it asks for; `false`: it was none.
    pub(super) fn conversation_ended(&mut self, reaped: &Reaped) -> bool {
        let Some(at) = self.conversations.talking.iter().position(|(pid, _)| *pid == reaped.pid) else { return false };
        self.conversations.talking.swap_remove(at);
        if let Status::Exited(status) = reaped.status {
            let asked = match Request::of_status(status) {
                Request::Nothing => Asked::Nothing,
                Request::Graceful => Asked::Restart(Graceful::Yes),
                Request::Restart => Asked::Restart(Graceful::No),
                Request::GracefulStop => Asked::GracefulStop,
                Request::Stop => Asked::Stop,
            };
            self.asked = self.asked.max(asked);
        }
        true
    }
}
