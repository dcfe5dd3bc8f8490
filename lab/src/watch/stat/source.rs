//! The sources of figures: files of /proc, which stay open, so that a swapping machine need not find them again.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use crate::machine::error::{Context as _, Result};

/// A file of /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stat,
    Memory,
    Disks,
    Networks,
    Load,
    Paging,
    Swaps,
    Pressure,
    CpuPressure,
    IoPressure,
    Uptime,
}

const FILES: [(Source, &str); 11] = [
    (Source::Stat, "/proc/stat"),
    (Source::Memory, "/proc/meminfo"),
    (Source::Disks, "/proc/diskstats"),
    (Source::Networks, "/proc/net/dev"),
    (Source::Load, "/proc/loadavg"),
    (Source::Paging, "/proc/vmstat"),
    (Source::Swaps, "/proc/swaps"),
    (Source::Pressure, "/proc/pressure/memory"),
    (Source::CpuPressure, "/proc/pressure/cpu"),
    (Source::IoPressure, "/proc/pressure/io"),
    (Source::Uptime, "/proc/uptime"),
];

/// The texts of these files at one moment.
#[derive(Debug)]
pub(crate) struct Texts {
    files: Vec<(Source, RefCell<File>)>,
    texts: Vec<(Source, String)>,
}

impl Texts {
    /// Opens the wanted files; skips those that this kernel lacks.
    ///
    /// # Errors
    /// There is no /proc.
    pub(crate) fn open(wanted: &[Source]) -> Result<Self> {
        let open = |(source, path): (Source, &str)| Some((source, RefCell::new(File::open(path).ok()?)));
        let files: Vec<_> = FILES.into_iter().filter(|(source, _)| wanted.contains(source)).filter_map(open).collect();
        if files.is_empty() {
            std::fs::metadata(FILES[0].1).context(|| format!("look at {}", FILES[0].1))?;
        }
        // Preallocated, so that no memory has to be found while the machine swaps.
        let texts = files.iter().map(|(source, _)| (*source, String::with_capacity(64 * 1024))).collect();
        Ok(Self { files, texts })
    }

    /// Reads all of them again.
    pub(crate) fn read(&mut self) -> Result<()> {
        for ((_, file), (_, text)) in self.files.iter().zip(&mut self.texts) {
            text.clear();
            let mut file = file.borrow_mut();
            let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(text));
            read.context(|| "read what the kernel says".to_owned())?;
        }
        Ok(())
    }

    /// The last text of a file; empty if this kernel lacks it.
    pub(crate) fn of(&self, source: Source) -> &str {
        self.texts.iter().find(|(other, _)| *other == source).map_or("", |(_, text)| text)
    }

    /// The numbers of the first line that begins with the word `first`.
    pub(crate) fn line(&self, source: Source, first: &str) -> Vec<f64> {
        self.lines(source)
            .find(|words| words.first() == Some(&first))
            .map(|words| numbers(&words[1..]))
            .unwrap_or_default()
    }

    /// The words of each line.
    pub(crate) fn lines(&self, source: Source) -> impl Iterator<Item = Vec<&str>> {
        self.of(source).lines().map(|line| line.split_ascii_whitespace().collect())
    }
}

#[cfg(test)]
impl Texts {
    /// A test's replacement for the kernel.
    pub(crate) fn said(texts: &[(Source, &str)]) -> Self {
        Self { files: Vec::new(), texts: texts.iter().map(|(source, text)| (*source, (*text).to_owned())).collect() }
    }
}

/// The numbers among words; others are 0.
pub(crate) fn numbers(words: &[&str]) -> Vec<f64> {
    words.iter().map(|word| word.parse().unwrap_or(0.0)).collect()
}
