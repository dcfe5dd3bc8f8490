//! Where a directive was written: file, line, and the chain of `Include`s which led there.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A text that directives are read from: a file, the `-c`/`-C` options, or the body of a macro.
#[derive(Debug)]
pub struct Source {
    /// The name shown in messages: an absolute path, `-c/-C directives`, or Apache's wording for a macro.
    pub name: String,
    /// Which of the texts it is that the server was started with: those of `-C` and of `-c` have one name.
    pub nth: u32,
    /// The `Include` (or `Use`) line which led here; `None` for what the server was started with.
    pub included_from: Option<Origin>,
    /// The text itself, so that an error can show its line; empty for an `.htaccess` file, of which there may be very many.
    pub text: Arc<Vec<u8>>,
}

impl Source {
    /// A text that nothing included.
    pub fn new(name: impl Into<String>) -> Source {
        Source { name: name.into(), nth: 0, included_from: None, text: Arc::default() }
    }
}

/// A line of a [`Source`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The text.
    pub source: Arc<Source>,
    /// The line, counted from 1: of a directive its last physical line, of a section its opening line.
    pub line: u32,
}

impl Origin {
    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// The lines which included this one, innermost first.
    pub fn chain(&self) -> impl Iterator<Item = &Origin> {
        std::iter::successors(self.source.included_from.as_ref(), |at| at.source.included_from.as_ref())
    }

    /// The lines which include each other without end, where this line is one of them: outermost first, each of them once.
    pub fn cycle(&self) -> Option<Vec<&Origin>> {
        let is_same = |at: &&Origin| at.line == self.line && at.file() == self.file();
        self.chain().find(is_same)?;
        let mut lines: Vec<&Origin> = std::iter::once(self).chain(self.chain().take_while(|at| !is_same(at))).collect();
        lines.reverse();
        Some(lines)
    }

    /// Whether this text is read while it is being read: because it includes itself, or one that includes it.
    pub fn repeats(&self) -> bool {
        let mut files = HashSet::new();
        std::iter::once(self).chain(self.chain()).any(|at| !files.insert(at.file()))
    }

    /// How many `Include`s deep this line stands.
    pub fn depth(&self) -> usize {
        self.chain().count()
    }
}

/// The same line, read for the same reason: a file may be included twice, and read again.
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
