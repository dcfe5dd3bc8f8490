//! The interface between the language and the system. The server implements it with the real system, tests with a
//! table.

use std::io;
use std::net::IpAddr;

/// The kinds of files that a configuration distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A regular file.
    Regular {
        /// Whether it has no content.
        is_empty: bool,
    },
    /// A device, a socket, a pipe.
    Special,
}

/// Files, names and environment, for reading a configuration.
pub trait System: Send + Sync {
    /// The whole contents of a regular file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// The names in a directory, in any order, without `.` and `..`.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// What `path` is (links followed).
    fn file_kind(&self, path: &str) -> io::Result<FileKind>;
    /// A variable of the process environment.
    fn env(&self, name: &str) -> Option<String>;
    /// The addresses of a host name.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
    /// The name of an address; `NotFound` if it has none.
    fn name_of(&self, address: IpAddr) -> io::Result<String>;
    /// The user of that name, with its primary group.
    fn user(&self, name: &str) -> Option<(u32, u32)>;
    /// The group of that name.
    fn group(&self, name: &str) -> Option<u32>;
    /// The name of this machine and, if it resolves to one with a dot, its full name.
    fn hostname(&self) -> (String, Option<String>);

    /// [`read`](System::read) for `Include`: the files of a configuration may come from elsewhere than the other files.
    fn read_included(&self, path: &str) -> io::Result<Vec<u8>> {
        self.read(path)
    }

    /// [`list`](System::list) for `Include`.
    fn list_included(&self, dir: &str) -> io::Result<Vec<String>> {
        self.list(dir)
    }

    /// [`file_kind`](System::file_kind) for `Include`.
    fn included_kind(&self, path: &str) -> io::Result<FileKind> {
        self.file_kind(path)
    }

    /// Whether `path` is a directory (links followed).
    fn is_dir(&self, path: &str) -> bool {
        matches!(self.file_kind(path), Ok(FileKind::Directory))
    }

    /// Whether `path` exists (links followed).
    fn exists(&self, path: &str) -> bool {
        self.file_kind(path).is_ok()
    }

    /// Whether `path` is a regular file (links followed).
    fn is_file(&self, path: &str) -> bool {
        matches!(self.file_kind(path), Ok(FileKind::Regular { .. }))
    }

    /// Whether `path` is a regular file that is not empty (links followed).
    fn is_filled_file(&self, path: &str) -> bool {
        matches!(self.file_kind(path), Ok(FileKind::Regular { is_empty: false }))
    }
}
