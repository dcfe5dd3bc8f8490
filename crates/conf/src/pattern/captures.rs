//! The positions of the groups of a match.

use std::ops::Range;

use http::text::from_bytes;
use sys::pcre2::Spans;

/// The positions of the groups of one match in its subject; group 0 is the whole match.
///
/// Keep and refill it, so that a request allocates it once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captures {
    /// The ranges in the bytes of the subject.
    pub(super) spans: Spans,
    /// The texts of the groups, if they are not slices of the subject: it contains bytes that are not characters, or a
    /// group begins or ends inside a character.
    texts: Vec<Option<String>>,
}

impl Captures {
    /// Forgets the match.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.texts.clear();
    }

    /// Whether no match is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The range of a group in the bytes of the subject, if it took part in the match.
    #[must_use]
    pub fn span(&self, group: usize) -> Option<Range<usize>> {
        self.spans.get(group)?.clone()
    }

    /// The text of a group; `subject` is the text that was matched.
    #[must_use]
    pub fn get<'s>(&'s self, group: usize, subject: &'s str) -> Option<&'s str> {
        match self.texts.get(group) {
            Some(text) => text.as_deref(),
            None => subject.get(self.span(group)?),
        }
    }

    pub(super) fn has_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Keeps the texts of groups that are not slices of the subject; `bytes` are the bytes that the subject represents.
    pub(super) fn take_texts(&mut self, subject: &str, bytes: &[u8]) {
        let fits = |span: &Range<usize>| subject.is_char_boundary(span.start) && subject.is_char_boundary(span.end);
        if bytes.len() != subject.len() || !self.spans.iter().flatten().all(fits) {
            let text = |span: &Range<usize>| bytes.get(span.clone()).map(|text| from_bytes(text).into_owned());
            self.texts.extend(self.spans.iter().map(|span| span.as_ref().and_then(text)));
        }
    }
}
