//! Shell patterns: those of `<Directory>`, `Include` and `-fnmatch`, and the simpler ones of `ServerAlias`.
//!
//! In the worst case, both kinds take time proportional to the product of the two lengths.
//!
//! Source: Apache manual, "Configuration Sections" (wildcards) and directive `ServerAlias`; doubtful
//! cases measured with `-strmatch` and `-fnmatch` on 2.4.71.

/// How [`fnmatch`] compares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// Only a `/` in the pattern matches a `/` (`APR_FNM_PATHNAME`).
    pub pathname: bool,
    /// Only a `.` in the pattern matches a leading `.` (`APR_FNM_PERIOD`); with `pathname`, in each segment.
    pub period: bool,
    /// ASCII letters match regardless of case (`APR_FNM_CASE_BLIND`).
    pub ignore_case: bool,
}

impl Flags {
    /// Nothing special: `-strmatch`, `<Files>`.
    pub const PLAIN: Self = Self { pathname: false, period: false, ignore_case: false };
    /// [`pathname`](Self::pathname) only: `<Directory>`, `<Location>`, `-fnmatch`.
    pub const PATHNAME: Self = Self { pathname: true, ..Self::PLAIN };
    /// [`period`](Self::period) only: the names of a directory that `Include` looks through.
    pub const PERIOD: Self = Self { period: true, ..Self::PLAIN };
    /// [`ignore_case`](Self::ignore_case) only: `-strcmatch`.
    pub const IGNORE_CASE: Self = Self { ignore_case: true, ..Self::PLAIN };
}

/// Whether `text` matches `pattern`: `*`, `?`, `[a-z]`, `[!a-z]`, and a backslash that makes the next character
/// literal. A bracket that is never closed is literal.
#[must_use]
pub fn fnmatch(pattern: &str, text: &str, flags: Flags) -> bool {
    let (mut pattern, mut text) = (pattern.as_bytes(), text.as_bytes());
    if !flags.pathname {
        return matches_segment(pattern, text, flags);
    }
    loop {
        let (pattern_segment, pattern_rest) = split_pattern(pattern);
        let (text_segment, text_rest) = split_at_slash(text);
        if !matches_segment(pattern_segment, text_segment, flags) {
            return false;
        }
        match (pattern_rest, text_rest) {
            (Some(next_pattern), Some(next_text)) => (pattern, text) = (next_pattern, next_text),
            (rest, other) => return rest.is_none() && other.is_none(),
        }
    }
}

/// Whether a file name contains anything that [`fnmatch`] interprets: `*`, `?`, or a bracket that is closed.
#[must_use]
pub fn is_pattern(name: &str) -> bool {
    let mut in_bracket = false;
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'*' | b'?' => return true,
            b'[' => in_bracket = true,
            b']' if in_bracket => return true,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    false
}

/// Whether `text` matches `pattern`, where `*` matches any run of characters, `?` matches one, and nothing else is
/// special.
#[must_use]
pub fn wildcard(pattern: &str, text: &str) -> bool {
    wildcard_by(pattern, text, |a, b| a == b)
}

/// Like [`wildcard`], but ignores the case of ASCII letters.
#[must_use]
pub fn wildcard_ignoring_case(pattern: &str, text: &str) -> bool {
    wildcard_by(pattern, text, |a, b| a.eq_ignore_ascii_case(&b))
}

/// Whether a name contains a wildcard of [`wildcard`].
#[must_use]
pub fn is_wildcard(name: &str) -> bool {
    memchr::memchr2(b'*', b'?', name.as_bytes()).is_some()
}

fn wildcard_by(pattern: &str, text: &str, same: impl Fn(u8, u8) -> bool) -> bool {
    glob(pattern.as_bytes(), text.as_bytes(), |pattern, byte| {
        let (&first, rest) = pattern.split_first()?;
        (first == b'?' || same(first, byte)).then_some(rest)
    })
}

fn matches_segment(pattern: &[u8], text: &[u8], flags: Flags) -> bool {
    if flags.period && text.first() == Some(&b'.') {
        let explicit = pattern.first() == Some(&b'.') || pattern.starts_with(br"\.");
        if !explicit {
            return false;
        }
    }
    glob(pattern, text, |pattern, byte| match_one(pattern, byte, flags.ignore_case))
}

/// Matches `text` against a pattern of `*` and elements.
///
/// `element` takes the first element off a pattern if it matches the byte. It is enough to retry only the last `*`
/// seen: an earlier one that takes more could not help.
fn glob<'p>(mut pattern: &'p [u8], text: &[u8], element: impl Fn(&'p [u8], u8) -> Option<&'p [u8]>) -> bool {
    let mut at = 0;
    let mut star: Option<(&[u8], usize)> = None;
    loop {
        if let Some((b'*', rest)) = pattern.split_first() {
            star = Some((rest, at));
            pattern = rest;
            continue;
        }
        match text.get(at) {
            None if pattern.is_empty() => return true,
            None => return false,
            Some(&byte) => {
                if let Some(rest) = element(pattern, byte) {
                    pattern = rest;
                    at += 1;
                    continue;
                }
            }
        }
        let Some((after, taken)) = star else {
            return false;
        };
        star = Some((after, taken + 1));
        (pattern, at) = (after, taken + 1);
    }
}

/// Takes the first element off `pattern` if it matches `byte`.
fn match_one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<&[u8]> {
    let (&first, rest) = pattern.split_first()?;
    let (literal, rest) = match (first, rest.split_first()) {
        (b'?', _) => return Some(rest),
        (b'\\', Some((&escaped, rest))) => (escaped, rest),
        (b'[', _) => match match_class(rest, byte, ignore_case) {
            Some((matched, rest)) => return matched.then_some(rest),
            None => (first, rest),
        },
        _ => (first, rest),
    };
    let same = literal == byte || (ignore_case && literal.eq_ignore_ascii_case(&byte));
    same.then_some(rest)
}

/// Matches `byte` against the class whose contents begin at `class`; `None` if it is not closed.
fn match_class(class: &[u8], byte: u8, ignore_case: bool) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match class.split_first()? {
        (b'!' | b'^', rest) => (true, rest),
        _ => (false, class),
    };
    let mut matched = false;
    let mut first = true;
    loop {
        if let (b']', after) = rest.split_first()?
            && !first
        {
            return Some((matched != negated, after));
        }
        first = false;
        let (low, after) = class_member(rest)?;
        rest = after;
        let mut high = low;
        if let Some(after_hyphen) = rest.strip_prefix(b"-")
            && !after_hyphen.starts_with(b"]")
        {
            (high, rest) = class_member(after_hyphen)?;
        }
        let within = |byte: u8| (low..=high).contains(&byte);
        matched |=
            within(byte) || (ignore_case && (within(byte.to_ascii_lowercase()) || within(byte.to_ascii_uppercase())));
    }
}

fn class_member(class: &[u8]) -> Option<(u8, &[u8])> {
    let member = class.strip_prefix(b"\\").unwrap_or(class);
    let (&byte, rest) = member.split_first()?;
    Some((byte, rest))
}

fn split_at_slash(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'/', text) {
        Some(slash) => (&text[..slash], Some(&text[slash + 1..])),
        None => (text, None),
    }
}

/// Like [`split_at_slash`], but an escaped slash counts as a slash too, and its backslash is removed.
fn split_pattern(pattern: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (segment, rest) = split_at_slash(pattern);
    let backslashes = segment.iter().rev().take_while(|b| **b == b'\\').count();
    if rest.is_some() && backslashes % 2 == 1 { (&segment[..segment.len() - 1], rest) } else { (segment, rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_file_names() {
        for (pattern, text, expected) in [
            ("*", "a.b", true),
            ("a*b", "a/b", false),
            ("*/*", "a/b", true),
            ("a?b", "a/b", false),
            ("a[/]b", "a/b", false),
            ("*", "a/b/c", false),
            ("*/c", "a/b/c", false),
            ("a/", "a/", true),
            ("a", "a/", false),
            ("/*/b", "/a/b", true),
            ("/*/b", "/a//b", false),
            ("/*/", "/a/", true),
            (r"/a\/b", "/a/b", true),
            ("[!/]", "a", false),
            ("/home/*/public_html", "/home/joe/public_html", true),
        ] {
            assert_eq!(fnmatch(pattern, text, Flags::PATHNAME), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_leading_period_is_explicit() {
        let flags = Flags { period: true, ..Flags::PATHNAME };
        for (pattern, text, expected) in [
            ("*", ".ht", false),
            ("?ht", ".ht", false),
            ("[.]ht", ".ht", false),
            (".*", ".ht", true),
            (r"\.*", ".ht", true),
            ("a*", "a.b", true),
            ("a/*", "a/.b", false),
            ("a/.*", "a/.b", true),
        ] {
            assert_eq!(fnmatch(pattern, text, flags), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_and_plain_names() {
        for (name, expected) in [
            ("/a/b", false),
            ("/a/*", true),
            ("a?", true),
            ("a[b]", true),
            ("a[b", false),
            ("a]b[", false),
            (r"a\*", false),
            ("a\\", false),
        ] {
            assert_eq!(is_pattern(name), expected, "{name}");
        }
    }

    #[test]
    fn wildcards_know_no_classes_and_no_escapes() {
        assert!(wildcard("*.example.com", "a.b.example.com"));
        assert!(!wildcard("*.example.com", "example.com"));
        assert!(wildcard("[a]", "[a]"));
        assert!(wildcard("a?c*", "abc"));
        assert!(!wildcard("*.EXAMPLE.com", "www.example.com"));
        assert!(wildcard_ignoring_case("*.EXAMPLE.com", "www.example.com"));
        assert!(is_wildcard("www?.example.com") && !is_wildcard("www.example.com"));
    }

    #[test]
    fn hostile_patterns_stay_cheap() {
        let text = "a".repeat(10_000);
        assert!(!fnmatch("*a*a*a*a*a*a*a*a*b", &text, Flags::default()));
    }
}
