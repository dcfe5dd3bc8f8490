//! Finds the patterns of a long list that may match, in one pass over the subject.

use aho_corasick::AhoCorasick;

use super::Regex;

/// A filter for a list of patterns: most need not be matched at all.
///
/// One automaton searches for all required texts at once, ignoring case. So a list of a thousand patterns costs about
/// as much as the few that remain.
#[derive(Clone, Debug)]
pub struct PatternSet {
    automaton: AhoCorasick,
    /// For each text of the automaton: the place of its pattern in the list, and whether the text must be at the start.
    texts: Box<[(usize, bool)]>,
    /// The patterns without a known text, which are always candidates.
    always: Candidates,
}

/// A set of places in a list.
#[derive(Clone, Debug, Default)]
pub struct Candidates(Vec<u64>);

impl PatternSet {
    /// Builds the filter; a pattern given as `None` is always a candidate. Returns `None` if the automaton would be too
    /// large.
    pub fn new<'p>(patterns: impl Iterator<Item = Option<&'p Regex>>) -> Option<PatternSet> {
        let mut always = Candidates::default();
        let (mut needed, mut texts) = (Vec::new(), Vec::new());
        for (place, pattern) in patterns.enumerate() {
            match pattern.and_then(Regex::needed).map(|literal| literal.text()).filter(|(text, _)| !text.is_empty()) {
                Some((text, at_start)) => {
                    needed.push(text);
                    texts.push((place, at_start));
                }
                None => always.insert(place),
            }
        }
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(needed).ok()?;
        Some(PatternSet { automaton, texts: texts.into(), always })
    }

    /// Fills `candidates` with the places of the patterns that may match `subject`. The texts are ASCII, which is the
    /// same in a text and in its bytes.
    pub fn look(&self, subject: &str, candidates: &mut Candidates) {
        candidates.0.clone_from(&self.always.0);
        for found in self.automaton.find_overlapping_iter(subject) {
            let (place, at_start) = self.texts[found.pattern().as_usize()];
            if !at_start || found.start() == 0 {
                candidates.insert(place);
            }
        }
    }
}

impl Candidates {
    /// The first place at `from` or later.
    #[must_use]
    pub fn next(&self, from: usize) -> Option<usize> {
        let (first, offset) = (from / 64, from % 64);
        let rest = self.0.get(first..)?;
        rest.iter().enumerate().find_map(|(index, word)| {
            let word = if index == 0 { word & (u64::MAX << offset) } else { *word };
            (word != 0).then(|| (first + index) * 64 + word.trailing_zeros() as usize)
        })
    }

    fn insert(&mut self, place: usize) {
        let word = place / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (place % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::*;

    #[test]
    fn every_match_is_a_candidate() {
        let patterns = [
            ("^/old/(.*)$", false),
            ("/old/", false),
            ("^/OLD", true),
            ("^/old$", false),
            (".*", false),
            (r"\.HTML$", true),
            ("^$", false),
            ("(a|b)", false),
            ("", false),
            ("x/old/y", false),
        ];
        let regexes: Vec<Regex> = (0..13)
            .flat_map(|_| patterns)
            .map(|(pattern, ignore_case)| Regex::new(pattern, Flags { ignore_case, ..Flags::default() }).unwrap())
            .collect();
        let set = PatternSet::new(regexes.iter().map(Some)).unwrap();
        let mut candidates = Candidates::default();
        for (subject, expected) in [
            ("/old/a.html", vec![0, 1, 2, 3, 4, 5, 6, 7, 8]),
            ("/old", vec![2, 3, 4, 6, 7, 8]),
            ("/x/old/y", vec![1, 4, 6, 7, 8, 9]),
            ("", vec![4, 6, 7, 8]),
            ("/Old/", vec![0, 1, 2, 3, 4, 6, 7, 8]),
        ] {
            set.look(subject, &mut candidates);
            let all: Vec<usize> =
                std::iter::successors(candidates.next(0), |place| candidates.next(place + 1)).collect();
            let first: Vec<usize> = all.iter().copied().filter(|place| *place < patterns.len()).collect();
            assert_eq!(first, expected, "{subject}");
            assert_eq!(all.len(), expected.len() * 13, "{subject}");
            for (place, regex) in regexes.iter().enumerate() {
                assert!(all.contains(&place) || regex.is_match(subject) == Ok(false), "{regex:?} {subject}");
            }
        }
    }
}
