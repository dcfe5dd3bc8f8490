//! Decides matches without PCRE2 where possible: most patterns of a long list do not match a given subject.

use super::flags::Flags;
use super::literal::Literal;

/// A condition that every match of a pattern meets.
#[derive(Debug)]
pub(super) enum Prefilter {
    /// Nothing is known about the texts that match.
    Unknown,
    /// Everything matches.
    Everything,
    /// Every match contains this text.
    Needs(Literal),
}

impl Prefilter {
    pub(super) fn of(pattern: &str, flags: Flags) -> Prefilter {
        if flags.extended {
            return Prefilter::Unknown;
        }
        match pattern {
            ".*" | "^.*" | "(.*)" | "^(.*)" => return Prefilter::Everything,
            "^.*$" | "^(.*)$" if flags.dot_all => return Prefilter::Everything,
            _ => {}
        }
        let (first, longest) = texts(pattern).unwrap_or_default();
        match pattern.starts_with('^') && !flags.multi_line {
            true if !first.is_empty() => Prefilter::Needs(Literal::within(&first, true, flags.ignore_case)),
            _ if longest.len() > 1 => Prefilter::Needs(Literal::within(&longest, false, flags.ignore_case)),
            _ => Prefilter::Unknown,
        }
    }

    /// Whether the pattern matches, if this is certain. Its texts are ASCII, which is the same in a text and in its
    /// bytes.
    pub(super) fn answer(&self, subject: &[u8]) -> Option<bool> {
        match self {
            Prefilter::Unknown => None,
            Prefilter::Everything => Some(true),
            Prefilter::Needs(text) => text.find_at(subject, 0).is_none().then_some(false),
        }
    }
}

/// Plain texts that every match of a pattern contains: the one at its start, and the longest one. `None` if the pattern
/// may match in another way, or give letters another meaning.
fn texts(pattern: &str) -> Option<(String, String)> {
    if !pattern.is_ascii() || pattern.contains('|') || pattern.contains("(?") || pattern.contains("(*") {
        return None;
    }
    let (mut first, mut longest, mut text) = (None, String::new(), String::new());
    let mut depth = 0_u32;
    let mut chars = pattern.strip_prefix('^').unwrap_or(pattern).chars().peekable();
    loop {
        let next = chars.next();
        let plain = match next {
            Some('\\') => match chars.next()? {
                escaped if escaped.is_ascii_punctuation() => Some(escaped),
                'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' => None,
                // A number, a property or a quotation: the following characters may belong to it.
                _ => return None,
            },
            Some('[') => {
                // A bracket in the first place is one of the characters.
                let mut is_first = true;
                chars.next_if_eq(&'^');
                loop {
                    match chars.next()? {
                        // A quotation, or a control character: the bracket after it may be one of the characters.
                        '\\' if matches!(chars.next()?, 'Q' | 'E' | 'c') => return None,
                        '[' => return None,
                        ']' if !is_first => break,
                        _ => {}
                    }
                    is_first = false;
                }
                None
            }
            Some('(') => {
                depth += 1;
                None
            }
            Some(')') => {
                depth = depth.checked_sub(1)?;
                None
            }
            Some('.' | '*' | '+' | '?' | '{' | '}' | '^' | '$') | None => None,
            Some(plain) => Some(plain),
        };
        if next == Some('{') {
            // A repetition count, not a text. Other braces and their contents are plain characters.
            loop {
                match chars.next()? {
                    '}' => break,
                    '0'..='9' | ',' | ' ' => {}
                    _ => return None,
                }
            }
        }
        let kept = plain.filter(|_| depth == 0 && !matches!(chars.peek(), Some('*' | '?' | '{')));
        text.extend(kept);
        if kept.is_none() || chars.peek() == Some(&'+') {
            let ended = std::mem::take(&mut text);
            first.get_or_insert_with(|| ended.clone());
            if ended.len() > longest.len() {
                longest = ended;
            }
        }
        if next.is_none() {
            return Some((first.unwrap_or_default(), longest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_patterns() {
        let table = [
            ("^/old/page$", "/old/page", "/old/page"),
            (r"^index\.php$", "index.php", "index.php"),
            ("^/a/(.*)/long$", "/a/", "/long"),
            ("^/ab?c", "/a", "/a"),
            ("^/ab+cde", "/ab", "/ab"),
            ("^/ab{2}cde", "/a", "cde"),
            (r"^/a\d/b", "/a", "/a"),
            (r"/item-7(\d*)\.html$", "/item-7", "/item-7"),
            ("^(a)bc", "", "bc"),
            ("^[^]a]bc", "", "bc"),
            ("x", "x", "x"),
            ("", "", ""),
        ];
        for (pattern, first, longest) in table {
            assert_eq!(texts(pattern), Some((first.into(), longest.into())), "{pattern}");
        }
        for pattern in [
            "^/a|^/b",
            "^(?i)/a",
            r"^\Q/a",
            r"/\x41bc",
            "[[:alpha:]]x",
            "a(?#b)c",
            r"(a)\1b",
            "é",
            "{[^}/]+}",
            r"[^\E]a]bc",
            r"[\c]a]bc",
        ] {
            assert_eq!(texts(pattern), None, "{pattern}");
        }
    }
}
