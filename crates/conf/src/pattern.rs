//! Regular expressions as in Apache: PCRE2, with a limit on the work per match.
//!
//! Most patterns of real configurations are plain words with an optional `^` or `$` (`^\.ht`, `\.txt$`, `Mozilla/2`);
//! these do not use PCRE2. For most others, a quick check shows that they do not match.
//!
//! Like Apache, this module matches bytes: `.` matches one byte of a non-ASCII character, unless the pattern starts
//! with `(*UTF)`. A group that is only a part of a character has a text of its own.
//!
//! Source: Apache manual, directive `RegexDefaultOptions`; pcre2pattern(3).

mod captures;
mod flags;
mod literal;
mod pattern_set;
mod prefilter;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::text::{from_bytes, to_bytes};
use sys::pcre2::{self, Code};

pub use self::captures::Captures;
pub use self::flags::{Flags, PatternError};
use self::literal::Literal;
pub use self::pattern_set::{Candidates, PatternSet};
use self::prefilter::Prefilter;

/// PCRE2 gave up, so whether the pattern matches is unknown: it needs too many steps or too much memory on this
/// subject, or `(*UTF)` requires UTF-8 and the subject is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchError {
    source: Box<str>,
    why: pcre2::MatchError,
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "regular expression /{}/ cannot be matched: {}", self.source, self.why)
    }
}

impl std::error::Error for MatchError {}

/// A regular expression, compiled once and matched often.
#[derive(Clone)]
pub struct Regex {
    source: Box<str>,
    flags: Flags,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    Literal(Literal),
    Engine(Arc<Engine>),
}

struct Engine {
    prefilter: Prefilter,
    code: Code,
    names: Vec<(usize, String)>,
}

impl Regex {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// PCRE2 rejects it.
    pub fn new(pattern: &str, flags: Flags) -> Result<Self, PatternError> {
        let matcher = match Literal::recognise(pattern, flags) {
            Some(literal) => Matcher::Literal(literal),
            None => {
                let code = Code::new(&to_bytes(pattern), flags.options()).map_err(PatternError)?;
                let names = code.names().into_iter();
                let names = names.map(|(number, name)| (number, from_bytes(&name).into_owned())).collect();
                Matcher::Engine(Arc::new(Engine { prefilter: Prefilter::of(pattern, flags), code, names }))
            }
        };
        Ok(Self { source: pattern.into(), flags, matcher })
    }

    /// Whether the pattern occurs in `subject`.
    ///
    /// # Errors
    /// [`MatchError`] when PCRE2 gives up.
    pub fn is_match(&self, subject: &str) -> Result<bool, MatchError> {
        match &self.matcher {
            Matcher::Literal(literal) => Ok(literal.find_at(subject.as_bytes(), 0).is_some()),
            Matcher::Engine(engine) => match engine.prefilter.answer(subject.as_bytes()) {
                Some(answer) => Ok(answer),
                None => engine.code.is_match(&to_bytes(subject)).map_err(|why| self.no_answer(why)),
            },
        }
    }

    /// Like [`is_match`](Self::is_match), and records the positions of the groups; without a match, clears `captures`.
    ///
    /// # Errors
    /// [`MatchError`] when PCRE2 gives up.
    pub fn captures(&self, subject: &str, captures: &mut Captures) -> Result<bool, MatchError> {
        let bytes = to_bytes(subject);
        let found = self.captures_in(&bytes, 0, captures)?;
        captures.take_texts(subject, &bytes);
        Ok(found)
    }

    /// Like [`captures`](Self::captures) for a subject of bytes, and finds the first match that begins at `start` or
    /// later; lookbehind sees the bytes before `start`. `Header edit*` and `Substitute` use it to continue after a
    /// match. The groups are spans only.
    ///
    /// # Errors
    /// [`MatchError`] when PCRE2 gives up.
    pub fn captures_in(&self, subject: &[u8], start: usize, captures: &mut Captures) -> Result<bool, MatchError> {
        captures.clear();
        match &self.matcher {
            Matcher::Engine(engine) if engine.prefilter.answer(subject) == Some(false) => Ok(false),
            Matcher::Engine(engine) => {
                engine.code.find(subject, start, &mut captures.spans).map_err(|why| self.no_answer(why))
            }
            Matcher::Literal(literal) => {
                captures.spans.extend(literal.find_at(subject, start).map(Some));
                Ok(!captures.is_empty())
            }
        }
    }

    /// A text that every match of the pattern contains, if one is known.
    fn needed(&self) -> Option<&Literal> {
        match &self.matcher {
            Matcher::Literal(literal) => Some(literal),
            Matcher::Engine(engine) => match &engine.prefilter {
                Prefilter::Needs(literal) => Some(literal),
                Prefilter::Unknown | Prefilter::Everything => None,
            },
        }
    }

    fn no_answer(&self, why: pcre2::MatchError) -> MatchError {
        MatchError { source: self.source.clone(), why }
    }

    /// The number of capturing groups, without the whole match.
    #[must_use]
    pub fn groups(&self) -> usize {
        match &self.matcher {
            Matcher::Literal(_) => 0,
            Matcher::Engine(engine) => engine.code.groups(),
        }
    }

    /// The named groups, as number and name: `<DirectoryMatch>` and similar sections set `MATCH_NAME` variables from
    /// them.
    #[must_use]
    pub fn names(&self) -> &[(usize, String)] {
        match &self.matcher {
            Matcher::Literal(_) => &[],
            Matcher::Engine(engine) => &engine.names,
        }
    }

    /// The pattern as written in the configuration.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Regex").field(&self.source).finish()
    }
}

impl PartialEq for Regex {
    /// Two expressions are equal if they are written alike.
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.flags == other.flags
    }
}

/// Appends `template` to `out` with `$0` ... `$9` replaced by the groups of the match; a group that took no part is
/// empty, and a backslash escapes the next character (`\$`).
///
/// `&` is literal: it no longer means the whole match in 2.4 (measured with `SetEnvIf` on 2.4.71).
///
/// # Errors
/// `out` would become longer than `max` bytes. It then ends somewhere before.
pub fn substitute(
    out: &mut String,
    template: &str,
    subject: &str,
    captures: &Captures,
    max: usize,
) -> Result<(), TooLong> {
    let before = out.len();
    for piece in Pieces(template) {
        let text = match piece {
            Piece::Text(text) => text,
            Piece::Group(group) => captures.get(group, subject).unwrap_or_default(),
        };
        TooLong::check(out.len() + text.len(), max)?;
        out.push_str(text);
    }
    if captures.has_texts() {
        // The parts of a character may be adjacent again: normalize them to the character.
        let whole = from_bytes(&to_bytes(&out[before..])).into_owned();
        out.replace_range(before.., &whole);
    }
    Ok(())
}

/// Like [`substitute`], for a subject of bytes.
///
/// # Errors
/// `out` would become longer than `max` bytes. It then ends somewhere before.
pub fn substitute_in(
    out: &mut Vec<u8>,
    template: &str,
    subject: &[u8],
    captures: &Captures,
    max: usize,
) -> Result<(), TooLong> {
    for piece in Pieces(template) {
        let bytes = match piece {
            Piece::Text(text) => to_bytes(text),
            Piece::Group(group) => {
                let span = captures.span(group).and_then(|span| subject.get(span));
                Cow::Borrowed(span.unwrap_or_default())
            }
        };
        TooLong::check(out.len() + bytes.len(), max)?;
        out.extend_from_slice(&bytes);
    }
    Ok(())
}

/// A text would be longer than this many bytes, the most it may have: without a limit, templates that repeat what they
/// are given could take all memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong(pub usize);

impl TooLong {
    /// Whether a length is one that a text may have.
    ///
    /// # Errors
    /// The pattern has more than `max` bytes.
    pub fn check(length: usize, max: usize) -> Result<(), TooLong> {
        if length > max { Err(TooLong(max)) } else { Ok(()) }
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text would be longer than {} bytes, which is the limit", self.0)
    }
}

impl std::error::Error for TooLong {}

enum Piece<'t> {
    Text(&'t str),
    Group(usize),
}

/// The pieces of a template that are left.
struct Pieces<'t>(&'t str);

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let rest = self.0;
        let mut chars = rest.chars();
        let (piece, length) = match (chars.next()?, chars.next()) {
            ('$', Some(digit @ '0'..='9')) => (Piece::Group(usize::from(digit as u8 - b'0')), 2),
            ('\\', Some(escaped)) => (Piece::Text(&rest[1..1 + escaped.len_utf8()]), 1 + escaped.len_utf8()),
            ('$' | '\\', _) => (Piece::Text(&rest[..1]), 1),
            _ => {
                let special = memchr::memchr2(b'$', b'\\', rest.as_bytes()).unwrap_or(rest.len());
                (Piece::Text(&rest[..special]), special)
            }
        };
        self.0 = &rest[length..];
        Some(piece)
    }
}

#[cfg(test)]
mod tests;
