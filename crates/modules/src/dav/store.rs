//! Small files of rows of texts, which exist either whole or not at all.
//!
//! A file is written under another name and then replaces the old one, so a process killed at any point leaves one of
//! the two.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The beginning of every such file; the number is that of the format.
const MAGIC: &[u8] = b"Tsubame DAV 1\n";
/// The largest such file, in bytes.
const FILE_MAX: usize = 32 << 20;
/// The prefix of files still being written; Apache's own name.
pub(super) const TEMPORARY: &str = ".davfs.tmp";

/// The permission bits of a new file, before the umask.
pub(super) const NEW: u32 = 0o666;

/// A record of such a file. What its texts mean is the caller's matter.
pub(super) type Row = Vec<String>;

/// The rows of a file; empty if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Vec<Row>> {
    match fs::read(path) {
        Ok(bytes) => decode(&bytes).ok_or_else(|| io::Error::other("it is damaged, or was made by another program")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Replaces the rows of a file.
pub(super) fn write(path: &Path, rows: &[Row]) -> io::Result<()> {
    let bytes = encode(rows);
    if bytes.len() > FILE_MAX {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let mut draft = Draft::new(path.parent().unwrap_or(Path::new("/")), NEW)?;
    draft.file.write_all(&bytes)?;
    draft.put(path)
}

/// A file being written. If the file system supports that, it has no name yet, so nothing is left when this process is
/// killed; otherwise it has a name hidden from clients.
pub(super) struct Draft {
    pub(super) file: fs::File,
    dir: PathBuf,
    name: Option<PathBuf>,
}

impl Draft {
    /// Makes one in a directory, with these permission bits within the umask.
    pub(super) fn new(dir: &Path, mode: u32) -> io::Result<Draft> {
        let mut name = match sys::file::unnamed(dir, mode) {
            Ok(file) if Path::new("/proc/self/fd").exists() => {
                return Ok(Draft { file: file.into(), dir: dir.into(), name: None });
            }
            _ => unused(dir),
        };
        loop {
            match fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&name) {
                Ok(file) => return Ok(Draft { file, dir: dir.into(), name: Some(name) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => name = unused(dir),
                Err(error) => return Err(error),
            }
        }
    }

    /// Replaces whatever is at a path in its directory.
    pub(super) fn put(mut self, path: &Path) -> io::Result<()> {
        // A link never replaces anything.
        while self.name.is_none() {
            let name = unused(&self.dir);
            match sys::file::give_name(&self.file, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result.map(|()| self.name = Some(name))?,
            }
        }
        self.name.as_ref().map_or(Ok(()), |name| fs::rename(name, path))?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Only a file that nobody reads is left.
            let _ = fs::remove_file(name);
        }
    }
}

/// An unused name in a directory, hidden from clients.
pub(super) fn unused(dir: &Path) -> PathBuf {
    dir.join(format!("{TEMPORARY}{:016x}", sys::random::number()))
}

fn encode(rows: &[Row]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let number = |out: &mut Vec<u8>, number: usize| out.extend((number as u32).to_be_bytes());
    for row in rows {
        number(&mut out, row.len());
        for text in row {
            number(&mut out, text.len());
            out.extend(text.as_bytes());
        }
    }
    out
}

fn decode(bytes: &[u8]) -> Option<Vec<Row>> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let mut row = Vec::new();
        for _ in 0..number(&mut rest)? {
            let length = number(&mut rest)?;
            let (text, behind) = rest.split_at_checked(length)?;
            row.push(String::from_utf8(text.to_vec()).ok()?);
            rest = behind;
        }
        rows.push(row);
    }
    Some(rows)
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*number) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_not_read() {
        let rows = vec![vec!["a".to_string(), String::new()], vec!["\u{1f600}".into()], Vec::new()];
        let bytes = encode(&rows);
        assert_eq!(decode(&bytes), Some(rows));
        assert_eq!(decode(MAGIC), Some(Vec::new()));
        for cut in (MAGIC.len() + 1..bytes.len()).filter(|cut| *cut != bytes.len() - 4) {
            assert!(decode(&bytes[..cut]).is_none_or(|rows| rows.len() < 3), "{cut}");
        }
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"Tsubame DAV 1\n\xff\xff\xff\xff"), None);
    }
}
