//! Opening what a log writes to, and recognising it again.

use std::io;
use std::os::fd::OwnedFd;

use crate::paths::c_path;

/// A file: its device and its inode.
pub(crate) type Identity = (u64, u64);

/// What was opened by a name.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) is_pipe: bool,
    pub(crate) is_socket: bool,
    /// `None`: it is no regular file.
    pub(crate) identity: Option<Identity>,
}

impl Opened {
    pub(super) fn of(fd: OwnedFd) -> io::Result<Opened> {
        let meta = sys::file::fstat(&fd)?;
        let identity = Some((meta.dev, meta.ino)).filter(|_| meta.is_file());
        Ok(Opened { fd, is_pipe: meta.is_pipe(), is_socket: meta.is_socket(), identity })
    }
}

/// Opens a file for appending.
pub(crate) fn open_file(target: &str) -> io::Result<Opened> {
    Opened::of(sys::file::open_append(&path(target)?, 0o644)?)
}

/// Opens a file for appending when nobody has given an order: whoever may write to the directory of a log must not choose
/// the file that root writes to.
pub(crate) fn reopen_file(target: &str) -> io::Result<Opened> {
    Opened::of(sys::file::open_append_guarded(&path(target)?, 0o644)?)
}

/// Whether a target is the name of a file, and not of a device or of whatever a process has open. `/dev/shm` has files.
pub(crate) fn has_own_name(target: &str) -> bool {
    target.starts_with("/dev/shm/") || !["/dev/", "/proc/"].iter().any(|place| target.starts_with(place))
}

pub(crate) fn path(target: &str) -> io::Result<std::ffi::CString> {
    Ok(c_path(target).ok_or(io::ErrorKind::InvalidInput)?)
}

/// What this process was started with, where a target is a name for that (`/dev/stderr`). By its name it cannot be opened if
/// it is a socket or another user's, and a file would be written from two places. A pipe or a terminal that can be opened by its
/// name is: only then is it for this process to say that a write does not wait.
pub(crate) fn inherited(target: &str) -> Option<OwnedFd> {
    let number = match target {
        "/dev/stdout" => 1,
        "/dev/stderr" => 2,
        _ => ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|prefix| target.strip_prefix(prefix))?.parse().ok()?,
    };
    let fd = sys::file::duplicate(number).ok()?;
    let meta = sys::file::fstat(&fd).ok()?;
    let has_own_mode = !meta.is_file() && !meta.is_socket() && could_be_opened(target).is_ok();
    (!has_own_mode).then_some(fd)
}

/// Whether a file could be opened for adding lines, or made. Nothing is made.
pub(crate) fn could_be_opened(target: &str) -> io::Result<()> {
    let path = self::path(target)?;
    match sys::file::stat(&path) {
        Ok(meta) if meta.is_dir() => Err(io::Error::from_raw_os_error(sys::errno::IS_DIRECTORY)),
        Ok(_) => sys::file::may_write(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            sys::file::may_write(&self::path(crate::paths::dir_name(target))?)
        }
        Err(error) => Err(error),
    }
}
