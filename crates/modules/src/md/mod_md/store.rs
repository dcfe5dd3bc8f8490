//! The directory for everything that has to outlive the server (`MDStoreDir`), in mod_md's layout:
//!
//! | | |
//! |---|---|
//! | `accounts/ID/account.json`, `account.pem` | accounts at certificate authorities, and their keys |
//! | `domains/NAME/md.json`, `pubcert.pem`, `privkey.pem` | the files in use; `fallback-*` until there are any |
//! | `challenges/NAME/` | challenge responses; the children read them |
//! | `staging/NAME/job.json` | the progress of an order |
//! | `tmp/NAME/` | new certificates before they move to `domains` |
//! | `archive/NAME.N/` | replaced certificates |
//!
//! Everything belongs to root alone, except for the challenges, which the children's group may read. A file is replaced
//! as a whole, so a reader never sees a part of one.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown, lchown};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The number of old certificates kept per domain.
const ARCHIVED_MAX: u32 = 1000;

/// The longest name of a domain: the systems' limit for a file name, less the suffix in the archive.
pub(super) const NAME_MAX: usize = 240;

/// The files of a challenge, with mod_md's names.
pub(super) const HTTP01: &str = "acme-http-01.txt";
pub(super) const TLS_ALPN01_CERTIFICATE: &str = "acme-tls-alpn-01.cert.pem";
pub(super) const TLS_ALPN01_KEY: &str = "acme-tls-alpn-01.key.pem";

/// Which file is under a name, and since when. Times are compared with each other only: the store may be on a file system with another
/// clock than ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// `None`: there is no file.
    pub(super) fn of(path: &Path) -> Option<Stamp> {
        let meta = fs::metadata(path).ok()?;
        let changed = (meta.mtime(), meta.mtime_nsec());
        Some(Stamp { file: (meta.dev(), meta.ino()), length: meta.len(), changed })
    }
}

/// Reads and writes the files below `MDStoreDir`.
#[derive(Clone, Debug)]
pub(super) struct Store {
    root: PathBuf,
}

impl Store {
    /// The store in this directory.
    pub(super) fn new(root: &str) -> Store {
        Store { root: server::paths::os_path(root) }
    }

    /// The path of a file or directory in the store.
    pub(super) fn path(&self, parts: &[&str]) -> PathBuf {
        parts.iter().fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Creates missing directories. Everyone may traverse the store to reach the challenges. `readers` is the
    /// children's group, if it differs from ours.
    pub(super) fn open(&self, readers: Option<u32>) -> io::Result<()> {
        make_directory(&self.root, 0o755)?;
        for group in ["accounts", "domains", "staging", "tmp", "archive"] {
            make_directory(&self.path(&[group]), 0o700)?;
        }
        make_readable(&self.path(&["challenges"]), readers)
    }

    /// Locks the store against other processes while the result lives. `None`: another process has the lock.
    pub(super) fn lock(&self) -> io::Result<Option<fs::File>> {
        let file = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.path(&["store.lock"]))?;
        Ok(sys::file::try_lock(&file)?.then_some(file))
    }

    /// Writes a file that only root can read.
    pub(super) fn write(&self, parts: &[&str], contents: &[u8]) -> io::Result<()> {
        let path = self.path(parts);
        if let Some(directory) = path.parent() {
            make_directory(directory, 0o700)?;
        }
        replace(&path, contents, 0o600, None)
    }

    /// Writes a challenge file, which the children may read, but no other users.
    pub(super) fn write_challenge(
        &self,
        name: &str,
        file: &str,
        contents: &[u8],
        readers: Option<u32>,
    ) -> io::Result<()> {
        make_readable(&self.path(&["challenges", name]), readers)?;
        replace(&self.path(&["challenges", name, file]), contents, 0o640, readers)
    }

    /// Removes the challenge files of a name.
    pub(super) fn remove_challenges(&self, name: &str) {
        // Leftovers prove nothing any more.
        let _ = fs::remove_dir_all(self.path(&["challenges", name]));
    }

    /// Reads a file; `None`: it does not exist.
    pub(super) fn read(&self, parts: &[&str]) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(parts)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a JSON file; null if it does not exist or is not JSON.
    pub(super) fn read_json(&self, parts: &[&str]) -> Value {
        self.read(parts).ok().flatten().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Writes JSON.
    pub(super) fn write_json(&self, parts: &[&str], value: &Value) -> io::Result<()> {
        self.write(parts, format!("{value:#}").as_bytes())
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, group: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(&[group])).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Prepares `tmp/NAME` for new files of a domain.
    pub(super) fn begin(&self, name: &str) -> io::Result<()> {
        match fs::remove_dir_all(self.path(&["tmp", name])) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Moves the files of `tmp/NAME` to `domains/NAME`, and the old ones to the archive.
    pub(super) fn activate(&self, name: &str) -> io::Result<()> {
        let (new, current) = (self.path(&["tmp", name]), self.path(&["domains", name]));
        if current.exists() {
            let old = self.place_in_archive(name)?;
            fs::rename(&current, old)?;
        }
        fs::rename(new, current)
    }

    /// A free place in the archive. If there is none, removes the oldest entry and returns its place.
    fn place_in_archive(&self, name: &str) -> io::Result<PathBuf> {
        let all = || (1..ARCHIVED_MAX).map(|number| self.path(&["archive", &format!("{name}.{number}")]));
        if let Some(free) = all().find(|path| !path.exists()) {
            return Ok(free);
        }
        let oldest = all().min_by_key(|path| fs::metadata(path).and_then(|meta| meta.modified()).ok());
        let oldest = oldest.ok_or(ErrorKind::NotFound)?;
        fs::remove_dir_all(&oldest)?;
        Ok(oldest)
    }
}

/// Creates a directory that a group may read. Only root may write there: others could redirect root's writes.
fn make_readable(path: &Path, readers: Option<u32>) -> io::Result<()> {
    make_directory(path, 0o750)?;
    readers.map_or(Ok(()), |group| lchown(path, None, Some(group)))
}

fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(mode).create(path) {
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("cannot create the directory {}: {error}", path.display())))
        }
        Ok(()) => Ok(()),
    }
}

/// Replaces a file as a whole with these contents.
fn replace(path: &Path, contents: &[u8], mode: u32, group: Option<u32>) -> io::Result<()> {
    let new = path.with_extension("new");
    let written = write_new(&new, contents, mode, group).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| io::Error::new(error.kind(), format!("{} cannot be written: {error}", path.display())))
}

fn write_new(path: &Path, contents: &[u8], mode: u32, group: Option<u32>) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(mode).open(path)?;
    file.write_all(contents)?;
    group.map_or(Ok(()), |group| fchown(&file, None, Some(group)))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Whatever the clock of the file's machine says.
    #[test]
    fn a_file_from_the_past_is_another_file() {
        let directory = std::env::temp_dir().join(format!("tsubame-stamps-{:016x}", sys::random::number()));
        fs::create_dir(&directory).expect("a directory");
        let path = |name: &str| directory.join(name);
        let write = |name: &str, time| {
            let mut file = fs::File::create(path(name)).expect("a file");
            file.write_all(b"certificate").and_then(|()| file.set_modified(time)).expect("written");
        };
        assert_eq!(Stamp::of(&path("a")), None);
        let now = fs::metadata(&directory).and_then(|meta| meta.modified()).expect("a time");
        write("a", now);
        let seen = Stamp::of(&path("a"));
        assert_eq!(Stamp::of(&path("a")), seen);
        write("b", now - Duration::from_secs(3600));
        fs::rename(path("b"), path("a")).expect("renamed");
        assert_ne!(Stamp::of(&path("a")), seen);
        fs::remove_dir_all(directory).expect("removed");
    }
}
