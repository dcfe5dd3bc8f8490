//! Files of users and groups, queried for one user at a time: text files, and [DBM files](super::dbm).
//!
//! A small file is read and parsed once, and again after a change. A large one is searched each time, so that no child
//! keeps a million users in memory. Both happen beside the event loop.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use conf::Level;
use conf::lines::Lines;
use runtime::{Load, offload};
use server::Request;
use server::paths::c_path;
use sys::errno::BAD_DESCRIPTOR;
use sys::file::Meta;

/// The longest line, in bytes, as in Apache.
const LINE_MAX: usize = 8190;
/// The largest file, in bytes: a million users fit.
const FILE_MAX: u64 = 256 << 20;
/// The largest file that is cached, in bytes, and the most bytes cached together; beyond that all are forgotten at
/// once.
const REMEMBERED_FILE_MAX: u64 = 2 << 20;
const REMEMBERED_MAX: u64 = 16 << 20;
/// The size of a read, in bytes.
const PIECE: usize = 256 << 10;
/// The time within which a second change might leave no trace in a file's time of change, in nanoseconds.
const FRESH: i128 = 50_000_000;

/// Takes the content of a line: the user, and the rest.
pub(super) type See<'a> = &'a mut dyn FnMut(&str, &str);

/// Reads files of one kind, and keeps what they hold until they change.
pub(super) struct Files {
    parse: Parse,
    known: LazyLock<RwLock<ParsedFiles>>,
}

/// The way to read such a file.
enum Parse {
    /// Passes on the content of a line.
    Lines(fn(&str, See<'_>)),
    /// Passes on the content of a whole file, of at most this many bytes.
    Whole(fn(&[u8], See<'_>) -> io::Result<()>, u64),
}

/// The lines of each user.
type Users = HashMap<String, Vec<String>>;

#[derive(Default)]
struct ParsedFiles {
    files: HashMap<String, (Identity, Arc<Users>)>,
    bytes: u64,
}

type Identity = (u64, u64, u64, i128, i128);

impl Files {
    /// Files of lines, none read yet.
    pub(super) const fn new(parse: fn(&str, See<'_>)) -> Files {
        Files { parse: Parse::Lines(parse), known: LazyLock::new(RwLock::default) }
    }

    /// Files that are read as a whole, of at most this many bytes.
    pub(super) const fn whole(parse: fn(&[u8], See<'_>) -> io::Result<()>, bytes: u64) -> Files {
        Files { parse: Parse::Whole(parse, bytes), known: LazyLock::new(RwLock::default) }
    }

    /// The current lines of a user; `None`: the file does not contain the user.
    pub(super) async fn get(
        &'static self,
        request: &Request,
        path: &str,
        user: &str,
    ) -> io::Result<Option<Vec<String>>> {
        let os = c_path(path).ok_or(io::ErrorKind::InvalidInput)?;
        if let Some(users) = self.remembered(path, &sys::file::stat(&os)?) {
            return Ok(users.get(user).cloned());
        }
        let (own_path, user) = (path.to_string(), user.to_string());
        let read = offload(Load::Wait, move || self.read(&own_path, &os, &user)).await;
        if read.as_ref().is_err_and(|error| error.raw_os_error() == Some(BAD_DESCRIPTOR)) {
            let text = format!("AH00554: Access to file {path} denied by server: not a regular file");
            request.log_apart("core", Level::Error, &text);
        }
        read
    }

    fn remembered(&self, path: &str, meta: &Meta) -> Option<Arc<Users>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (same, users) = known.files.get(path)?;
        (*same == identity(meta)).then(|| users.clone())
    }

    fn read(&self, path: &str, os: &CString, user: &str) -> io::Result<Option<Vec<String>>> {
        let file = sys::file::open(os)?;
        let meta = sys::file::fstat(&file)?;
        if !meta.is_file() && path != "/dev/null" {
            return Err(io::Error::from_raw_os_error(BAD_DESCRIPTOR));
        }
        // Another request may have read it meanwhile.
        if let Some(users) = self.remembered(path, &meta) {
            return Ok(users.get(user).cloned());
        }
        let file = File::from(file);
        // A file that is being changed is not cached: the next change might leave no trace.
        let is_settled = sys::time::realtime_coarse().as_nanos() as i128 - meta.ctime > FRESH;
        if !is_settled || meta.size > REMEMBERED_FILE_MAX {
            let mut says: Option<Vec<String>> = None;
            self.each(file, &mut |name, text| {
                if name == user {
                    says.get_or_insert_default().push(text.to_string());
                }
            })?;
            return Ok(says);
        }
        let mut users = Users::new();
        self.each(file, &mut |name, text| users.entry(name.to_string()).or_default().push(text.to_string()))?;
        let says = users.get(user).cloned();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.bytes + meta.size > REMEMBERED_MAX {
            *known = ParsedFiles::default();
        }
        known.bytes += meta.size;
        known.files.insert(path.to_string(), (identity(&meta), Arc::new(users)));
        Ok(says)
    }

    /// Passes on the content of a file.
    fn each(&self, mut file: impl Read, see: See<'_>) -> io::Result<()> {
        match self.parse {
            Parse::Lines(parse) => each_line(file, parse, see),
            Parse::Whole(parse, most) => {
                let mut bytes = Vec::new();
                if file.by_ref().take(most + 1).read_to_end(&mut bytes)? as u64 > most {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                parse(&bytes, see)
            }
        }
    }
}

/// Passes on the content of all lines, piece by piece. A line that is too long ends the file, as in Apache: users after
/// it are unknown.
fn each_line(mut file: impl Read, parse: fn(&str, See<'_>), see: See<'_>) -> io::Result<()> {
    let (mut unread, mut total) = (Vec::new(), 0);
    loop {
        let read = file.by_ref().take(PIECE as u64).read_to_end(&mut unread)?;
        total += read as u64;
        if total > FILE_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let rest = unread.split_off(if read == 0 { unread.len() } else { whole_lines(&unread) });
        let mut lines = Lines::new(std::mem::replace(&mut unread, rest), LINE_MAX);
        loop {
            match lines.next() {
                Ok(Some(line)) if line.text.is_empty() => {}
                Ok(Some(line)) => parse(&line.text, see),
                Ok(None) => break,
                Err(_) => return Ok(()),
            }
        }
        if read == 0 {
            return Ok(());
        }
        if unread.len() > 2 * PIECE {
            // All of it is one line.
            return Ok(());
        }
    }
}

/// The length of the complete lines: up to the last line feed without a backslash before it.
fn whole_lines(bytes: &[u8]) -> usize {
    let ends = memchr::memrchr_iter(b'\n', bytes);
    let is_end = |at: &usize| {
        let line = bytes[..*at].strip_suffix(b"\r").unwrap_or(&bytes[..*at]);
        !line.ends_with(b"\\")
    };
    ends.into_iter().find(is_end).map_or(0, |at| at + 1)
}

fn identity(meta: &Meta) -> Identity {
    (meta.dev, meta.ino, meta.size, meta.mtime, meta.ctime)
}

#[cfg(test)]
pub(super) fn parsed(files: &Files, text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let see: See<'_> = &mut |user, text| all.push((user.to_string(), text.to_string()));
    files.each(text.as_bytes(), see).expect("a text can be read");
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    static FILES: Files = Files::new(|line, see| {
        let (user, rest) = line.split_once(':').unwrap_or((line, ""));
        see(user, rest);
    });

    /// However long the file is, and wherever its pieces end.
    #[test]
    fn pieces_end_with_lines() {
        let mut text = String::new();
        for i in 0..60_000 {
            text.push_str(&format!("user{i}:pass\\\nword{i}\r\n"));
        }
        text.push_str("last:one");
        let all = parsed(&FILES, &text);
        assert!(text.len() > 4 * PIECE && all.len() == 60_001);
        for (i, (user, rest)) in all.iter().take(60_000).enumerate() {
            assert_eq!((user, rest), (&format!("user{i}"), &format!("password{i}")));
        }
        assert_eq!(all[60_000], ("last".into(), "one".into()));
    }

    #[test]
    fn a_line_that_is_too_long_ends_the_file() {
        for length in [LINE_MAX + 1, 3 * PIECE] {
            let text = format!("before:x\n{}\nafter:x\n", "l".repeat(length));
            assert_eq!(parsed(&FILES, &text), [("before".to_string(), "x".to_string())]);
        }
        assert_eq!(parsed(&FILES, &"l".repeat(5 * PIECE)), []);
    }
}
