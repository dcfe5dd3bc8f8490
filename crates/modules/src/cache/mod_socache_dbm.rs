//! A cache in files, `dbm:PATH`.
//!
//! Apache manual: mod_socache_dbm. In Apache all objects are in one DBM file, which each request locks; here each has a file of
//! its own in a directory, and nobody waits for anybody.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use conf::ModuleInfo;
use runtime::{Load, offload};
use server::module::{OBJECT_MAX, ObjectCache, Opening, SharedCache};
use server::paths::os_path;
use server::{Hook, Module, Waiting};
use sha2::{Digest, Sha256};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "socache_dbm_module", source: "mod_socache_dbm.c", linked: false, directives: &[] },
    hooks: &[Hook::SharedCache(&CACHE)],
};

static CACHE: SharedCache =
    SharedCache { names: &["dbm"], check: |_| Ok(()), is_remote: false, keeps_debts: false, open };

/// What comes after the path in the name of the directory.
const SUFFIX: &str = ".objects";
/// What comes after the name of a file that is not complete.
const TEMPORARY: &str = "tmp";
/// How many objects a child stores between two looks for expired ones.
const LOOK: u64 = 64;
/// The most bytes on the disk of all objects: if there are more, those that expire first go.
const BYTES_MAX: u64 = 1 << 30;
/// The most objects, in the same way.
const OBJECTS_MAX: usize = 100_000;
/// The unit in which the system counts what a file takes, in bytes.
const BLOCK: u64 = 512;
/// A file begins with the second of expiry, in bytes of this number.
const EXPIRY: usize = size_of::<u64>();
/// How old a file may be that is not complete, in seconds: its process was killed.
const TEMPORARY_MAX: u64 = 60;

/// Makes the directory. What others could write there would be taken for objects of ours.
fn open(opening: &Opening<'_>) -> io::Result<Arc<dyn ObjectCache>> {
    let language = &opening.server.language;
    let path = match opening.argument.filter(|path| !path.is_empty()) {
        Some(path) => conf::paths::join(&language.server_root, path),
        None => conf::paths::join(&language.runtime_dir(), &format!("socache-dbm-{}", opening.user)),
    };
    let directory = os_path(&format!("{path}{SUFFIX}")).to_path_buf();
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => {
            made?;
            if let Some(children) = opening.children {
                lchown(&directory, Some(children.uid), Some(children.gid))?;
            }
        }
    }
    let meta = fs::symlink_metadata(&directory)?;
    let own = opening.children.map_or_else(sys::cred::uid, |children| children.uid);
    if !meta.is_dir() || meta.mode() & 0o022 != 0 || meta.uid() != own {
        let text =
            format!("{} must be a directory of the server's user that nobody else may write to", directory.display());
        return Err(io::Error::other(text));
    }
    Ok(Arc::new(Dbm { directory, stored: AtomicU64::new(0) }))
}

struct Dbm {
    directory: PathBuf,
    /// How many objects this child has stored.
    stored: AtomicU64,
}

impl Dbm {
    fn file(&self, key: &[u8]) -> PathBuf {
        let digest = Sha256::digest(key);
        self.directory.join(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }
}

impl ObjectCache for Dbm {
    fn get<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<Option<Bytes>>> {
        let file = self.file(key);
        Box::pin(offload(Load::Wait, move || read(&file)))
    }

    fn put<'a>(&'a self, key: &'a [u8], object: Bytes, lifetime: Duration) -> Waiting<'a, io::Result<()>> {
        let file = self.file(key);
        let looks = self.stored.fetch_add(1, Ordering::Relaxed) % LOOK == LOOK - 1;
        Box::pin(offload(Load::Wait, move || {
            write(&file, &object, now().saturating_add(lifetime.as_secs().max(1)))?;
            if looks {
                // The object is stored all the same.
                let _ = clean(file.parent().unwrap_or(&file), BYTES_MAX, OBJECTS_MAX);
            }
            Ok(())
        }))
    }

    fn remove<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, io::Result<()>> {
        let file = self.file(key);
        Box::pin(offload(Load::Wait, move || gone(fs::remove_file(file))))
    }
}

fn now() -> u64 {
    sys::time::realtime().as_secs()
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Until when an object is good.
fn expiry(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn read(path: &Path) -> io::Result<Option<Bytes>> {
    let file = match OpenOptions::new().read(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take((OBJECT_MAX + EXPIRY) as u64 + 1).read_to_end(&mut bytes)?;
    let is_good = expiry(&bytes).is_some_and(|expiry| expiry > now()) && bytes.len() <= OBJECT_MAX + EXPIRY;
    if !is_good {
        gone(fs::remove_file(path))?;
    }
    Ok(is_good.then(|| Bytes::from(bytes).slice(EXPIRY..)))
}

/// A file gets its name when it is complete.
fn write(path: &Path, object: &[u8], expiry: u64) -> io::Result<()> {
    let temporary = path.with_extension(format!("{:016x}{TEMPORARY}", sys::random::number()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file
        .write_all(&expiry.to_le_bytes())
        .and_then(|()| file.write_all(object))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Otherwise it goes when somebody looks for what has expired.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Removes what has expired, and if there are still more bytes or objects than this, what expires first.
fn clean(directory: &Path, most_bytes: u64, most_objects: usize) -> io::Result<()> {
    let (now, mut good, mut bytes) = (now(), Vec::new(), 0);
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // Another process may do the same.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let mut start = Vec::new();
        let is_whole = !path.to_string_lossy().ends_with(TEMPORARY);
        let expiry = match is_whole {
            true => fs::File::open(&path).and_then(|file| file.take(EXPIRY as u64).read_to_end(&mut start)).ok(),
            false => None,
        };
        let expiry = match expiry {
            Some(_) => expiry_of(&start),
            None => u64::try_from(meta.mtime()).unwrap_or(0).saturating_add(TEMPORARY_MAX),
        };
        // What cannot be removed takes its place.
        if expiry > now || gone(fs::remove_file(&path)).is_err() {
            let size = size(&meta);
            bytes += size;
            good.push((expiry, size, path));
        }
    }
    good.sort();
    let mut objects = good.len();
    for (_, size, path) in good {
        if bytes <= most_bytes && objects <= most_objects {
            break;
        }
        if gone(fs::remove_file(&path)).is_ok() {
            bytes -= size;
            objects -= 1;
        }
    }
    Ok(())
}

/// How many bytes a file takes on the disk. Some file systems only know that later.
fn size(meta: &Metadata) -> u64 {
    meta.len().max(meta.blocks() * BLOCK)
}

fn expiry_of(start: &[u8]) -> u64 {
    expiry(start).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_objects() {
        let directory = std::env::temp_dir().join(format!("dbm-{:016x}", sys::random::number()));
        fs::create_dir(&directory).expect("directory");
        let file = |name: &str| directory.join(name);
        write(&file("a"), b"one", now() + 100).expect("write");
        write(&file("b"), b"over", now() - 1).expect("write");
        write(&file("c"), &[1; 1000], now() + 200).expect("write");
        fs::write(file("d"), "x").expect("write");
        assert_eq!(read(&file("a")).expect("read").as_deref(), Some(&b"one"[..]));
        assert_eq!(read(&file("d")).expect("read"), None);
        assert!(!file("d").exists() && file("b").exists());
        clean(&directory, u64::MAX, 2).expect("clean");
        assert!(file("a").exists() && !file("b").exists() && file("c").exists());
        clean(&directory, u64::MAX, 1).expect("clean");
        assert!(!file("a").exists() && file("c").exists());
        write(&file("a"), b"one", now() + 100).expect("write");
        let size = size(&fs::metadata(file("c")).expect("metadata"));
        clean(&directory, size, 2).expect("clean");
        assert!(!file("a").exists() && file("c").exists());
        assert_eq!(read(&file("b")).expect("read"), None);
        fs::remove_dir_all(directory).expect("remove");
    }
}
