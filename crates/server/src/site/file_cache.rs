//! The cache of files: small ones whole, larger ones open.

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use foldhash::HashMap;
use http::conditional::{FileTag, is_young};
use sha1::{Digest as _, Sha1};
use sys::file::Meta;

use crate::paths::c_path;
use crate::settings::core::etag;
use crate::settings::core::etag::{DIGEST, INODE, MTIME, SIZE};
use crate::site::links::Links;
use runtime::tick::Look;

/// Files up to this size are kept in memory, in bytes.
pub(crate) const SMALL: u64 = 16 * 1024;
/// What a process keeps of recent small files, and as much again of those before; and how much if one thread serves all of its
/// connections.
const SMALL_FILES: Limits = Limits { bytes: 512 * 1024, files: 128 };
const SMALL_FILES_OF_A_SITE: Limits = Limits { bytes: 4 * 1024 * 1024, files: 1024 };
/// Likewise of larger files, which are kept open.
const OPEN_FILES: Limits = Limits { bytes: 0, files: 64 };
/// A file that changed more recently than this might change again within the resolution of its times, in nanoseconds.
const UNSETTLED: i128 = 50_000_000;

struct Limits {
    /// In memory, in bytes.
    bytes: u64,
    files: usize,
}

/// Recently served files, by name.
#[derive(Default)]
pub(crate) struct FileCache(RwLock<Kept>);

#[derive(Default)]
struct Kept {
    small: Generations,
    open: Generations,
}

/// The files that were opened recently, and those that were opened before: these go together.
#[derive(Default)]
struct Generations {
    recent: Files,
    before: Files,
}

#[derive(Default)]
struct Files {
    by_name: HashMap<String, Arc<CachedFile>>,
    bytes: u64,
}

/// A recently served file.
#[derive(Debug)]
pub(crate) struct CachedFile {
    /// Its identity when it was opened.
    pub(crate) meta: Meta,
    /// When the system last confirmed this identity.
    pub(crate) look: Look,
    pub(crate) parts: etag::Bits,
    /// The links that may have been on the way to it.
    pub(crate) links: Links,
    pub(crate) etag: Option<Arc<str>>,
    pub(crate) modified: Arc<str>,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Small(Bytes),
    Open(Arc<OwnedFd>),
}

/// Opens a file; from now on everything refers to the opened file.
pub(crate) fn open(name: &str, parts: etag::Bits, links: Links) -> std::io::Result<CachedFile> {
    let path = c_path(name).ok_or(std::io::ErrorKind::NotFound)?;
    let file = links.open(&path)?;
    let meta = sys::file::fstat(&file)?;
    let seconds = meta.mtime.div_euclid(1_000_000_000) as i64;
    let content = match small(&file, meta.size) {
        Some(bytes) => Content::Small(bytes),
        None => Content::Open(Arc::new(file)),
    };
    let etag = match parts & DIGEST {
        0 => tag_of(&meta, parts),
        _ => Some(format!("\"{}\"", STANDARD.encode(digest(&content)?))),
    };
    Ok(CachedFile {
        look: Look::default(),
        etag: etag.map(Into::into),
        modified: String::from_utf8_lossy(&http::date::http_date(seconds)).into(),
        meta,
        parts,
        links,
        content,
    })
}

/// The entity tag of an object without content to digest, such as a directory.
fn tag_of(meta: &Meta, parts: etag::Bits) -> Option<String> {
    let modified_us = (meta.mtime / 1000) as i64;
    let tag = FileTag {
        inode: (parts & INODE != 0).then_some(meta.ino),
        size: (parts & SIZE != 0).then_some(meta.size),
        modified_us: (parts & MTIME != 0).then_some(modified_us),
    };
    tag.etag(is_young(modified_us, sys::time::realtime().as_micros() as i64))
}

/// The entity tag of a file in responses, or of a directory. May read the whole file.
pub fn entity_tag(name: &str, meta: &Meta, parts: etag::Bits) -> std::io::Result<Option<String>> {
    if parts & DIGEST != 0 && meta.is_file() {
        return Ok(open(name, parts, Links::Any)?.etag.map(|tag| tag.to_string()));
    }
    Ok(tag_of(meta, parts & !DIGEST))
}

/// The SHA-1 of a file, read to its end.
fn digest(content: &Content) -> std::io::Result<impl AsRef<[u8]> + use<>> {
    let mut hash = Sha1::new();
    match content {
        Content::Small(bytes) => hash.update(bytes),
        Content::Open(file) => {
            let (mut piece, mut at) = (vec![0; 64 * 1024], 0);
            loop {
                match sys::file::read_at(file, &mut piece, at)? {
                    0 => break,
                    read => {
                        hash.update(&piece[..read]);
                        at += read as u64;
                    }
                }
            }
        }
    }
    Ok(hash.finalize())
}

/// The whole of a small file; `None` if it is not small, or changes its length at this moment.
fn small(file: &OwnedFd, size: u64) -> Option<Bytes> {
    if size > SMALL {
        return None;
    }
    // One byte more than expected, to notice a file that grew.
    let mut bytes = vec![0; size as usize + 1];
    let mut filled = 0;
    while filled < size as usize {
        match sys::file::read_at(file, &mut bytes[filled..], filled as u64) {
            Ok(0) | Err(_) => return None,
            Ok(read) => filled += read,
        }
    }
    bytes.truncate(filled);
    (filled as u64 == size).then(|| bytes.into())
}

impl FileCache {
    /// The cached file.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<CachedFile>> {
        let Kept { small, open } = &*self.0.read().unwrap_or_else(PoisonError::into_inner);
        small.find(name).or_else(|| open.find(name)).cloned()
    }

    pub(crate) fn keep(&self, name: &str, kept: &Arc<CachedFile>) {
        let now = sys::time::realtime().as_nanos() as i128;
        // Its tag would still change from weak to strong, or its content unnoticed.
        let weak = kept.etag.as_deref().is_some_and(|etag| etag.starts_with("W/"));
        if weak || now - kept.meta.mtime.max(kept.meta.ctime) < UNSETTLED {
            return;
        }
        let Kept { small, open } = &mut *self.0.write().unwrap_or_else(PoisonError::into_inner);
        // A file that was small may be large now.
        match (&kept.content, runtime::scoreboard::one_thread_serves_all()) {
            (Content::Small(_), false) => small.keep(name, kept, &SMALL_FILES),
            (Content::Small(_), true) => small.keep(name, kept, &SMALL_FILES_OF_A_SITE),
            (Content::Open(_), _) => {
                small.forget(name);
                open.keep(name, kept, &OPEN_FILES);
            }
        }
    }
}

impl Generations {
    fn find(&self, name: &str) -> Option<&Arc<CachedFile>> {
        self.recent.by_name.get(name).or_else(|| self.before.by_name.get(name))
    }

    fn keep(&mut self, name: &str, kept: &Arc<CachedFile>, most: &Limits) {
        let Generations { recent, before } = self;
        recent.forget(name);
        if recent.by_name.len() >= most.files || recent.bytes + kept.bytes() > most.bytes {
            mem::swap(recent, before);
            recent.by_name.clear();
            recent.bytes = 0;
        }
        recent.bytes += kept.bytes();
        recent.by_name.insert(name.to_string(), kept.clone());
    }

    fn forget(&mut self, name: &str) {
        self.recent.forget(name);
        self.before.forget(name);
    }
}

impl Files {
    fn forget(&mut self, name: &str) {
        self.bytes -= self.by_name.remove(name).map_or(0, |file| file.bytes());
    }
}

impl CachedFile {
    /// Of its content in memory.
    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Small(bytes) => bytes.len() as u64,
            Content::Open(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_files_stay() {
        let kept = Arc::new(open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), 0, Links::Any).expect("a file"));
        let mut cache = Generations::default();
        let files = SMALL_FILES.files;
        (0..files * 3).for_each(|number| cache.keep(&number.to_string(), &kept, &SMALL_FILES));
        let there: Vec<usize> = (0..files * 3).filter(|number| cache.find(&number.to_string()).is_some()).collect();
        assert!(there.iter().copied().eq(files..files * 3), "{there:?}");
        // One that is opened again and again displaces no other.
        (0..files * 3).for_each(|_| cache.keep("383", &kept, &SMALL_FILES));
        assert!(cache.find("130").is_some());
        let large = Arc::new(open("/proc/self/exe", 0, Links::Any).expect("a file"));
        let cache = FileCache::default();
        cache.keep("small", &kept);
        (0..200).for_each(|number| cache.keep(&format!("large {number}"), &large));
        assert!(matches!(large.content, Content::Open(_)) && cache.find("small").is_some());
        assert_eq!(Arc::strong_count(&large), 1 + 64 + 200 % 64);
        cache.keep("small", &large);
        assert!(matches!(cache.find("small").expect("a file").content, Content::Open(_)));
    }
}
