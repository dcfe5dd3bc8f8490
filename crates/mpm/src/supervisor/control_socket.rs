//! The control socket, and the conversations over it that go on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sys::local::SocketKind;
use sys::process::Pid;
use sys::time::monotonic;

/// How many conversations there may be at once; further clients wait in the socket's queue.
const TALKING_MAX: usize = 8;
/// How many clients may wait to be accepted.
const BACKLOG: i32 = 16;

/// The control socket and its conversations.
#[derive(Debug, Default)]
pub(super) struct ControlSocket {
    pub(super) socket: Option<Socket>,
    /// The conversations, each with its start on the monotonic clock.
    pub(super) talking: Vec<(Pid, Duration)>,
    /// Accept nobody before this time on the monotonic clock, after a failed attempt.
    pub(super) deaf_until: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Socket {
    listener: OwnedFd,
    pub(super) path: PathBuf,
    /// Device and inode of the file that we made. While the listener is open, no other file can have them.
    file: Option<(u64, u64)>,
}

impl Socket {
    /// Replaces a socket that nobody listens on (a killed server leaves one), or that is our own or the
    /// `predecessor`'s. Another server's socket is not ours to replace, nor is any other file.
    pub(super) fn open(path: PathBuf, predecessor: Option<Pid>) -> io::Result<Socket> {
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "another file is there, which is not a socket",
                ));
            }
            Ok(_) => {
                let ours = |pid| pid == Pid::own() || Some(pid) == predecessor;
                let listens = sys::local::connect(&path, SocketKind::Stream).and_then(sys::local::peer_process);
                // `WouldBlock`: its queue is full.
                if listens.as_ref().map_or_else(|error| error.kind() == io::ErrorKind::WouldBlock, |pid| !ours(*pid)) {
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
                }
                std::fs::remove_file(&path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = sys::local::listen(&path, BACKLOG, SocketKind::Stream)?;
        let file = identity(&path);
        Ok(Socket { listener, path, file })
    }

    /// Whether the file is still the one we made.
    pub(super) fn is_there(&self) -> bool {
        self.file.is_some() && self.file == identity(&self.path)
    }

    pub(super) fn close(self) {
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

impl ControlSocket {
    /// The descriptor that becomes readable when a client connects; `None` while no client would be accepted.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let listens =
            self.talking.len() < TALKING_MAX && self.deaf_until.is_none_or(|deaf_until| monotonic() >= deaf_until);
        self.socket.as_ref().filter(|_| listens).map(|socket| socket.listener.as_fd())
    }
}
