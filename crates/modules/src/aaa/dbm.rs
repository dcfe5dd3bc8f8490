//! DBM files of keys and values, as Apache's tools write them: SDBM, GDBM and Berkeley DB.
//!
//! They are read as a whole, not searched by hash: files are cached like text files, and their size has a limit.

use std::io;
use std::sync::Arc;

use server::Request;

use super::files::{Files, See};

/// The largest file, in bytes; a hundred thousand users fit.
const FILE_MAX: u64 = 64 << 20;

/// The name of a file type, and how to read it.
struct DbmType {
    name: &'static str,
    /// The suffix after the configured path.
    suffix: &'static str,
    files: Files,
}

/// `default` is the default of Debian's Apache.
static KINDS: [DbmType; 4] = [
    DbmType { name: "default", suffix: "", files: Files::whole(berkeley, FILE_MAX) },
    DbmType { name: "DB", suffix: "", files: Files::whole(berkeley, FILE_MAX) },
    DbmType { name: "GDBM", suffix: "", files: Files::whole(gdbm, FILE_MAX) },
    DbmType { name: "SDBM", suffix: ".pag", files: Files::whole(sdbm, FILE_MAX) },
];

/// The note on types for the tables of all modules.
pub(crate) const TYPES: &str = "Here `default` is `DB`, as in Debian's Apache. Files of Berkeley DB are read if they are hashes, as those of \
     `htdbm` are, and those of GDBM as 64-bit machines write them. Those of more than 64 MB are refused, as is `NDBM`.";

/// A file, as a configuration names it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) path: Option<String>,
    /// The name of its type.
    pub(crate) kind: String,
}

impl Default for Named {
    fn default() -> Named {
        Named { path: None, kind: "default".into() }
    }
}

impl Named {
    /// The value of the first of these keys that exists.
    pub(crate) async fn get(&self, request: &Request, keys: &[&str]) -> io::Result<Option<String>> {
        let path = self.path.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let kind = self.kind().ok_or_else(|| other("this type of file cannot be read (SDBM, GDBM and DB can)"))?;
        let path = format!("{path}{}", kind.suffix);
        for key in keys {
            if let Some(mut values) = kind.files.get(request, &path, key).await? {
                return Ok(values.pop());
            }
        }
        Ok(None)
    }

    /// The paths of the files that make it up; `None`: there is no such type.
    pub(crate) fn paths(&self) -> Option<Vec<String>> {
        let path = self.path.clone().unwrap_or_default();
        Some(match self.kind()?.suffix {
            "" => vec![path],
            suffix => vec![format!("{path}.dir"), format!("{path}{suffix}")],
        })
    }

    fn kind(&self) -> Option<&'static DbmType> {
        KINDS.iter().find(|known| known.name.eq_ignore_ascii_case(&self.kind))
    }
}

fn other(text: &'static str) -> io::Error {
    io::Error::other(Arc::<str>::from(text).to_string())
}

fn broken() -> io::Error {
    other("it is damaged, or of another type than the configuration says")
}

/// Numbers and pieces of a file. A file's own offsets may lead nowhere.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn piece(&self, at: u64, len: u64) -> io::Result<&'a [u8]> {
        let end = at.checked_add(len).ok_or_else(broken)?;
        let range = usize::try_from(at).ok().zip(usize::try_from(end).ok());
        range.and_then(|(at, end)| self.0.get(at..end)).ok_or_else(broken)
    }

    fn number(&self, at: u64, len: u64) -> io::Result<u64> {
        Ok(self.piece(at, len)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn u16(&self, at: u64) -> io::Result<u64> {
        self.number(at, 2)
    }

    fn u32(&self, at: u64) -> io::Result<u64> {
        self.number(at, 4)
    }
}

fn show(see: See<'_>, key: &[u8], value: &[u8]) {
    see(&http::text::from_bytes(key), &http::text::from_bytes(value));
}

/// APR's own format: pages of a kilobyte, each with a count of positions, the positions from its beginning, and keys
/// and values from its end.
fn sdbm(bytes: &[u8], see: See<'_>) -> io::Result<()> {
    for page in bytes.chunks(1024) {
        let page = Bytes(page);
        let (count, mut end) = (page.u16(0)?, page.0.len() as u64);
        for pair in 0..count / 2 {
            let (key, value) = (page.u16(2 + 4 * pair)?, page.u16(4 + 4 * pair)?);
            let size = |from: u64, to: u64| to.checked_sub(from).ok_or_else(broken);
            show(see, page.piece(key, size(key, end)?)?, page.piece(value, size(value, key)?)?);
            end = value;
        }
    }
    Ok(())
}

/// GNU dbm on 64-bit machines: a directory of buckets, each with the positions of its keys and values.
fn gdbm(bytes: &[u8], see: See<'_>) -> io::Result<()> {
    /// The magic numbers: its own, and that of files with the numsync extension.
    const MAGIC: [u64; 2] = [0x1357_9acf, 0x1357_9ad1];
    /// The position of a bucket's counters, after its list of free places.
    const COUNTERS: u64 = 104;
    const ELEMENT: u64 = 24;
    let file = Bytes(bytes);
    if !MAGIC.contains(&file.u32(0)?) {
        return Err(broken());
    }
    let (directory, size) = (file.number(8, 8)?, file.u32(16)?);
    let (bucket_size, elements) = (file.u32(24)?, file.u32(28)?);
    let mut last = 0;
    for entry in 0..size / 8 {
        let bucket = file.number(directory + 8 * entry, 8)?;
        // Entries for the same bucket are adjacent.
        if std::mem::replace(&mut last, bucket) == bucket {
            continue;
        }
        let place = Bytes(file.piece(bucket, bucket_size)?);
        for element in 0..elements {
            let at = COUNTERS + 8 + ELEMENT * element;
            if place.u32(at)? == u64::from(u32::MAX) {
                continue;
            }
            let (data, key, value) = (place.number(at + 8, 8)?, place.u32(at + 16)?, place.u32(at + 20)?);
            let behind = data.checked_add(key).ok_or_else(broken)?;
            show(see, file.piece(data, key)?, file.piece(behind, value)?);
        }
    }
    Ok(())
}

/// Berkeley DB's hash: pages with positions from their beginning, and keys and values in turn from their end. Items too
/// large for a page have pages of their own.
fn berkeley(bytes: &[u8], see: See<'_>) -> io::Result<()> {
    const MAGIC: u64 = 0x0006_1561;
    const UNSORTED: u64 = 2;
    const SORTED: u64 = 13;
    let file = Bytes(bytes);
    let page_size = file.u32(20)?;
    if file.u32(12)? != MAGIC || !(512..=65536).contains(&page_size) {
        return Err(broken());
    }
    for number in 1..bytes.len() as u64 / page_size {
        let page = Bytes(file.piece(number * page_size, page_size)?);
        if ![UNSORTED, SORTED].contains(&page.number(25, 1)?) {
            continue;
        }
        let mut end = page_size;
        let mut item = |index: u64| {
            let start = page.u16(26 + 2 * index)?;
            let size = end.checked_sub(start).ok_or_else(broken)?;
            end = start;
            berkeley_item(&file, page_size, page.piece(start, size)?)
        };
        for pair in 0..page.u16(20)? / 2 {
            let (key, value) = (item(2 * pair)?, item(2 * pair + 1)?);
            show(see, &key, &value);
        }
    }
    Ok(())
}

/// A key or a value: its kind, and its content or position.
fn berkeley_item(file: &Bytes<'_>, page_size: u64, item: &[u8]) -> io::Result<Vec<u8>> {
    const HERE: u8 = 1;
    const ELSEWHERE: u8 = 3;
    match item.split_first() {
        Some((&HERE, text)) => Ok(text.to_vec()),
        Some((&ELSEWHERE, _)) => {
            let item = Bytes(item);
            let (mut number, size) = (item.u32(4)?, item.u32(8)?);
            let mut text = Vec::new();
            while number != 0 && (text.len() as u64) < size {
                let page = number.checked_mul(page_size).ok_or_else(broken)?;
                let used = file.u16(page + 22)?;
                text.extend(file.piece(page + 26, used)?);
                number = if used == 0 { 0 } else { file.u32(page + 16)? };
            }
            if text.len() as u64 == size { Ok(text) } else { Err(broken()) }
        }
        // Several values of one key: Apache's tools never make them.
        _ => Err(broken()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a file contains, reading it ends without a panic.
    #[test]
    fn damaged_files_are_refused() {
        let see: See<'_> = &mut |_, _| {};
        for read in [sdbm, gdbm, berkeley] {
            for len in [1, 30, 1024, 4096] {
                for byte in [1, 0x7f, 0xff] {
                    let _ = read(&vec![byte; len], see);
                }
            }
        }
        assert!(sdbm(&[0; 1024], see).is_ok() && sdbm(&[2; 1024], see).is_err());
        assert!(gdbm(&[0; 4096], see).is_err() && berkeley(&[0; 4096], see).is_err());
    }
}
