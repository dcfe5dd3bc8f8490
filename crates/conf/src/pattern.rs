//! Regular expressions as Apache understands them: PCRE2 patterns, matched with a bound on the work.
//!
//! Most patterns of real configurations are plain words with an optional `^` or `$` (`^\.ht`,
//! `\.txt$`, `Mozilla/2`); these never see a regex engine. Everything else is translated to the
//! dialect of `fancy-regex`.
//!
//! Apache matches bytes, this module matches text: a character beyond ASCII counts as one.
//!
//! Source: Apache manual, directive `RegexDefaultOptions`; pcre2pattern(3).

mod flags;
mod literal;
mod translate;

use std::fmt;
use std::ops::Range;

pub use self::flags::{Flags, PatternError};
use self::literal::Literal;

/// How much a pattern with look-around or back references may backtrack for one subject.
///
/// Plain patterns run in linear time and never get near it; a hostile subject costs a few
/// milliseconds before [`MatchError`] ends it.
const BACKTRACK_LIMIT: usize = 100_000;

/// A match was given up: the pattern backtracks too much on this subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchError(Box<str>);

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "regular expression /{}/ needs too many steps", self.0)
    }
}

impl std::error::Error for MatchError {}

/// A compiled pattern.
#[derive(Clone)]
pub struct Regex {
    source: Box<str>,
    flags: Flags,
    matcher: Matcher,
    groups: usize,
}

#[derive(Clone)]
enum Matcher {
    Literal(Literal),
    Engine(Box<fancy_regex::Regex>),
}

impl Regex {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// The pattern is malformed, or uses one of the PCRE constructs that are not supported:
    /// recursion and subroutine calls, branch reset `(?|`, and backtracking verbs `(*...)`.
    pub fn new(pattern: &str, flags: Flags) -> Result<Self, PatternError> {
        let (matcher, groups) = match Literal::recognise(pattern, flags) {
            Some(literal) => (Matcher::Literal(literal), 0),
            None => {
                let engine = fancy_regex::RegexBuilder::new(&translate::translate(pattern, flags)?)
                    .backtrack_limit(BACKTRACK_LIMIT)
                    .build()
                    .map_err(|e| PatternError::new(e.to_string()))?;
                let groups = engine.captures_len().saturating_sub(1);
                (Matcher::Engine(Box::new(engine)), groups)
            }
        };
        Ok(Self { source: pattern.into(), flags, matcher, groups })
    }

    /// Whether the pattern occurs in `subject`.
    ///
    /// # Errors
    /// [`MatchError`] when the bound on backtracking is reached.
    pub fn is_match(&self, subject: &str) -> Result<bool, MatchError> {
        match &self.matcher {
            Matcher::Literal(literal) => Ok(literal.find(subject).is_some()),
            Matcher::Engine(engine) => engine.is_match(subject).map_err(|_| self.too_costly()),
        }
    }

    /// Like [`is_match`](Self::is_match), and records where the groups matched; without a match
    /// `captures` is left empty.
    ///
    /// # Errors
    /// [`MatchError`] when the bound on backtracking is reached.
    pub fn captures(&self, subject: &str, captures: &mut Captures) -> Result<bool, MatchError> {
        self.captures_at(subject, 0, captures)
    }

    /// Like [`captures`](Self::captures), but looks for the first match that begins at byte
    /// `start` or later, seeing what stands before it: `Header edit*` and `Substitute` go on so.
    ///
    /// # Errors
    /// [`MatchError`] when the bound on backtracking is reached.
    pub fn captures_at(&self, subject: &str, start: usize, captures: &mut Captures) -> Result<bool, MatchError> {
        captures.clear();
        match &self.matcher {
            Matcher::Literal(literal) => captures.spans.extend(literal.find_at(subject, start).map(Some)),
            Matcher::Engine(engine) => {
                let found = engine.captures_from_pos(subject, start).map_err(|_| self.too_costly())?;
                if let Some(found) = found {
                    let spans = found.iter().map(|group| group.map(|m| m.range()));
                    captures.spans.extend(spans);
                }
            }
        }
        Ok(!captures.is_empty())
    }

    fn too_costly(&self) -> MatchError {
        MatchError(self.source.clone())
    }

    /// The number of capturing groups, the whole match not counted.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The named groups, as number and name: `<DirectoryMatch>` and its kin make `MATCH_NAME`
    /// variables of them.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        let engine = match &self.matcher {
            Matcher::Literal(_) => None,
            Matcher::Engine(engine) => Some(engine),
        };
        engine.into_iter().flat_map(|engine| {
            let numbered = engine.capture_names().enumerate();
            numbered.filter_map(|(number, name)| Some((number, name?)))
        })
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
    /// Two expressions are equal when they were written alike.
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.flags == other.flags
    }
}

/// Where the groups of one match lie in its subject; group 0 is the whole match.
///
/// Made to be kept and refilled, so that a request path allocates it once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captures {
    spans: Vec<Option<Range<usize>>>,
}

impl Captures {
    /// Forgets the match.
    pub fn clear(&mut self) {
        self.spans.clear();
    }

    /// Whether no match is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The byte range of a group, if it took part in the match.
    #[must_use]
    pub fn span(&self, group: usize) -> Option<Range<usize>> {
        self.spans.get(group)?.clone()
    }

    /// The text of a group; `subject` is what the expression was matched against.
    #[must_use]
    pub fn get<'s>(&self, group: usize, subject: &'s str) -> Option<&'s str> {
        subject.get(self.span(group)?)
    }
}

/// Appends `template` to `out` with `$0` ... `$9` replaced by the groups of the match; a group that
/// took no part is empty, and a backslash takes the meaning from what follows it (`\$`).
///
/// `&` stands for itself: that it once meant the whole match is no longer true in 2.4 (measured
/// with `SetEnvIf` on 2.4.71).
pub fn substitute(out: &mut String, template: &str, subject: &str, captures: &Captures) {
    let mut rest = template;
    while let Some(special) = memchr::memchr2(b'$', b'\\', rest.as_bytes()) {
        let (plain, tail) = rest.split_at(special);
        out.push_str(plain);
        let mut chars = tail.chars();
        let marker = chars.next();
        let next = chars.clone().next();
        match (marker, next) {
            (Some('$'), Some(digit @ '0'..='9')) => {
                let group = usize::from(digit as u8 - b'0');
                out.push_str(captures.get(group, subject).unwrap_or_default());
                chars.next();
            }
            (Some('\\'), Some(escaped)) => {
                out.push(escaped);
                chars.next();
            }
            _ => out.extend(marker),
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests;
