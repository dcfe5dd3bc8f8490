//! Splits bytes into logical lines: continuation, white space, comments (Apache manual, "Configuration Files", syntax).

use std::ops::Range;
use std::sync::Arc;

/// The longest logical line of a configuration file, in bytes.
pub const LINE_MAX: usize = 16 * 1024 * 1024;
/// The longest logical line of an `.htaccess` file, in bytes.
pub const LINE_MAX_HTACCESS: usize = 8192;

/// A logical line: joined, without white space at either end; may be empty, is never a comment.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The number of its last physical line, counted from 1.
    pub number: u32,
    /// The text; [`http::text`] maps bytes that are not UTF-8.
    pub text: String,
}

/// The logical lines of one text.
#[derive(Debug)]
pub struct Lines {
    bytes: Arc<Vec<u8>>,
    at: usize,
    number: u32,
    max: usize,
}

impl Lines {
    /// Splits `bytes` into lines of at most `max` bytes.
    pub fn new(bytes: impl Into<Arc<Vec<u8>>>, max: usize) -> Lines {
        Lines { bytes: bytes.into(), at: 0, number: 0, max }
    }

    /// The number of the last physical line read.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The next line that is not a comment; `Err` is Apache's message for a line that is too long.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Line>, String> {
        while self.at < self.bytes.len() {
            let joined = self.joined()?;
            let text = trim(&joined);
            if text.first() != Some(&b'#') {
                return Ok(Some(Line { number: self.number, text: http::text::from_bytes(text).into_owned() }));
            }
        }
        Ok(None)
    }

    /// Joins physical lines that end in a backslash, and removes the backslash.
    fn joined(&mut self) -> Result<Vec<u8>, String> {
        let mut joined = Vec::new();
        loop {
            let line = physical(&self.bytes, self.at);
            self.at = line.next;
            self.number += 1;
            joined.extend_from_slice(&self.bytes[line.body]);
            if joined.len() > self.max {
                return Err("Line too long".into());
            }
            if !line.goes_on {
                return Ok(joined);
            }
        }
    }
}

/// The physical lines of the logical line that ends at line `number`: for each, its number and the range of its text.
/// Empty if there is no such line.
pub(crate) fn physical_lines(bytes: &[u8], number: u32) -> Vec<(u32, Range<usize>)> {
    let (mut at, mut lines) = (0, Vec::new());
    for count in 1..=number {
        if at >= bytes.len() {
            return Vec::new();
        }
        let line = physical(bytes, at);
        at = line.next;
        lines.push((count, line.body));
        if !line.goes_on && count < number {
            lines.clear();
        }
    }
    lines
}

/// A line of the text, before lines that end with a backslash are joined.
struct Physical {
    /// The text without the line end, and without the backslash that joins it to the next line.
    body: Range<usize>,
    /// The start of the next line.
    next: usize,
    /// Whether the next line continues it.
    goes_on: bool,
}

fn physical(bytes: &[u8], at: usize) -> Physical {
    let (end, next, ended) = match memchr::memchr(b'\n', &bytes[at..]) {
        Some(end) => (at + end, at + end + 1, true),
        None => (bytes.len(), bytes.len(), false),
    };
    let line = &bytes[at..end];
    let body = if ended { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
    // At the end of a file without LF a backslash is an ordinary byte.
    match body.strip_suffix(b"\\") {
        Some(body) if ended => Physical { body: at..at + body.len(), next, goes_on: next < bytes.len() },
        _ => Physical { body: at..end, next, goes_on: false },
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    let start = bytes.iter().position(|b| !blank(b)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|b| !blank(b)).map_or(start, |i| i + 1);
    &bytes[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(u32, String)> {
        let mut lines = Lines::new(text.as_bytes().to_vec(), LINE_MAX);
        let mut out = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            if !line.text.is_empty() {
                out.push((line.number, line.text));
            }
        }
        out
    }

    #[test]
    fn continuation_and_comments_as_captured() {
        let text = "A \\\n  one\n# c \\\nswallowed\n\nE 404 \\\n#not\nx\\\\\ny\nlast\\";
        let want = [(2, "A   one"), (7, "E 404 #not"), (9, "x\\y"), (10, "last\\")];
        assert_eq!(all(text), want.map(|(n, t)| (n, t.to_string())));
        assert_eq!(all("a\nb\\\n"), [(1, "a".to_string()), (2, "b".to_string())], "no line is left to continue it");
    }

    #[test]
    fn carriage_returns_are_white_space() {
        assert_eq!(all("c \\ \r\nd\\\r\n e\r\n"), [(1, "c \\".to_string()), (3, "d e".to_string())]);
    }

    #[test]
    fn physical_lines_of_a_logical_one() {
        let text = b"A \\\n  one\nB\\\r\n\\\n c";
        let numbers = |number| -> Vec<(u32, &[u8])> {
            physical_lines(text, number).into_iter().map(|(number, place)| (number, &text[place])).collect()
        };
        assert_eq!(numbers(2), [(1, &b"A "[..]), (2, b"  one")]);
        assert_eq!(numbers(5), [(3, &b"B"[..]), (4, b""), (5, b" c")]);
        assert_eq!(numbers(6), []);
    }

    #[test]
    fn too_long_is_an_error() {
        let longest = vec![b'x'; LINE_MAX_HTACCESS];
        assert_eq!(Lines::new(longest, LINE_MAX_HTACCESS).next().unwrap().unwrap().text.len(), LINE_MAX_HTACCESS);
        assert!(Lines::new(vec![b'x'; LINE_MAX_HTACCESS + 1], LINE_MAX_HTACCESS).next().is_err());
        assert_eq!(Lines::new(vec![b'x'; 9000], LINE_MAX_HTACCESS).next(), Err("Line too long".to_string()));
    }
}
