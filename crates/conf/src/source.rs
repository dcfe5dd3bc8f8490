//! The place of a directive: its file, its line, and the chain of `Include`s that led there.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A text that directives are read from: a file, the `-c`/`-C` options, or the body of a macro.
#[derive(Debug)]
pub struct Source {
    /// The name shown in messages: an absolute path, `-c/-C directives`, or Apache's wording for a macro.
    pub name: String,
    /// The number among the texts that the server was started with: those of `-C` and `-c` share a name.
    pub nth: u32,
    /// The `Include` (or `Use`) line that led here; `None` for the texts that the server was started with.
    pub included_from: Option<Origin>,
    /// The text itself, so that an error can show its line; empty for an `.htaccess` file, because there may be very
    /// many.
    pub text: Arc<Vec<u8>>,
}

impl Source {
    /// Makes a text that was not included from another.
    pub fn new(name: impl Into<String>) -> Source {
        Source { name: name.into(), nth: 0, included_from: None, text: Arc::default() }
    }
}

/// A line of a [`Source`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The file, or other text, that contains the line.
    pub source: Arc<Source>,
    /// The line, counted from 1: the last physical line of a directive, the opening line of a section.
    pub line: u32,
}

impl Origin {
    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// The lines that included this one, innermost first.
    pub fn chain(&self) -> impl Iterator<Item = &Origin> {
        std::iter::successors(self.source.included_from.as_ref(), |at| at.source.included_from.as_ref())
    }

    /// The lines of an endless include cycle that this line belongs to, if any: outermost first, each once.
    pub fn cycle(&self) -> Option<Vec<&Origin>> {
        let is_same = |at: &&Origin| at.line == self.line && at.file() == self.file();
        self.chain().find(is_same)?;
        let mut lines: Vec<&Origin> = std::iter::once(self).chain(self.chain().take_while(|at| !is_same(at))).collect();
        lines.reverse();
        Some(lines)
    }

    /// Whether this text includes itself, directly or through other texts.
    pub fn repeats(&self) -> bool {
        let mut files = HashSet::new();
        std::iter::once(self).chain(self.chain()).any(|at| !files.insert(at.file()))
    }

    /// How many `Include`s deep this line is.
    pub fn depth(&self) -> usize {
        self.chain().count()
    }
}

/// Equal means the same line, included along the same chain: a file may be included twice, and read again.
impl PartialEq for Origin {
    fn eq(&self, other: &Origin) -> bool {
        self.line == other.line
            && self.source.name == other.source.name
            && self.source.nth == other.source.nth
            && self.source.included_from == other.source.included_from
    }
}

impl Eq for Origin {}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.line, &self.source.name).hash(state);
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file(), self.line)
    }
}
