//! A text being read.

use std::sync::Arc;

use crate::error::{Error, Phase};
use crate::lines::Lines;
use crate::source::{Origin, Source};

/// A text being read.
pub(super) struct Input {
    lines: Lines,
    source: Arc<Source>,
    /// An end tag was wrong, so it is only a guess which sections are open.
    pub(super) is_unbalanced: bool,
}

impl Input {
    pub(super) fn new(bytes: impl Into<Arc<Vec<u8>>>, max: usize, source: Source) -> Input {
        Input { lines: Lines::new(bytes, max), source: Arc::new(source), is_unbalanced: false }
    }

    /// The next line that is not empty, and its place.
    pub(super) fn next(&mut self) -> Result<Option<(Origin, String)>, Error> {
        loop {
            match self.next_or_blank()? {
                Some((_, text)) if text.is_empty() => {}
                line => return Ok(line),
            }
        }
    }

    /// The next line, which may be empty, and its place.
    pub(super) fn next_or_blank(&mut self) -> Result<Option<(Origin, String)>, Error> {
        match self.lines.next() {
            Ok(line) => Ok(line.map(|line| (self.at(line.number), line.text))),
            Err(text) => {
                let at = self.at(self.lines.number());
                let message = format!("Error reading {} at line {}: {text}", at.file(), at.line);
                Err(Error::at(Phase::Read, &at, message))
            }
        }
    }

    fn at(&self, line: u32) -> Origin {
        Origin { source: self.source.clone(), line }
    }
}
