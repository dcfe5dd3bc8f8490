//! The socket where daemons are asked, in the file system (`ScriptSock`).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sys::local::Kind;
use sys::process::Pid;

/// How many connections may wait until a daemon accepts them; the kernel's `somaxconn` caps it.
const BACKLOG: i32 = 4096;

/// A socket that daemons accept from. Its file goes when the process that opened it drops it.
#[derive(Debug)]
pub struct Socket {
    listener: Arc<OwnedFd>,
    path: Arc<Path>,
    opened_by: Pid,
}

impl Socket {
    /// Opens one at `path` (what an earlier process left there is removed), for `owner` to connect to, if that is somebody
    /// else.
    pub fn open(path: PathBuf, owner: Option<(u32, u32)>, kind: Kind) -> io::Result<Socket> {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = sys::local::listen(&path, BACKLOG, kind)?;
        if let Some((uid, gid)) = owner {
            // Anybody who may write to the directory could have put a link there meanwhile.
            std::os::unix::fs::lchown(&path, Some(uid), Some(gid))?;
        }
        Ok(Socket { listener: Arc::new(listener), path: path.into(), opened_by: Pid::own() })
    }

    /// What daemons accept from.
    pub(crate) fn listener(&self) -> Arc<OwnedFd> {
        self.listener.clone()
    }

    /// Where it is.
    pub fn path(&self) -> Arc<Path> {
        self.path.clone()
    }
}

static ADDRESS: Mutex<Option<Arc<Path>>> = Mutex::new(None);

/// Where the daemons of this process's configuration are asked, if there are any.
pub fn address() -> Option<Arc<Path>> {
    ADDRESS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Says where. For the parent, before it forks the children that are to know.
pub fn set_address(path: Arc<Path>) {
    *ADDRESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.opened_by == Pid::own() {
            // Somebody may have removed it already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
