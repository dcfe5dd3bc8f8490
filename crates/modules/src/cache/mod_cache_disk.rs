//! Responses stored in files: `CacheEnable disk`.
//!
//! Apache manual: mod_cache_disk. The files are those of Apache, so that both servers may use a `CacheRoot`, and htcacheclean
//! keeps it small.

mod draft;
mod inventory;
mod paths;
mod settings;
mod turn;

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use bytes::Bytes;
use conf::directive::Args::Take1;
use conf::values::{atoi, number};
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, row, shown};
use runtime::tick::Look;
use server::{FilePart, Hook, Module, Request, Waiting};
use sys::file::Meta;

use self::draft::{DiskDraft, Stored};
use self::paths::{Paths, Root};
use self::settings::{DIR_LENGTH, DIR_LEVELS, DiskDir, DiskServer, MAX_FILE_SIZE, MIN_FILE_SIZE, READ_SIZE, READ_TIME};
use self::turn::{hold, in_turn};
use super::complaint::complain;
use super::entry::Entry;
use super::format::{self, Head, Identity, Layout};
use super::storage::{Content, Draft, Found, Job, Missing, Storage, Watch};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "cache_disk_module", source: "mod_cache_disk.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Provider("cache", "disk"), Hook::Inventory(&inventory::INVENTORY)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CacheRoot", Allowed::SERVER, Take1(|c, v| c.server_set(|s: &mut DiskServer| &mut s.root, v.to_string())), "", "The directory to store cache files"),
    row("CacheDirLevels", Allowed::SERVER, Take1(set_levels), shown!(DIR_LEVELS), "The number of levels of subdirectories in the cache"),
    row("CacheDirLength", Allowed::SERVER, Take1(set_length), shown!(DIR_LENGTH), "The number of characters in subdirectory names"),
    row("CacheMinFileSize", Allowed::CONF, Take1(set_min), shown!(MIN_FILE_SIZE), "The minimum file size to cache a document"),
    row("CacheMaxFileSize", Allowed::CONF, Take1(set_max), shown!(MAX_FILE_SIZE), "The maximum file size to cache a document"),
    row("CacheReadSize", Allowed::CONF, Take1(set_read_size), shown!(READ_SIZE), "The maximum quantity of data to attempt to read and cache in one go"),
    row("CacheReadTime", Allowed::CONF, Take1(set_read_time), shown!(READ_TIME), "The maximum time taken to attempt to read and cache in go"),
];

pub(crate) static DISK: Storage = Storage { name: "disk", find, begin, remove, gather };

/// The letters of a name that may be those of directories.
const LETTERS: i32 = 20;
/// The largest head that is read, in bytes: those that requests and responses may have fit well.
const HEAD_MAX: u64 = 256 * 1024;
/// Bodies up to this size go out with their heads, in bytes; a larger one is sent from its file.
const SMALL: u64 = 16 * 1024;

fn set_levels(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let length = cmd.server.get::<DiskServer>().length();
    let levels = directories(atoi(text), length, "CacheDirLevels")?;
    cmd.server_set(|s: &mut DiskServer| &mut s.levels, levels)
}

fn set_length(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let levels = cmd.server.get::<DiskServer>().levels();
    let length = directories(atoi(text), levels, "CacheDirLength")?;
    cmd.server_set(|s: &mut DiskServer| &mut s.length, length)
}

fn directories(value: i32, other: i32, name: &str) -> Result<i32, String> {
    match value {
        ..=0 => Err(format!("{name} value must be an integer greater than 0")),
        _ if value.saturating_mul(other) > LETTERS => {
            Err("CacheDirLevels*CacheDirLength value must not be higher than 20".into())
        }
        _ => Ok(value),
    }
}

fn set_min(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let bytes = natural(text, "CacheMinFileSize", "the min size of a file to cache in bytes")?;
    cmd.set(|d: &mut DiskDir| &mut d.min_file_size, bytes)
}

fn set_max(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let bytes = natural(text, "CacheMaxFileSize", "the max size of a file to cache in bytes")?;
    cmd.set(|d: &mut DiskDir| &mut d.max_file_size, bytes)
}

fn set_read_size(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let bytes = natural(text, "CacheReadSize", "the max amount of data to cache in go")?;
    cmd.set(|d: &mut DiskDir| &mut d.read_size, bytes)
}

fn set_read_time(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let milliseconds = natural(text, "CacheReadTime", "the max amount of time taken to cache in go")?;
    cmd.set(|d: &mut DiskDir| &mut d.read_time, milliseconds)
}

fn natural(text: &str, name: &str, what: &str) -> Result<u64, String> {
    let error = || format!("{name} argument must be a non-negative integer representing {what}.");
    number(text).and_then(|value| u64::try_from(value).ok()).ok_or_else(error)
}

fn find<'a>(request: &'a Request, key: &'a str) -> Waiting<'a, Result<Found, Missing>> {
    Box::pin(async move {
        let paths = match look(request, key) {
            Err(Lack::OfBody(paths)) => paths,
            Err(Lack::Missing(missing)) => return Err(missing),
            Ok(found) => return Ok(found),
        };
        // Another response is taking its place, or a server was killed meanwhile.
        let held = in_turn(hold, paths, Ok).await;
        let found = look(request, key);
        drop(held);
        found.map_err(|lack| match lack {
            Lack::Missing(missing) => missing,
            Lack::OfBody(_) => Missing::Key,
        })
    })
}

/// Why there is no response in the files.
enum Lack {
    Missing(Missing),
    /// The body is that of another response.
    OfBody(Paths),
}

impl From<Missing> for Lack {
    fn from(missing: Missing) -> Lack {
        Lack::Missing(missing)
    }
}

/// The response in the files.
fn look(request: &Request, key: &str) -> Result<Found, Lack> {
    let root = root(request).ok_or(Missing::Key)?;
    let key = http::text::to_bytes(key);
    let primary = root.primary(&key);
    let read = |paths: &Paths| match read(paths) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let text = format!("AH00706: Cannot read header file {}", paths.header.display());
            complain(request.vhost, "cache_disk", Some(&error), &text);
            None
        }
        Ok(head) => Some(head),
    };
    let (first, seen) = read(&primary).ok_or(Missing::Key)?;
    let mut watched = vec![(primary.header.clone(), seen)];
    let (paths, head) = match first {
        Head::Response(head) => (primary, head),
        Head::Variants(names) => {
            let paths = root.variant(&primary, &names, &key, |name| request.header_joined(name));
            let (head, seen) = read(&paths).ok_or(Missing::Variant)?;
            watched.push((paths.header.clone(), seen));
            match head {
                Head::Response(head) => (paths, head),
                Head::Variants(_) => return Err(Missing::Variant.into()),
            }
        }
    };
    let format::Stored { key: own, entry, identity } = *head;
    // Names of files may collide.
    if own != *key || entry.header_only && !request.data.header_only {
        return Err(Missing::Key.into());
    }
    let length = entry.fields.get("Content-Length").and_then(|text| text.parse().ok());
    let content = match identity {
        None if entry.header_only => Content::Unsent(length),
        None => Content::Bytes(Bytes::new()),
        Some(identity) => match open(&paths, identity, length) {
            Ok(Opened::Other) => return Err(Lack::OfBody(paths)),
            Ok(Opened::Incomplete) => return Err(Missing::Key.into()),
            Ok(Opened::Whole(content, seen)) => {
                watched.push((paths.data.clone(), seen));
                content
            }
            Err(error) => {
                let text = format!("AH00708: Cannot open data file {}", paths.data.display());
                complain(request.vhost, "cache_disk", Some(&error), &text);
                return Err(Missing::Key.into());
            }
        },
    };
    let place = Stored { root, key: key.into_owned(), paths, identity, vary: entry.fields.joined("Vary") };
    Ok(Found { entry, content, place: Box::new(place), watch: watch(&watched) })
}

/// Whether these files are as they were read: whoever stores something replaces them.
fn watch(files: &[(PathBuf, Meta)]) -> Option<Watch> {
    let c_path = |path: &PathBuf| CString::new(path.as_os_str().as_bytes()).ok();
    let files = files.iter().map(|(path, meta)| Some((c_path(path)?, *meta))).collect::<Option<Vec<_>>>()?;
    let look = Look::default();
    let is_there = move |(path, meta): &(CString, Meta)| sys::file::stat(path).is_ok_and(|now| now == *meta);
    Some(Box::new(move |account| account.shares(&look, || files.iter().all(&is_there))))
}

fn begin(request: &Request, key: &str, entry: Entry, length: Option<u64>) -> Option<Box<dyn Draft>> {
    let dir = request.dir::<DiskDir>();
    let (min, max) = (dir.min_file_size(), dir.max_file_size());
    let is_unfit = |length: u64| length > max || length < min && !entry.header_only;
    // Parts of responses are not stored.
    if entry.status == 206 || length.is_some_and(is_unfit) {
        return None;
    }
    let key = http::text::to_bytes(key).into_owned();
    Some(Box::new(DiskDraft::new(root(request)?, key, entry, min..=max, length)))
}

fn remove(request: &Request, key: &str) -> Job {
    match root(request) {
        Some(root) => {
            let primary = root.primary(&http::text::to_bytes(key));
            draft::remove_all(root, primary)
        }
        None => Box::pin(std::future::ready(Ok(()))),
    }
}

fn gather(request: &Request) -> (u64, u64) {
    let dir = request.dir::<DiskDir>();
    (dir.read_size(), dir.read_time())
}

fn root(request: &Request) -> Option<Root> {
    let root = Root::of(request.host::<DiskServer>());
    if root.is_none() {
        let text = "AH00703: Cannot cache files to disk without a CacheRoot specified.";
        complain(request.vhost, "cache_disk", None, text);
    }
    root
}

/// The head of a response, and the file that it is in.
fn read(paths: &Paths) -> io::Result<(Head, Meta)> {
    let mut bytes = Vec::with_capacity(2048);
    let file = File::open(&paths.header)?;
    let meta = sys::file::fstat(&file)?;
    file.take(HEAD_MAX).read_to_end(&mut bytes)?;
    let head = Head::decode(Layout::File, &bytes).map(|(head, _)| (head, meta));
    head.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The body in the file of a response.
enum Opened {
    /// All of it, and the file.
    Whole(Content, Meta),
    /// The file belongs to another head.
    Other,
    Incomplete,
}

fn open(paths: &Paths, identity: Identity, length: Option<u64>) -> io::Result<Opened> {
    let mut file = File::open(&paths.data)?;
    let meta = sys::file::fstat(&file)?;
    if (meta.ino, meta.dev) != (identity.inode, identity.device) {
        return Ok(Opened::Other);
    }
    if length.is_some_and(|length| length != meta.size) {
        return Ok(Opened::Incomplete);
    }
    let content = match meta.size {
        length @ ..=SMALL => {
            let mut bytes = Vec::with_capacity(length as usize);
            file.read_to_end(&mut bytes)?;
            Content::Bytes(bytes.into())
        }
        length => Content::File(FilePart { file: std::sync::Arc::new(file.into()), offset: 0, length }),
    };
    Ok(Opened::Whole(content, meta))
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("CacheRoot /tmp\nCacheDirLevels 3\nCacheDirLength 5", ""),
            ("CacheDirLevels 0", "CacheDirLevels value must be an integer greater than 0"),
            ("CacheDirLength 11", "CacheDirLevels*CacheDirLength value must not be higher than 20"),
            (
                "CacheMaxFileSize x",
                "CacheMaxFileSize argument must be a non-negative integer representing the max size of a file to cache in \
                 bytes.",
            ),
            ("<Directory /tmp>\nCacheReadTime 5\n</Directory>", ""),
        ]);
    }
}
