//! Sections: their matching, and the order in which they apply (Apache manual, "Configuration Sections", how the
//! sections are merged).

use std::sync::Arc;

use conf::expr::Expr;
use conf::fnmatch::{self, Flags};
use conf::pattern::{Captures, MatchError, Regex};
use conf::{Origin, SettingsMap};

use crate::message::fields::Fields;
use crate::settings::merge::Layer;

/// The condition in a section's argument.
#[derive(Debug)]
pub enum Matcher {
    /// A path, and everything below it; without a slash at the end.
    Path(String),
    /// A path with wildcards, which do not match `/`.
    Wild(String),
    /// A regular expression, found anywhere.
    Regex(Regex),
    /// The condition of `<If>`, `<ElseIf>` or `<Else>`, and those before it in the same chain, which must be false.
    If(Arc<Expr>),
    /// `<Else>`.
    Else,
}

/// A section of the configuration.
#[derive(Debug)]
pub struct Section {
    /// Its condition.
    pub matcher: Matcher,
    /// For `<ElseIf>` and `<Else>`: the section is skipped if the one before it was taken.
    pub after: bool,
    /// Its settings.
    pub layer: Layer,
    /// Its first line.
    pub origin: Origin,
    /// See [`rank`](Section::rank).
    rank: (bool, usize),
}

impl Section {
    /// A section with these settings for everything that its argument matches.
    pub fn new(matcher: Matcher, settings: SettingsMap, origin: Origin) -> Section {
        let rank = match &matcher {
            Matcher::Path(path) | Matcher::Wild(path) => (false, components(path)),
            Matcher::Regex(regex) => (true, regex.source().bytes().filter(|byte| *byte == b'/').count()),
            Matcher::If(_) | Matcher::Else => (true, 0),
        };
        Section { matcher, after: false, layer: Layer::new(settings), origin, rank }
    }

    /// `<Directory>`: the number of components of the path.
    pub fn depth(&self) -> usize {
        self.rank.1
    }

    /// The order among `<Directory>` sections: by the number of components of the path. Regular expressions come after all
    /// others, and as in Apache those with fewer slashes before those with more.
    pub fn rank(&self) -> (bool, usize) {
        self.rank
    }

    /// Whether it matches by a regular expression.
    pub fn is_regex(&self) -> bool {
        matches!(self.matcher, Matcher::Regex(_))
    }

    /// Whether a `<Directory>` matches exactly this directory (or file): `path` without a slash at the end, `/` empty.
    pub fn is_directory(&self, path: &str) -> bool {
        match &self.matcher {
            Matcher::Path(mine) => mine == path,
            Matcher::Wild(mine) => {
                let path = if path.is_empty() { "/" } else { path };
                let mine = if mine.is_empty() { "/" } else { mine };
                fnmatch::fnmatch(mine, path, PATH)
            }
            _ => false,
        }
    }

    /// Whether a `<Location>` matches this URL path.
    pub fn is_location(&self, uri: &str, env: &mut Fields) -> Result<bool, MatchError> {
        Ok(match &self.matcher {
            Matcher::Path(mine) => uri
                .strip_prefix(mine.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || mine.ends_with('/')),
            Matcher::Wild(mine) => fnmatch::fnmatch(mine, uri, PATH),
            Matcher::Regex(regex) => found(regex, uri, env)?,
            Matcher::If(_) | Matcher::Else => false,
        })
    }

    /// Whether a `<Files>` matches a file of this name.
    pub fn is_file(&self, name: &str, env: &mut Fields) -> Result<bool, MatchError> {
        Ok(match &self.matcher {
            Matcher::Path(mine) => mine == name,
            Matcher::Wild(mine) => fnmatch::fnmatch(mine, name, Flags::default()),
            Matcher::Regex(regex) => found(regex, name, env)?,
            Matcher::If(_) | Matcher::Else => false,
        })
    }

    /// Whether a `<DirectoryMatch>` matches this path.
    pub fn is_directory_match(&self, path: &str, env: &mut Fields) -> Result<bool, MatchError> {
        match &self.matcher {
            Matcher::Regex(regex) => found(regex, path, env),
            _ => Ok(false),
        }
    }
}

/// Wildcards stop at slashes.
const PATH: Flags = Flags { pathname: true, period: false, ignore_case: false };

/// The number of components of a path: `/` has 0.
pub fn components(path: &str) -> usize {
    path.split('/').filter(|part| !part.is_empty()).count()
}

/// Whether the expression matches; named groups become `MATCH_NAME` variables. An expression that runs out of its
/// budget is an error, not a "no": the section might be the one that denies.
fn found(regex: &Regex, subject: &str, env: &mut Fields) -> Result<bool, MatchError> {
    if regex.names().is_empty() {
        return regex.is_match(subject);
    }
    let mut captures = Captures::default();
    if !regex.captures(subject, &mut captures)? {
        return Ok(false);
    }
    for (group, name) in regex.names() {
        if let Some(text) = captures.get(*group, subject).filter(|text| !text.is_empty()) {
            env.set(format!("MATCH_{}", name.to_ascii_uppercase()), text);
        }
    }
    Ok(true)
}
