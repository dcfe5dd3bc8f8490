//! Reads the lines of a log, which may be compressed.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::memchr;

use crate::machine::error::{Context as _, Error, Result};
use crate::switch::log::decompressor::Decompressor;

/// The longest line that is read. Apache's lines are far shorter: `LimitRequestLine` is 8190, and every byte of a
/// request becomes at most four.
const LINE: usize = 64 * 1024;

/// What is read at once; room for several of the longest lines, so that few bytes are moved.
const BUFFER: usize = 4 * LINE;

/// What became of the lines of a log.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All lines, also those of the other counts.
    pub lines: u64,
    /// Lines that are not of the format.
    pub unreadable: u64,
    /// The number of the first of those.
    pub first_unreadable: Option<u64>,
    /// Lines that are longer than 64 KiB, which were skipped.
    pub too_long: u64,
}

/// What the reader of a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It could read the line.
    Read,
    /// The line is not of the format.
    Unreadable,
    /// It wants no more lines.
    Enough,
}

/// Hands out the lines of a file, with their numbers from 1, until its end or until there are enough. `progress` learns
/// now and then how many bytes of the file, as it is on the disk, have been read; its error ends reading.
pub(crate) fn read(
    path: &Path,
    progress: &mut dyn FnMut(u64) -> Result<()>,
    take: &mut dyn FnMut(u64, &[u8]) -> Step,
) -> Result<Counts> {
    let mut lines = Lines::open(path)?;
    let mut counts = Counts::default();
    let mut fills = 0;
    while let Some(line) = lines.next()? {
        counts.lines += 1;
        let step = match line {
            Line::Whole(line) => take(counts.lines, line),
            Line::TooLong => {
                counts.too_long += 1;
                Step::Read
            }
        };
        match step {
            Step::Read => {}
            Step::Unreadable => {
                counts.unreadable += 1;
                counts.first_unreadable.get_or_insert(counts.lines);
            }
            Step::Enough => return Ok(counts),
        }
        if lines.fills != fills {
            fills = lines.fills;
            progress(lines.position())?;
        }
    }
    progress(lines.position())?;
    Ok(counts)
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'l> {
    /// Without its end.
    Whole(&'l [u8]),
    /// More than 64 KiB.
    TooLong,
}

/// The lines of one file.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    /// The file on the disk. A program that decompresses it shares its position.
    file: File,
    /// The program that decompresses it.
    decompressor: Option<Decompressor>,
    buffer: Vec<u8>,
    /// What is in the buffer and not yet read.
    unread: Range<usize>,
    /// How often the buffer was filled.
    fills: u64,
    /// What is in the buffer continues a line that is too long.
    is_within_long: bool,
    is_at_end: bool,
}

impl Lines {
    /// Opens a file; whether it is compressed shows in its first bytes.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = || format!("read the log {}", path.display());
        // Opening a pipe would wait for a writer.
        if !path.metadata().context(failed)?.is_file() {
            return Err(Error::new(format!(
                "{} is not a file: what was logged there cannot be read back",
                path.display()
            )));
        }
        let file = File::open(path).context(failed).map_err(|error| {
            error.advise(
                "run the laboratory as a user that may read the logs, such as root or a member of the group adm",
            )
        })?;
        let decompressor = Decompressor::find(path, &file)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            decompressor,
            buffer: vec![0; BUFFER],
            unread: 0..0,
            fills: 0,
            is_within_long: false,
            is_at_end: false,
        })
    }

    /// How many bytes of the file, as it is on the disk, have been read.
    pub(crate) fn position(&self) -> u64 {
        (&self.file).stream_position().unwrap_or(0)
    }

    /// The next line; `None` at the end of the file. The last line need not have an end.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            let end = memchr(b'\n', &unread[searched..]).map(|at| searched + at);
            let whole = end.or((self.is_at_end && !unread.is_empty()).then_some(unread.len()));
            if let Some(length) = whole {
                let start = self.unread.start;
                self.unread.start = (start + length + 1).min(self.unread.end);
                let is_long = std::mem::take(&mut self.is_within_long) || length > LINE;
                let line = &self.buffer[start..start + length];
                return Ok(Some(match is_long {
                    true => Line::TooLong,
                    false => Line::Whole(line.strip_suffix(b"\r").unwrap_or(line)),
                }));
            }
            if self.is_at_end {
                return Ok(std::mem::take(&mut self.is_within_long).then_some(Line::TooLong));
            }
            searched = unread.len();
            if searched > LINE {
                self.is_within_long = true;
                self.unread = 0..0;
                searched = 0;
            }
            self.fill()?;
        }
    }

    /// Moves what is unread to the begin of the buffer, and reads more.
    fn fill(&mut self) -> Result<()> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        let room = &mut self.buffer[self.unread.end..];
        let length = loop {
            let read = match &mut self.decompressor {
                Some(decompressor) => decompressor.read(room),
                None => self.file.read(room),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.context(|| format!("read the log {}", self.path.display()))?,
            }
        };
        self.unread.end += length;
        self.fills += 1;
        if length == 0 {
            self.is_at_end = true;
            self.decompressor.take().map_or(Ok(()), |decompressor| decompressor.finish(&self.path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::machine::programs;
    use crate::machine::scratch::Scratch;

    /// The lines of a file with this content, shortened; `…` for lines that are too long.
    fn lines_of(path: &Path) -> Result<Vec<String>> {
        let mut lines = Lines::open(path)?;
        let mut told = Vec::new();
        while let Some(line) = lines.next()? {
            told.push(match line {
                Line::TooLong => "…".to_owned(),
                Line::Whole(line) if line.len() > 20 => line.len().to_string(),
                Line::Whole(line) => line.escape_ascii().to_string(),
            });
        }
        Ok(told)
    }

    /// Compresses with an installed program.
    fn compressed(program: &str, content: &Path) -> Vec<u8> {
        Command::new(program).arg("-c").stdin(File::open(content).unwrap()).output().unwrap().stdout
    }

    #[test]
    fn lines_end_in_many_ways() {
        let long = |length: usize| "x".repeat(length);
        let cases: Vec<(Vec<u8>, Vec<&str>)> = vec![
            (vec![], vec![]),
            (b"\n".to_vec(), vec![""]),
            (b"a\nb\r\n\nc".to_vec(), vec!["a", "b", "", "c"]),
            (b"\0a\xff\n\0\n".to_vec(), vec![r"\x00a\xff", r"\x00"]),
            (b"a\rb\r\r\n\r".to_vec(), vec![r"a\rb\r", ""]),
            (long(LINE).into(), vec!["65536"]),
            (long(LINE + 1).into(), vec!["…"]),
            (format!("a\n{}\nb", long(LINE)).into(), vec!["a", "65536", "b"]),
            (format!("a\n{}\nb", long(1 << 20)).into(), vec!["a", "…", "b"]),
            (format!("a\n{}", long(BUFFER)).into(), vec!["a", "…"]),
            (format!("{}\n{}\n\nb\n", long(BUFFER), long(3 * BUFFER)).into(), vec!["…", "…", "", "b"]),
        ];
        let scratch = Scratch::for_test("lines");
        let path = scratch.path().join("log");
        for (content, expected) in cases {
            fs::write(&path, &content).unwrap();
            assert_eq!(lines_of(&path).unwrap(), expected, "{}", content[..content.len().min(10)].escape_ascii());
        }
    }

    #[test]
    fn compressed_files_are_read_whatever_their_names() {
        let scratch = Scratch::for_test("compressed");
        let (plain, path) = (scratch.path().join("plain"), scratch.path().join("access.log.1"));
        fs::write(&plain, "line\n".repeat(100_000)).unwrap();
        let mut read_some = 0;
        for program in ["gzip", "xz", "bzip2", "zstd"] {
            if programs::find(&[program]).is_none() {
                continue;
            }
            fs::write(&path, compressed(program, &plain)).unwrap();
            let mut position = 0;
            let mut progress = |bytes| {
                position = bytes;
                Ok(())
            };
            let mut take = |_, line: &[u8]| if line == b"line" { Step::Read } else { Step::Unreadable };
            let counts = read(&path, &mut progress, &mut take).unwrap();
            assert_eq!(counts, Counts { lines: 100_000, ..Counts::default() }, "{program}");
            assert_eq!(position, path.metadata().unwrap().len(), "{program}");
            read_some += 1;
        }
        assert!(read_some > 0);
    }

    #[test]
    fn a_broken_file_is_named() {
        let scratch = Scratch::for_test("broken");
        let (plain, path) = (scratch.path().join("plain"), scratch.path().join("access.log.2.gz"));
        fs::write(&plain, (0..20_000).map(|number| format!("{number}\n")).collect::<String>()).unwrap();
        let whole = compressed("gzip", &plain);
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = lines_of(&path).unwrap_err().to_string();
        assert!(error.contains("gzip cannot read") && error.contains("access.log.2.gz: gzip: "), "{error}");
        assert!(error.contains("gzip -t"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_read_to_its_end_leaves_no_process() {
        let scratch = Scratch::for_test("unfinished");
        let (plain, path) = (scratch.path().join("plain"), scratch.path().join("log"));
        fs::write(&plain, "line\n".repeat(1_000_000)).unwrap();
        fs::write(&path, compressed("gzip", &plain)).unwrap();
        let mut lines = Lines::open(&path).unwrap();
        assert_eq!(lines.next().unwrap(), Some(Line::Whole(b"line")));
        let process = lines.decompressor.as_ref().unwrap().process_id();
        drop(lines);
        assert!(!Path::new(&format!("/proc/{process}")).exists());
        let counts = read(&path, &mut |_| Ok(()), &mut |_, _| Step::Enough).unwrap();
        assert_eq!(counts.lines, 1);
        let error = read(&path, &mut |_| Err(Error::new("interrupted")), &mut |_, _| Step::Read).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
    }

    #[test]
    fn lines_are_counted() {
        let scratch = Scratch::for_test("counted lines");
        let path = scratch.path().join("log");
        fs::write(&path, format!("a\n{}\nb\na\nb", "x".repeat(LINE + 1))).unwrap();
        let mut numbers = Vec::new();
        let mut take = |number, line: &[u8]| {
            numbers.push(number);
            if line == b"b" { Step::Unreadable } else { Step::Read }
        };
        let counts = read(&path, &mut |_| Ok(()), &mut take).unwrap();
        assert_eq!(counts, Counts { lines: 5, unreadable: 2, first_unreadable: Some(3), too_long: 1 });
        assert_eq!(numbers, [1, 3, 4, 5]);
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        for (path, why) in
            [("/dev/null", "is not a file"), ("/", "is not a file"), ("/none", "cannot read the log /none")]
        {
            let error = Lines::open(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
