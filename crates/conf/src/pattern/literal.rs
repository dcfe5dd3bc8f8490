//! Patterns that are plain text between an optional `^` and an optional `$`.

use std::ops::Range;

use memchr::memmem;

use super::flags::Flags;

/// A pattern that needs no regex engine.
#[derive(Debug, Clone)]
pub(super) struct Literal {
    text: Box<str>,
    anchored: Anchored,
    ignore_case: bool,
}

/// The required position of the text in the subject.
#[derive(Debug, Clone)]
enum Anchored {
    Start,
    End,
    Whole,
    /// Anywhere; the finder is for case-sensitive searches.
    Anywhere(Box<memmem::Finder<'static>>),
}

impl Literal {
    /// The literal that `pattern` is, if it is one. It is ASCII, which is the same in a text and in its bytes.
    pub(super) fn recognise(pattern: &str, flags: Flags) -> Option<Self> {
        if flags.multi_line || flags.extended || !pattern.is_ascii() {
            return None;
        }
        let (at_start, body) = match pattern.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let (text, at_end) = unescape(body)?;
        if at_end && !flags.dollar_end_only {
            return None;
        }
        let anchored = match (at_start, at_end) {
            (true, true) => Anchored::Whole,
            (true, false) => Anchored::Start,
            (false, true) => Anchored::End,
            (false, false) => {
                let finder = memmem::Finder::new(text.as_bytes()).into_owned();
                Anchored::Anywhere(Box::new(finder))
            }
        };
        Some(Self { text: text.into(), anchored, ignore_case: flags.ignore_case })
    }

    /// Makes the literal `text`, at the start of a subject or anywhere in it.
    pub(super) fn within(text: &str, at_start: bool, ignore_case: bool) -> Self {
        let anchored = match at_start {
            true => Anchored::Start,
            false => Anchored::Anywhere(Box::new(memmem::Finder::new(text.as_bytes()).into_owned())),
        };
        Self { text: text.into(), anchored, ignore_case }
    }

    /// The text, and whether it must be at the start.
    pub(super) fn text(&self) -> (&str, bool) {
        (&self.text, matches!(self.anchored, Anchored::Start | Anchored::Whole))
    }

    /// Finds the text in `subject` at byte `from` or later.
    pub(super) fn find_at(&self, subject: &[u8], from: usize) -> Option<Range<usize>> {
        let text = self.text.as_bytes();
        let last = subject.len().checked_sub(text.len())?;
        let start = match &self.anchored {
            Anchored::Start => self.matches_at(subject, 0).then_some(0),
            Anchored::End => self.matches_at(subject, last).then_some(last),
            Anchored::Whole => (last == 0 && self.matches_at(subject, 0)).then_some(0),
            Anchored::Anywhere(finder) => {
                let tail = subject.get(from..)?;
                let found = if self.ignore_case { find_ignoring_case(tail, text) } else { finder.find(tail) };
                found.map(|at| from + at)
            }
        }?;
        (start >= from).then(|| start..start + text.len())
    }

    fn matches_at(&self, subject: &[u8], start: usize) -> bool {
        let candidate = &subject[start..start + self.text.len()];
        if self.ignore_case {
            candidate.eq_ignore_ascii_case(self.text.as_bytes())
        } else {
            candidate == self.text.as_bytes()
        }
    }
}

/// The text of a pattern without special characters, and whether it ends in `$`.
fn unescape(pattern: &str) -> Option<(String, bool)> {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '$' if chars.as_str().is_empty() => return Some((text, true)),
            '\\' => match chars.next()? {
                escaped if escaped.is_ascii_alphanumeric() => return None,
                escaped => text.push(escaped),
            },
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | '{' | '|' | '^' | '$' => return None,
            plain => text.push(plain),
        }
    }
    Some((text, false))
}

/// The first position of `needle` in `haystack`, ignoring the case of ASCII letters.
fn find_ignoring_case(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let Some(first) = needle.first() else {
        return Some(0);
    };
    let starts = &haystack[..=haystack.len().checked_sub(needle.len())?];
    memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), starts)
        .find(|&at| haystack[at..at + needle.len()].eq_ignore_ascii_case(needle))
}
