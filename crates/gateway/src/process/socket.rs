//! The daemons' socket in the file system (`ScriptSock`).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sys::local::SocketKind;
use sys::process::Pid;

/// How many connections may wait until a daemon accepts them; the kernel's `somaxconn` caps it.
const BACKLOG: i32 = 4096;

/// A socket that daemons accept from. Its file is removed when the process that opened it drops it.
#[derive(Debug)]
pub struct Socket {
    listener: Arc<OwnedFd>,
    path: Arc<Path>,
    opened_by: Pid,
}

impl Socket {
    /// Opens a socket at `path`, for `owner` to connect to if that is a different user. Removes what an earlier process
    /// left there.
    pub fn open(path: PathBuf, owner: Option<(u32, u32)>, kind: SocketKind) -> io::Result<Socket> {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = sys::local::listen(&path, BACKLOG, kind)?;
        if let Some((uid, gid)) = owner {
            // Anybody with write access to the directory could have put a link there meanwhile.
            std::os::unix::fs::lchown(&path, Some(uid), Some(gid))?;
        }
        Ok(Socket { listener: Arc::new(listener), path: path.into(), opened_by: Pid::own() })
    }

    /// The socket that daemons accept from.
    pub(crate) fn listener(&self) -> Arc<OwnedFd> {
        self.listener.clone()
    }

    /// Its path.
    pub fn path(&self) -> Arc<Path> {
        self.path.clone()
    }
}

static ADDRESS: Mutex<Option<Arc<Path>>> = Mutex::new(None);

/// The daemons' address in this process's configuration, if there are any.
pub fn address() -> Option<Arc<Path>> {
    ADDRESS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Sets it. For the parent, before it forks the children that need it.
pub fn set_address(path: Arc<Path>) {
    *ADDRESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.opened_by == Pid::own() {
            // The socket may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
