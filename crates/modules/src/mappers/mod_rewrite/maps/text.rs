//! Text files of keys and values (`txt:`, `rnd:`).
//!
//! A file is read once for each child and change, by one job, however many requests wait for it. It stays in memory as it is,
//! with an index of its lines: a quarter of what a table of keys and values would take.

use std::hash::BuildHasher;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::text::{from_bytes, to_bytes};
use runtime::{Awaited, Load, offload_apart, release_worker};
use server::paths::{c_path, os_path};
use sys::file::Meta;

/// The largest file, in bytes: places in it are numbers of four bytes.
const FILE_MAX: u64 = u32::MAX as u64;
/// The time within which a second change might leave no trace in a file's time of change, in nanoseconds.
const FRESH: i128 = 50_000_000;
/// How often a request reads a file that changes all the time.
const TRIES: usize = 3;

/// A file of keys and values.
#[derive(Debug)]
pub(in super::super) struct TextFile {
    /// Its path.
    pub(super) path: String,
    known: Mutex<FileState>,
}

/// What a child knows of a file.
#[derive(Debug, Default)]
struct FileState {
    /// Its content, while it is the current one.
    index: Option<Arc<Index>>,
    /// The job that reads the file at this moment.
    reading: Option<Awaited<Read>>,
}

/// A file that was read, or why not.
type Read = Result<Arc<Index>, Arc<io::Error>>;
type Identity = (u64, u64, u64, i128, i128);

impl TextFile {
    pub(in crate::mappers::mod_rewrite) fn new(path: String) -> TextFile {
        TextFile { path, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, FileState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key in the file's current content.
    pub(super) async fn get(file: &Arc<TextFile>, key: &str) -> io::Result<Option<String>> {
        let path = c_path(&file.path).ok_or(io::ErrorKind::InvalidInput)?;
        let mut last = None;
        for _ in 0..TRIES {
            let meta = sys::file::stat(&path)?;
            let reading = {
                let mut known = file.known();
                if let Some(index) = known.index.as_ref().filter(|index| index.identity == identity(&meta)) {
                    return Ok(index.get(key));
                }
                match &known.reading {
                    Some(reading) => Err(reading.clone()),
                    None => Ok(known.reading.insert(Awaited::default()).clone()),
                }
            };
            let (is_own, reading) = match reading {
                Ok(reading) => {
                    let job = Reading { file: file.clone(), done: reading.clone(), read: None };
                    offload_apart(Load::Wait, move || job.run());
                    (true, reading)
                }
                Err(reading) => (false, reading),
            };
            let index = release_worker(reading.wait()).await.map_err(|error| match error.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => error.kind().into(),
            })?;
            // Another request's job may have begun before the last change.
            if is_own || index.is_settled && index.identity == identity(&meta) {
                return Ok(index.get(key));
            }
            last = Some(index);
        }
        Ok(last.and_then(|index| index.get(key)))
    }
}

/// The job that reads a file. However it ends, the waiting requests get its result, even if it never begins.
struct Reading {
    file: Arc<TextFile>,
    done: Awaited<Read>,
    read: Option<Read>,
}

impl Reading {
    fn run(mut self) {
        self.read = Some(Index::of(&self.file.path).map(Arc::new).map_err(Arc::new));
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let read = self.read.take().unwrap_or_else(|| Err(Arc::new(io::ErrorKind::WouldBlock.into())));
        let mut known = self.file.known();
        known.reading = None;
        if let Ok(index) = &read {
            // A file that is being changed is not kept: the next change might leave no trace.
            known.index = index.is_settled.then(|| index.clone());
        }
        drop(known);
        self.done.set(read);
    }
}

/// The content of a file, and where its lines begin.
#[derive(Debug)]
struct Index {
    bytes: Vec<u8>,
    /// A hash table of the places of lines, each one more than the offset in bytes; 0 is a free slot. Its length is a power
    /// of two.
    slots: Vec<u32>,
    hasher: foldhash::fast::RandomState,
    identity: Identity,
    /// Was not just being changed when it was read.
    is_settled: bool,
}

impl Index {
    /// Reads a file.
    fn of(path: &str) -> io::Result<Index> {
        let file = std::fs::File::open(os_path(path))?;
        let meta = sys::file::fstat(&file)?;
        if meta.size > FILE_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(meta.size).unwrap_or(0));
        // A file that grows meanwhile is no longer the one that was asked for.
        io::Read::read_to_end(&mut io::Read::take(&file, meta.size), &mut bytes)?;
        let is_settled = sys::time::realtime_coarse().as_nanos() as i128 - meta.ctime > FRESH;
        Ok(Index { is_settled, ..Index::new(bytes, identity(&meta)) })
    }

    fn new(bytes: Vec<u8>, identity: Identity) -> Index {
        let lines = memchr::memchr_iter(b'\n', &bytes).count() + 1;
        let slots = vec![0; (lines + lines / 3 + 1).next_power_of_two()];
        let mut index =
            Index { bytes, slots, hasher: foldhash::fast::RandomState::default(), identity, is_settled: true };
        let mut at = 0;
        while at < index.bytes.len() {
            let line = line_at(&index.bytes, at);
            if let Some((key, _)) = entry(line) {
                let slot = index.slot(key);
                // The first line with a key counts.
                if index.slots[slot] == 0 {
                    index.slots[slot] = u32::try_from(at + 1).unwrap_or(0);
                }
            }
            at += line.len() + 1;
        }
        index
    }

    /// The slot of a key, or the free one where the key would be. There is always a free one.
    fn slot(&self, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(key) as usize & mask;
        while let Some(at) = (self.slots[slot] as usize).checked_sub(1) {
            if entry(line_at(&self.bytes, at)).is_some_and(|(known, _)| known == key) {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn get(&self, key: &str) -> Option<String> {
        let at = (self.slots[self.slot(&to_bytes(key))] as usize).checked_sub(1)?;
        let (_, value) = entry(line_at(&self.bytes, at))?;
        Some(from_bytes(value).into_owned())
    }
}

/// The line that begins here, without its end.
fn line_at(bytes: &[u8], at: usize) -> &[u8] {
    let rest = &bytes[at..];
    &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
}

fn identity(meta: &Meta) -> Identity {
    (meta.dev, meta.ino, meta.size, meta.mtime, meta.ctime)
}

/// `key value`; the rest is ignored.
fn entry(line: &[u8]) -> Option<(&[u8], &[u8])> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let end = line.iter().position(is_space).filter(|end| *end > 0)?;
    let (key, rest) = line.split_at(end);
    let value = rest.split(is_space).find(|word| !word.is_empty())?;
    Some((key, value))
}

/// White space as isspace(3) has it, with the vertical tab.
fn is_space(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(text: &str) -> Index {
        Index::new(text.as_bytes().to_vec(), (0, 0, 0, 0, 0))
    }

    #[test]
    fn lines_of_a_map() {
        let table = [
            ("a b", Some(("a", "b"))),
            ("a\tb # c", Some(("a", "b"))),
            ("a  \t b\r", Some(("a", "b"))),
            ("a\x0bb\x0bc", Some(("a", "b"))),
            ("# a b", None),
            (" a b", None),
            ("a", None),
            ("a ", None),
            ("a \r", None),
            ("", None),
        ];
        for (line, want) in table {
            let want = want.map(|(key, value): (&str, &str)| (key.as_bytes(), value.as_bytes()));
            assert_eq!(entry(line.as_bytes()), want, "{line}");
        }
    }

    #[test]
    fn the_first_line_with_a_key_counts() {
        let index = index("a 1\n#b 2\n\nb 3\r\na 4\nc\nd 5 6\n\u{e9} \u{e8}");
        for (key, want) in [
            ("a", Some("1")),
            ("b", Some("3")),
            ("#b", None),
            ("c", None),
            ("d", Some("5")),
            ("\u{e9}", Some("\u{e8}")),
            ("", None),
        ] {
            assert_eq!(index.get(key).as_deref(), want, "{key}");
        }
        assert_eq!(super::Index::new(Vec::new(), (0, 0, 0, 0, 0)).get("a"), None);
    }

    /// A million lines are found like a thousand, in little more memory than the file has.
    #[test]
    fn many_lines() {
        let text: String = (0..100_000).map(|number| format!("key{number} value{number}\n")).collect();
        let index = index(&text);
        for number in [0, 1, 50_000, 99_999] {
            assert_eq!(index.get(&format!("key{number}")), Some(format!("value{number}")));
        }
        assert_eq!(index.get("key100000"), None);
        assert!(index.bytes.len() + 4 * index.slots.len() < 2 * text.len());
    }
}
