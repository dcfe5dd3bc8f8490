//! Splits a line into words: quotes and escapes (Apache manual, "Configuration Files", syntax; doubtful cases measured
//! on 2.4.71).

use std::ops::Range;

/// Takes the next word off `rest`; empty at the end of the line.
///
/// A word that begins with `"` or `'` ends at the same quote; inside, a backslash escapes that quote and itself.
/// Without a closing quote, it ends at the end of the line. In a word without quotes, only `\\` is an escape.
pub fn next_word(rest: &mut &str) -> String {
    let text = rest.trim_start();
    let Some(first) = text.chars().next() else {
        *rest = "";
        return String::new();
    };
    let (word, used) = if first == '"' || first == '\'' { quoted(text, first) } else { bare(text) };
    *rest = text[used..].trim_start();
    word
}

/// Splits a line into all its words.
pub fn words(mut rest: &str) -> Vec<String> {
    let mut out = Vec::new();
    while !rest.trim_start().is_empty() {
        out.push(next_word(&mut rest));
    }
    out
}

/// Splits the command line of a program that the server starts into its arguments, as APR does (`apr_tokenize_to_argv`).
///
/// An argument that begins with `"` or `'` ends at the same quote; without one, at a blank. A backslash takes every
/// meaning from the character behind: it is dropped, and in front of a blank or a quote the argument goes on.
pub fn argv(line: &str) -> Vec<String> {
    let is_blank = |c: char| c == ' ' || c == '\t';
    let mut out = Vec::new();
    let mut rest = line.trim_start_matches(is_blank);
    while let Some(first) = rest.chars().next() {
        let quote = Some(first).filter(|first| matches!(first, '"' | '\''));
        let text = &rest[quote.map_or(0, char::len_utf8)..];
        let (mut word, mut end, mut chars) = (String::new(), text.len(), text.char_indices().peekable());
        while let Some((at, c)) = chars.next() {
            match (c, chars.peek()) {
                ('\\', Some((_, next))) if is_blank(*next) || matches!(next, '"' | '\'') => {
                    word.push('\\');
                    word.extend(chars.next().map(|(_, next)| next));
                }
                _ if quote.map_or_else(|| is_blank(c), |quote| c == quote) => {
                    end = at;
                    break;
                }
                _ => word.push(c),
            }
        }
        out.push(unescaped(&word));
        let mut behind = text[end..].chars();
        // The quote or the blank.
        behind.next();
        rest = behind.as_str().trim_start_matches(is_blank);
    }
    out
}

/// A text without its backslashes; two are one.
fn unescaped(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

/// The byte ranges of the words of a line, quotes included.
pub(crate) fn places(line: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let start = line.len() - rest.len();
        let written = rest;
        next_word(&mut rest);
        let used = written[..written.len() - rest.len()].trim_end();
        places.push(start..start + used.len());
    }
    places
}

/// Maps byte `at` of a word's value to its place in the written word, which has quotes and escapes.
pub(crate) fn place_within(written: &str, at: usize) -> usize {
    let quote = written.chars().next().filter(|c| matches!(c, '"' | '\''));
    let mut chars = written.char_indices().skip(usize::from(quote.is_some())).peekable();
    let mut value = 0;
    while let Some((place, c)) = chars.next() {
        if value >= at || Some(c) == quote {
            return place;
        }
        let next = chars.peek().map(|(_, next)| *next);
        let is_escape = c == '\\' && (next == Some('\\') || (quote.is_some() && next == quote));
        value += if is_escape { chars.next().map_or(1, |(_, next)| next.len_utf8()) } else { c.len_utf8() };
    }
    written.len()
}

fn quoted(text: &str, quote: char) -> (String, usize) {
    let mut word = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.peek() {
                Some(&(_, next)) if next == quote || next == '\\' => {
                    word.push(next);
                    chars.next();
                }
                _ => word.push('\\'),
            },
            _ if c == quote => return (word, at + 1),
            _ => word.push(c),
        }
    }
    (word, text.len())
}

fn bare(text: &str) -> (String, usize) {
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '\x0b').unwrap_or(text.len());
    (text[..end].replace("\\\\", "\\"), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair of backslashes does not keep a quote behind from being escaped, as in APR.
    #[test]
    fn arguments_of_programs() {
        for (line, want) in [
            ("", &[][..]),
            (" \t a  b\t", &["a", "b"]),
            (r"a\ b c", &["a b", "c"]),
            (r"a\b \\x\", &["ab", r"\x"]),
            (r#""a b"c 'd "e' f"g"#, &["a b", "c", "d \"e", "f\"g"]),
            (r#""a\"b" "c'd" "e"#, &["a\"b", "c'd", "e"]),
            (r#""a\\" b""#, &[r#"a\" b"#]),
            (r"'' a\'b", &["", "a'b"]),
        ] {
            assert_eq!(argv(line), want, "{line}");
        }
    }

    #[test]
    fn places_are_those_of_the_words() {
        for line in [r#" X-1 "a\"b"  c"#, r#""a""b""#, r#"a "unclosed x"#, "", " \t", r#"<If "x">"#] {
            let found: Vec<String> = places(line).into_iter().flat_map(|place| words(&line[place])).collect();
            assert_eq!(found, words(line), "{line}");
        }
        assert_eq!(places(" a\t'b c' d"), [1..2, 3..8, 9..10]);
    }

    #[test]
    fn places_within_a_word() {
        for (written, at, place) in [
            ("abc", 1, 1),
            ("abc", 9, 3),
            ("'abc'", 1, 2),
            (r#""a\"b(""#, 3, 5),
            (r"a\\b", 2, 3),
            ("'ab'", 2, 3),
            (r#""\d(""#, 2, 3),
        ] {
            assert_eq!(place_within(written, at), place, "{written} {at}");
        }
    }

    #[test]
    fn words_as_captured() {
        let cases: &[(&str, &[&str])] = &[
            (r#"X-1 "a\"b""#, &["X-1", "a\"b"]),
            (r#"'a\'b"c'"#, &["a'b\"c"]),
            (r#""a\\b\c""#, &[r"a\b\c"]),
            (r"a\\b\c", &[r"a\b\c"]),
            (r#"a"b"#, &[r#"a"b"#]),
            (r#""unclosed x"#, &["unclosed x"]),
            (r#""a""b""#, &["a", "b"]),
            (r#"z """#, &["z", ""]),
            ("  \t ", &[]),
        ];
        for (line, want) in cases {
            assert_eq!(words(line), *want, "{line}");
        }
    }
}
