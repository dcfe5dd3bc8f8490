//! Lines for URL paths, in the order of their search.

use std::collections::HashMap;
use std::sync::Arc;

use conf::pattern::{Captures, MatchError, Regex};
use conf::{Merge, Origin};
use http::uri::merge_slashes;

use super::text::matched;

/// The URL paths that a line is about: those below a prefix, or those that match a pattern.
#[derive(Clone, Debug)]
pub(crate) enum Matcher {
    Prefix(String),
    Pattern(Regex),
}

/// The lines of a server or a section, and of those around it: inner ones are searched first.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(Vec<Arc<Level<T>>>);

/// The lines that were written at one level; all levels inside share them.
#[derive(Clone, Debug)]
struct Level<T> {
    lines: Vec<Line<T>>,
    index: Index,
}

/// A line of mod_alias: the URL paths that it is about, and what it does with them.
#[derive(Clone, Debug)]
pub(crate) struct Line<T> {
    pub(crate) matcher: Matcher,
    pub(crate) then: T,
    pub(crate) origin: Origin,
}

/// A line that matches, and the length of the path's part that its prefix is; 0 for a pattern.
pub(crate) type Found<'a, T> = (&'a Line<T>, usize);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T: Clone> List<T> {
    /// Adds a line after those of the same level.
    pub(crate) fn push(&mut self, matcher: Matcher, then: T, origin: Origin) {
        if self.0.is_empty() {
            self.0.push(Arc::new(Level { lines: Vec::new(), index: Index::default() }));
        }
        let level = Arc::make_mut(&mut self.0[0]);
        level.index.add(&matcher, level.lines.len());
        level.lines.push(Line { matcher, then, origin });
    }

    /// The first line that matches `path`. The groups of a pattern are in `captures`. `Err`: a line that cannot be decided.
    pub(crate) fn find(
        &self,
        path: &str,
        captures: &mut Captures,
    ) -> Result<Option<Found<'_, T>>, (MatchError, &Origin)> {
        for level in &self.0 {
            if let Some(found) = level.find(path, captures)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl<T: Clone> Merge for List<T> {
    fn merge(base: &Self, add: &Self) -> Self {
        List(add.0.iter().chain(&base.0).cloned().collect())
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.0.iter().flat_map(|level| &level.lines).for_each(|line| see(&line.origin));
    }
}

impl<T> Level<T> {
    /// Fewer lines are compared one by one: that is faster than the index.
    const SHORT: usize = 16;

    fn find(&self, path: &str, captures: &mut Captures) -> Result<Option<Found<'_, T>>, (MatchError, &Origin)> {
        if self.lines.len() < Self::SHORT {
            self.first_of(0..self.lines.len(), path, captures)
        } else {
            self.first_of(self.index.candidates(path), path, captures)
        }
    }

    /// The first of some lines that matches.
    fn first_of(
        &self,
        lines: impl Iterator<Item = usize>,
        path: &str,
        captures: &mut Captures,
    ) -> Result<Option<Found<'_, T>>, (MatchError, &Origin)> {
        for line in lines.map(|at| &self.lines[at]) {
            let length = match &line.matcher {
                Matcher::Prefix(prefix) => matched(path, prefix),
                Matcher::Pattern(regex) => match regex.captures(path, captures) {
                    Ok(is_match) => is_match.then_some(0),
                    Err(why) => return Err((why, &line.origin)),
                },
            };
            if let Some(length) = length {
                return Ok(Some((line, length)));
            }
        }
        Ok(None)
    }
}

/// Finds lines by their prefixes, so that ten thousand take as long as ten.
#[derive(Clone, Debug, Default)]
struct Index {
    /// The first line with a prefix; `None` if longer ones begin with it. Repeated slashes are merged.
    prefixes: HashMap<Box<str>, Option<usize>>,
    /// The lines with patterns.
    patterns: Vec<usize>,
}

impl Index {
    fn add(&mut self, matcher: &Matcher, at: usize) {
        let Matcher::Prefix(prefix) = matcher else { return self.patterns.push(at) };
        let prefix = merge_slashes(prefix);
        for end in ends(&prefix) {
            let first = self.prefixes.entry(prefix[..end].into()).or_default();
            if end == prefix.len() {
                first.get_or_insert(at);
            }
        }
    }

    /// The lines that may match, in order: the first prefix, and the patterns before it.
    fn candidates(&self, path: &str) -> impl Iterator<Item = usize> {
        let path = merge_slashes(path);
        let known = ends(&path).map_while(|end| self.prefixes.get(&path[..end]));
        let first = known.filter_map(|first| *first).min();
        let before = self.patterns.iter().copied().take_while(move |at| first.is_none_or(|first| *at < first));
        before.chain(first)
    }
}

/// Where a prefix of `path` may end: before and after each slash, and at its end.
fn ends(path: &str) -> impl Iterator<Item = usize> {
    let at_slashes = path.match_indices('/').flat_map(|(at, _)| [at, at + 1]);
    at_slashes.chain([path.len()]).filter(|end| *end > 0)
}

#[cfg(test)]
mod tests {
    use conf::Source;
    use conf::pattern::Flags;

    use super::*;

    fn list(matchers: impl IntoIterator<Item = Matcher>) -> List<()> {
        let mut list = List::default();
        for (line, matcher) in (1..).zip(matchers) {
            list.push(matcher, (), Origin { source: Arc::new(Source::new("f")), line });
        }
        list
    }

    /// The first line that matches, by comparing with each, and by the index.
    fn both(list: &List<()>, path: &str) -> [Option<(u32, usize)>; 2] {
        let level = &list.0[0];
        let mut captures = Captures::default();
        let compared = level.first_of(0..level.lines.len(), path, &mut captures).unwrap();
        let found = level.first_of(level.index.candidates(path), path, &mut captures).unwrap();
        [compared, found].map(|found| found.map(|(line, length)| (line.origin.line, length)))
    }

    #[test]
    fn the_index_finds_what_a_comparison_finds() {
        const PARTS: [&str; 5] = ["/", "a", "b", "//", "ä"];
        // All texts of up to four parts.
        let mut paths = vec![String::new()];
        let mut last = paths.clone();
        for _ in 0..4 {
            last = last.iter().flat_map(|path| PARTS.map(|part| format!("{path}{part}"))).collect();
            paths.extend(last.iter().cloned());
        }
        // A linear congruential generator: the same lists each time.
        let mut seed = 1_u64;
        let mut draw = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..300 {
            let lines = (0..draw(30)).map(|_| match draw(6) {
                0 => Matcher::Pattern(Regex::new(["^/a", "b$", "a/+b"][draw(3)], Flags::default()).unwrap()),
                _ => Matcher::Prefix(paths[draw(paths.len())].clone()),
            });
            let list = list(lines.chain([Matcher::Prefix("/z".into())]).collect::<Vec<_>>());
            for path in &paths {
                let [compared, found] = both(&list, path);
                assert_eq!(compared, found, "{path} in {list:?}");
            }
        }
    }

    /// A path is looked up, not compared with all lines.
    #[test]
    fn many_lines_leave_one_to_compare() {
        let list = list((0..2000).map(|n| Matcher::Prefix(format!("/old/{n}"))));
        for (path, want) in [("/old/7", Some(7)), ("/old//1999/x", Some(1999)), ("/old/2000", None), ("/", None)] {
            let candidates: Vec<usize> = list.0[0].index.candidates(path).collect();
            assert_eq!(candidates, Vec::from_iter(want), "{path}");
        }
    }

    #[test]
    fn inner_lines_come_first() {
        let prefix = |text: &str| Matcher::Prefix(text.into());
        let (outer, inner) = (list([prefix("/a")]), list([prefix("/b"), prefix("/a/b")]));
        let merged = List::merge(&outer, &inner);
        let line = |path| {
            let found = merged.find(path, &mut Captures::default()).unwrap();
            found.map(|(line, length)| (line.origin.line, length))
        };
        assert_eq!([line("/a/b/c"), line("/a/c"), line("/c")], [Some((2, 4)), Some((1, 2)), None]);
    }
}
