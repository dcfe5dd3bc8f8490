//! Files: opening them without surprises, and their metadata.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{self, Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};

/// The number that the next descriptor of this process will have: the lowest that is free.
pub fn next_number() -> io::Result<i32> {
    Ok(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?.as_raw_fd())
}

/// The metadata of a file, as the server needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The device it is on.
    pub dev: u64,
    /// Its inode number.
    pub ino: u64,
    /// Its length in bytes.
    pub size: u64,
    /// The last change of its content, in nanoseconds since 1970.
    pub mtime: i128,
    /// The last change of it or its metadata, in nanoseconds since 1970; cannot be set back.
    pub ctime: i128,
    /// Type and permission bits (`st_mode`).
    pub mode: u32,
    /// The number of the user who owns it.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

impl Meta {
    fn of(stat: &fs::Stat) -> Meta {
        Meta {
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: stat.st_size.unsigned_abs(),
            mtime: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
            ctime: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }
    }

    fn is(&self, wanted: FileType) -> bool {
        FileType::from_raw_mode(self.mode) == wanted
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.is(FileType::RegularFile)
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.is(FileType::Directory)
    }

    /// Whether it is a pipe.
    pub fn is_pipe(&self) -> bool {
        self.is(FileType::Fifo)
    }

    /// Whether it is a socket.
    pub fn is_socket(&self) -> bool {
        self.is(FileType::Socket)
    }

    /// Whether it is a symbolic link (never after following one).
    pub fn is_symlink(&self) -> bool {
        self.is(FileType::Symlink)
    }

    /// Whether anybody at all may execute it.
    pub fn is_executable(&self) -> bool {
        self.mode & 0o111 != 0
    }
}

/// The metadata of a path's target, following links.
pub fn stat(path: &CStr) -> io::Result<Meta> {
    Ok(Meta::of(&fs::stat(path)?))
}

/// The metadata of a path itself, without following a link.
pub fn lstat(path: &CStr) -> io::Result<Meta> {
    Ok(Meta::of(&fs::lstat(path)?))
}

/// The target of a symbolic link.
pub fn read_link(path: &CStr) -> io::Result<CString> {
    Ok(fs::readlink(path, Vec::new())?)
}

/// The metadata of an open file.
pub fn fstat(file: impl AsFd) -> io::Result<Meta> {
    Ok(Meta::of(&fs::fstat(file)?))
}

/// Opens for reading. Never waits, not even for a pipe or a device, and never takes a terminal.
pub fn open(path: &CStr) -> io::Result<OwnedFd> {
    Ok(fs::open(path, READ, Mode::empty())?)
}

/// Like [`open`], but the way behind the first `followed` bytes of the path leads through no symbolic link, or only through
/// those whose target belongs to the link's owner (`Options -FollowSymLinks`, `SymLinksIfOwnerMatch`). A
/// [loop](is_loop) is reported where another link is met. The part that is followed ends before a slash.
pub fn open_guarded(path: &CStr, followed: usize, same_owner: bool) -> io::Result<OwnedFd> {
    let (before, behind) = path.to_bytes().split_at_checked(followed).ok_or(io::ErrorKind::InvalidInput)?;
    let before = if before.is_empty() { &b"/"[..] } else { before };
    let start = fs::open(before, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut left = parts(behind);
    let behind: Vec<u8> = left.iter().rev().flat_map(|part| [b"/", &part[..]].concat()).skip(1).collect();
    match fs::openat2(&start, &behind[..], READ, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(rustix::io::Errno::LOOP) if same_owner => {}
        // Kernels before 5.6, and filters of system calls that do not know this one.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
        result => return Ok(result?),
    }
    let mut at = start;
    while let Some(part) = left.pop() {
        let how = if left.is_empty() { READ } else { OFlags::PATH | OFlags::CLOEXEC };
        let link = Meta::of(&fs::statat(&at, &part[..], AtFlags::SYMLINK_NOFOLLOW)?);
        let may_follow = link.is_symlink() && same_owner;
        let next = fs::openat(&at, &part[..], if may_follow { how } else { how | OFlags::NOFOLLOW }, Mode::empty())?;
        let there = Meta::of(&fs::fstat(&next)?);
        // A path is opened even where it is a link.
        if there.is_symlink() || may_follow && there.uid != link.uid {
            return Err(rustix::io::Errno::LOOP.into());
        }
        at = next;
    }
    Ok(at)
}

/// Whether an error says that links lead nowhere, or that there is one where none may be.
pub fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// Opens for appending (creating with these permission bits), as for log files. Never waits; for a pipe or a device,
/// writing does not wait either, but fails with `WouldBlock`. A pipe that nobody reads yet is opened for reading too,
/// so that it takes what it can hold.
pub fn open_append(path: &CStr, mode: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(mode);
    match fs::open(path, flags | OFlags::WRONLY, mode) {
        Err(rustix::io::Errno::NXIO) => Ok(fs::open(path, flags | OFlags::RDWR, mode)?),
        result => Ok(result?),
    }
}

/// Like [`open_append`], for a name in a directory that others may write to: they must not lead it to a file of their choice.
/// A link on the way is followed only where its directory is root's or ours, and nobody else's to write; in any other
/// directory the name must lead to a plain file without a second name. `ELOOP`: it leads elsewhere.
pub fn open_append_guarded(path: &CStr, mode: u32) -> io::Result<OwnedFd> {
    /// As the kernel follows (path_resolution(7)).
    const LINKS_MAX: usize = 40;
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let refused = || io::Error::from(rustix::io::Errno::LOOP);
    let mut left: Vec<Vec<u8>> = parts(path.to_bytes());
    let mut at = fs::open("/", way, Mode::empty())?;
    let mut links = 0;
    while let Some(part) = left.pop() {
        let name = CString::new(part)?;
        let kind = fs::statat(&at, &name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Meta::of(&stat));
        let is_own = is_own_alone(&Meta::of(&fs::fstat(&at)?));
        if kind.is_ok_and(|meta| meta.is_symlink()) {
            links += 1;
            if !is_own || links > LINKS_MAX {
                return Err(refused());
            }
            let target = fs::readlinkat(&at, &name, Vec::new())?;
            if target.to_bytes().starts_with(b"/") {
                at = fs::open("/", way, Mode::empty())?;
            }
            left.extend(parts(target.to_bytes()));
        } else if left.is_empty() {
            let flags = OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
            let flags = flags | OFlags::WRONLY | OFlags::NOFOLLOW;
            let file = fs::openat(&at, &name, flags, Mode::from_raw_mode(mode))?;
            let stat = fs::fstat(&file)?;
            let is_plain = Meta::of(&stat).is_file() && stat.st_nlink == 1;
            return if is_own || is_plain { Ok(file) } else { Err(refused()) };
        } else {
            at = fs::openat(&at, &name, way, Mode::empty())?;
        }
    }
    Err(rustix::io::Errno::ISDIR.into())
}

/// The parts of a path, the last one first.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && part != b".").rev().map(<[u8]>::to_vec).collect()
}

/// Whether only root or this process's user can change what is in a directory.
fn is_own_alone(directory: &Meta) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    (directory.uid == 0 || directory.uid == crate::cred::uid()) && directory.mode & OTHERS_WRITE == 0
}

/// Lets a descriptor lead to the file of another one. Its number stays, so whoever knows it goes on with that file; copies in
/// other processes stay with the old one.
pub fn redirect(descriptor: impl AsFd, to: OwnedFd) -> io::Result<()> {
    let (to, number) = (to.as_raw_fd(), descriptor.as_fd().as_raw_fd());
    // SAFETY: dup3 replaces in one step what an open descriptor leads to. It stays open, and stays its owner's.
    if unsafe { libc::dup3(to, number, libc::O_CLOEXEC) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a file for reading and writing in that directory, with these permission bits where the umask allows them. It
/// has no name, and disappears with its last descriptor unless it gets one. Not every file system has such files.
pub fn unnamed(directory: &std::path::Path, mode: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    Ok(fs::open(directory, flags, Mode::from_raw_mode(mode))?)
}

/// Gives an unnamed file a new name in the same file system. Needs `/proc`.
pub fn give_name(file: impl AsFd, path: &std::path::Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Sets the capacity of a pipe, in bytes. More than the system grants a user (`/proc/sys/fs/pipe-max-size`) is an
/// error, and leaves the pipe unchanged.
pub fn set_pipe_size(pipe: impl AsFd, bytes: usize) -> io::Result<()> {
    rustix::pipe::fcntl_setpipe_size(pipe, bytes)?;
    Ok(())
}

/// How many bytes wait in a pipe.
pub fn waiting(pipe: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(pipe)?)
}

/// Reads at a position, without moving the file's own. Returns 0 at the end.
pub fn read_at(file: impl AsFd, into: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(file, into, offset)?)
}

/// Like [`read_at`], but appends at most `most` bytes to `into`, which grows where it has no room for them.
pub fn read_at_into(file: impl AsFd, into: &mut Vec<u8>, most: usize, offset: u64) -> io::Result<usize> {
    into.reserve(most);
    let filled = rustix::io::pread(file, &mut into.spare_capacity_mut()[..most], offset)?.0.len();
    // SAFETY: the call has initialised that many bytes after the present length, within the capacity.
    unsafe { into.set_len(into.len() + filled) };
    Ok(filled)
}

/// Reads from a pipe or another file without positions. Returns 0 at the end.
pub fn read(file: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(file, into)?)
}

/// Reads into the spare room of `into`, from a pipe or another file without positions. Returns 0 at the end.
pub fn read_into(file: impl AsFd, into: &mut Vec<u8>) -> io::Result<usize> {
    Ok(rustix::io::read(file, rustix::buffer::spare_capacity(into))?)
}

/// Makes reading and writing fail with `WouldBlock` instead of waiting. For a pipe this affects our end only.
pub fn set_nonblocking(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(file, true)?)
}

/// Writes as much as possible.
pub fn write(file: impl AsFd, from: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(file, from)?)
}

/// Whether this process, as its current user, may read (or, with `execute`, run) a file.
pub fn may_access(path: &CStr, execute: bool) -> io::Result<()> {
    let access = if execute { Access::EXEC_OK } else { Access::READ_OK };
    Ok(fs::accessat(CWD, path, access, AtFlags::EACCESS)?)
}

/// Whether this process may write to a file, or make and remove files in a directory.
pub fn may_write(path: &CStr) -> io::Result<()> {
    Ok(fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Another descriptor of what this process has open under a number, closed on exec.
pub fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes any number, and fails where nothing is open under it.
    let new = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if new < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}

/// Waits until no other descriptor of this file holds a conflicting lock, and locks it (flock(2)) until it is closed.
/// The locks of a process end with it.
pub fn lock(file: impl AsFd, exclusive: bool) -> io::Result<()> {
    use rustix::fs::FlockOperation::{LockExclusive, LockShared};
    let operation = if exclusive { LockExclusive } else { LockShared };
    loop {
        match fs::flock(&file, operation) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Locks a file exclusively like [`lock`], unless it would have to wait; returns whether it did.
pub fn try_lock(file: impl AsFd) -> io::Result<bool> {
    match fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}

/// A directory opened for inspection, whatever its name is by now.
#[derive(Debug)]
pub struct OpenDirectory(OwnedFd);

/// The owner and permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The number of the user who owns it.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// Permissions with the setuid, setgid and sticky bits.
    pub mode: u32,
    /// Not a link, a directory or a device.
    pub regular: bool,
}

impl Ownership {
    fn of(stat: &rustix::fs::Stat) -> Ownership {
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        Ownership { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode & 0o7777, regular }
    }
}

impl OpenDirectory {
    /// Opens it, following links.
    pub fn open(path: &std::path::Path) -> io::Result<OpenDirectory> {
        use rustix::fs::{Mode, OFlags};
        Ok(OpenDirectory(rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Its current name, without links.
    pub fn name(&self) -> io::Result<std::path::PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Its owner and permissions.
    pub fn ownership(&self) -> io::Result<Ownership> {
        Ok(Ownership::of(&rustix::fs::fstat(&self.0)?))
    }

    /// The owner and permissions of a file in it; for a link, the link's own.
    pub fn ownership_of(&self, name: &std::ffi::CStr) -> io::Result<Ownership> {
        Ok(Ownership::of(&rustix::fs::statat(&self.0, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?))
    }
}

impl AsFd for OpenDirectory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files() {
        let passwd = stat(c"/etc/passwd").expect("stat");
        assert!(passwd.is_file() && !passwd.is_dir() && !passwd.is_executable());
        let file = open(c"/etc/passwd").expect("open");
        assert_eq!(fstat(&file).expect("fstat"), passwd);
        let mut start = [0; 4];
        assert_eq!((read_at(&file, &mut start, 0).ok(), &start), (Some(4), b"root"));
        assert!(lstat(c"/proc/self").expect("lstat").is_symlink());
        assert!(stat(c"/proc/self").expect("stat").is_dir());
        let guarded = |path: &CStr, followed, same_owner| match open_guarded(path, followed, same_owner) {
            Ok(file) => fstat(&file).map(|meta| meta.is_file()).ok(),
            Err(error) => (!is_loop(&error)).then_some(false),
        };
        assert_eq!(guarded(c"/etc/passwd", 0, false), Some(true));
        assert_eq!(guarded(c"/proc/self/status", 0, false), None, "a link on the way");
        assert_eq!(guarded(c"/proc/self/status", "/proc/self".len(), false), Some(true), "it may be followed");
        assert_eq!(guarded(c"/proc/self/status", "/proc".len(), true), Some(true), "the process is its own");
        assert_eq!(guarded(c"/proc/self/none", "/proc".len(), true), Some(false));
        assert!(may_access(c"/bin/sh", true).is_ok() && may_access(c"/etc/passwd", true).is_err());
    }
}
