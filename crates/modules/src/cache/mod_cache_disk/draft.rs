//! Writing responses to files, and removing them. A file has a temporary name until it is complete, so that a server that is
//! killed leaves no response that looks whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::paths::{Paths, Root};
use super::turn::{Turn, hold, hold_to_store, in_turn};
use crate::cache::entry::Entry;
use crate::cache::format::{self, Identity, Layout, encode_variants, varies_by};
use crate::cache::storage::{Draft, Job, Place};

/// The beginning of the names of files that are not complete: those of Apache, which htcacheclean removes.
const TEMPORARY: &str = "aptmp";

/// A response on its way into the files.
pub(super) struct DiskDraft {
    root: Root,
    key: Vec<u8>,
    entry: Entry,
    sizes: RangeInclusive<u64>,
    /// The length of the whole body, if it is known.
    expected: Option<u64>,
    body: Option<Temporary>,
    length: u64,
}

impl DiskDraft {
    pub(super) fn new(
        root: Root,
        key: Vec<u8>,
        entry: Entry,
        sizes: RangeInclusive<u64>,
        expected: Option<u64>,
    ) -> DiskDraft {
        DiskDraft { root, key, entry, sizes, expected, body: None, length: 0 }
    }
}

impl Draft for DiskDraft {
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.length += piece.len() as u64;
        if self.length > *self.sizes.end() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let body = match &mut self.body {
            Some(body) => body,
            empty => empty.insert(Temporary::new(&self.root.directory)?),
        };
        body.file.write_all(piece)
    }

    fn commit(self: Box<Self>) -> Job {
        let DiskDraft { root, key, entry, .. } = &*self;
        let primary = root.primary(key);
        let paths = match entry.fields.joined("Vary") {
            None => primary.clone(),
            Some(vary) => {
                root.variant(&primary, &varies_by(&vary), key, |name| entry.asked.joined(name).map(Into::into))
            }
        };
        let began = sys::time::realtime();
        Box::pin(in_turn(hold_to_store, paths.clone(), move |turn| match turn {
            // A crowd that has asked for the same is served by what the first one stores.
            Turn::Held(_) if is_newer(&paths, began) => Err(io::ErrorKind::AlreadyExists.into()),
            Turn::Held(_) => self.store(&primary, &paths),
            // Whoever replaces the files now stores a response to the same question.
            Turn::Taken | Turn::Nowhere => Err(io::ErrorKind::ResourceBusy.into()),
        }))
    }
}

impl DiskDraft {
    fn store(self, primary: &Paths, paths: &Paths) -> io::Result<()> {
        let DiskDraft { root, key, mut entry, sizes, expected, body, length } = self;
        if !entry.header_only {
            if expected.is_some_and(|expected| expected != length) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if !sizes.contains(&length) {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            // Whoever reads the files can tell whether they are complete.
            entry.fields.set("Content-Length", length.to_string());
        }
        let identity = match body {
            None => None,
            Some(body) => {
                let meta = body.file.metadata()?;
                body.put(&paths.data)?;
                Some(Identity { inode: meta.ino(), device: meta.dev() })
            }
        };
        write_head(&root, primary, paths, format::Stored { key, entry, identity })
    }
}

/// Whether a response was stored here since that moment, a time since 1970. A time to come is that of a clock that was wrong.
fn is_newer(paths: &Paths, moment: Duration) -> bool {
    let stored = fs::metadata(&paths.header).ok().and_then(|meta| meta.modified().ok());
    let stored = stored.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    stored.is_some_and(|at| at > moment && at <= sys::time::realtime())
}

pub(super) fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Writes the head of a response and, if it varies, the list of the fields that it varies by.
fn write_head(root: &Root, primary: &Paths, paths: &Paths, stored: format::Stored) -> io::Result<()> {
    let put = |bytes: &[u8], path: &Path| {
        let mut file = Temporary::new(&root.directory)?;
        file.file.write_all(bytes)?;
        file.put(path)
    };
    put(&stored.encode(Layout::File), &paths.header)?;
    match stored.entry.fields.joined("Vary") {
        None => Ok(()),
        Some(vary) => put(&encode_variants(Layout::File, &varies_by(&vary), stored.entry.expire), &primary.header),
    }
}

/// A response in the files.
pub(super) struct Stored {
    pub(super) root: Root,
    pub(super) key: Vec<u8>,
    pub(super) paths: Paths,
    pub(super) identity: Option<Identity>,
    /// The fields that it varies by.
    pub(super) vary: Option<String>,
}

impl Place for Stored {
    fn refresh(self: Box<Self>, entry: Entry) -> Job {
        Box::pin(in_turn(hold, self.paths.clone(), move |turn| {
            // It would not be found where it is.
            if entry.fields.joined("Vary") != self.vary {
                return remove_files(&self.root, &self.paths);
            }
            if !matches!(turn, Turn::Held(_)) || !self.has_own_body() {
                // Another response takes its place, or has taken it.
                return Ok(());
            }
            let primary = self.root.primary(&self.key);
            let stored = format::Stored { key: self.key, entry, identity: self.identity };
            write_head(&self.root, &primary, &self.paths, stored)
        }))
    }

    fn remove(self: Box<Self>) -> Job {
        Box::pin(in_turn(hold, self.paths.clone(), move |_| remove_files(&self.root, &self.paths)))
    }
}

impl Stored {
    /// Whether the body is still that of this response.
    fn has_own_body(&self) -> bool {
        let is_own = |Identity { inode, device }| {
            fs::metadata(&self.paths.data).is_ok_and(|meta| (meta.ino(), meta.dev()) == (inode, device))
        };
        self.identity.is_none_or(is_own)
    }
}

/// Removes all responses under a key: those that vary must not come back when the next one varies by the same fields.
pub(super) fn remove_all(root: Root, primary: Paths) -> Job {
    Box::pin(in_turn(hold, primary.clone(), move |_| remove_all_files(&root, &primary)))
}

/// The same, by the caller.
pub(super) fn remove_all_files(root: &Root, primary: &Paths) -> io::Result<()> {
    gone(fs::remove_dir_all(&primary.variants))?;
    remove_files(root, primary)
}

/// Removes the files of a response, and directories that are empty then.
pub(super) fn remove_files(root: &Root, paths: &Paths) -> io::Result<()> {
    gone(fs::remove_file(&paths.header))?;
    gone(fs::remove_file(&paths.data))?;
    let above = paths.header.ancestors().skip(1).take_while(|above| **above != *root.directory);
    // The first one with other responses ends this.
    let _ = above.into_iter().try_for_each(fs::remove_dir);
    Ok(())
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file that is removed unless it gets its name.
struct Temporary {
    file: File,
    path: Option<PathBuf>,
}

impl Temporary {
    fn new(directory: &Path) -> io::Result<Temporary> {
        loop {
            let path = directory.join(format!("{TEMPORARY}{:06x}", sys::random::number() & 0xFF_FFFF));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok(Temporary { file, path: Some(path) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Replaces what has this name.
    fn put(mut self, path: &Path) -> io::Result<()> {
        let Some(own) = &self.path else { return Ok(()) };
        if fs::rename(own, path).is_err() {
            // There is no directory yet, or htcacheclean has just removed it.
            let directory = path.parent().unwrap_or(path);
            make(directory)?;
            fs::rename(own, path)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Otherwise htcacheclean does it.
            let _ = fs::remove_file(path);
        }
    }
}
