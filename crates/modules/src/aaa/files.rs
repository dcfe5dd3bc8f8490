//! Files of users and groups: read once, parsed once, read again when they have changed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use conf::Level;
use conf::lines::Lines;
use server::Request;
use server::paths::c_path;
use sys::file::Meta;

/// The longest line, in bytes, as in Apache.
const LINE_MAX: usize = 8190;
/// The largest file, in bytes: a million users fit.
const FILE_MAX: u64 = 256 << 20;
/// More remembered files than this are forgotten all at once.
const REMEMBERED_MAX: usize = 256;
/// The time within which a second change might leave no trace in a file's time of change, in nanoseconds.
const FRESH: i128 = 50_000_000;

/// Parsed files of one kind, by path.
pub(super) struct Files<T> {
    parse: fn(Lines) -> T,
    known: LazyLock<Known<T>>,
}

type Known<T> = RwLock<HashMap<String, (Identity, Arc<T>)>>;
type Identity = (u64, u64, u64, i128, i128);

impl<T> Files<T> {
    /// None read yet.
    pub(super) const fn new(parse: fn(Lines) -> T) -> Files<T> {
        Files { parse, known: LazyLock::new(RwLock::default) }
    }

    /// What a file says now.
    pub(super) fn get(&self, request: &Request, path: &str) -> io::Result<Arc<T>> {
        let os = c_path(path).ok_or(io::ErrorKind::InvalidInput)?;
        let identity = identity(&sys::file::stat(&os)?);
        if let Some((same, parsed)) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(path)
            && *same == identity
        {
            return Ok(parsed.clone());
        }
        let file = sys::file::open(&os)?;
        let meta = sys::file::fstat(&file)?;
        if !meta.is_file() && path != "/dev/null" {
            let text = format!("AH00554: Access to file {path} denied by server: not a regular file");
            request.log_apart("core", Level::Error, &text);
            // What Apache says then: EBADF.
            return Err(io::Error::from_raw_os_error(9));
        }
        let mut bytes = Vec::new();
        File::from(file).take(FILE_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let parsed = Arc::new((self.parse)(Lines::new(bytes, LINE_MAX)));
        // A file that is being changed is not remembered: the next change might leave no trace.
        if sys::time::realtime_coarse().as_nanos() as i128 - meta.ctime > FRESH {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(path.to_string(), (self::identity(&meta), parsed.clone()));
        }
        Ok(parsed)
    }
}

fn identity(meta: &Meta) -> Identity {
    (meta.dev, meta.ino, meta.size, meta.mtime, meta.ctime)
}

/// Calls `each` with all lines that say something. A line that is too long ends the file, as in Apache: nobody behind it
/// is known.
pub(super) fn each_line(mut lines: Lines, mut each: impl FnMut(&str)) {
    while let Ok(Some(line)) = lines.next() {
        if !line.text.is_empty() {
            each(&line.text);
        }
    }
}
