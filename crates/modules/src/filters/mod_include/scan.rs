//! Finds the elements of a page, however it is split into pieces.

use bytes::Bytes;
use memchr::memmem::Finder;

/// The longest element, in bytes: the page waits for its end, in memory.
const ELEMENT_MAX: usize = 64 * 1024;

/// What the scanner finds in a page, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text to send as it is.
    Text(Bytes),
    Element(Element),
    /// An element without an end; nothing follows.
    Unfinished,
}

/// An element: `<!--#name argument="value" ... -->`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    /// In lower case; empty if it is missing.
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Argument {
    /// In lower case; `None` before a value in quotes, empty before `=`.
    pub(super) name: Option<String>,
    pub(super) value: Option<String>,
}

impl Element {
    /// Whether it was parsed completely.
    pub(super) fn is_whole(&self) -> bool {
        !self.name.is_empty() && self.arguments.iter().all(|one| one.name.as_ref().is_some_and(|name| !name.is_empty()))
    }
}

pub(super) struct Scanner {
    start: Finder<'static>,
    end: Vec<u8>,
    rest: Bytes,
    /// Whether an element was too long.
    given_up: bool,
}

impl Scanner {
    pub(super) fn new(start: &str, end: &str) -> Scanner {
        let start = Finder::new(start.as_bytes()).into_owned();
        Scanner { start, end: end.as_bytes().to_vec(), rest: Bytes::new(), given_up: false }
    }

    /// A further piece of the page.
    pub(super) fn feed(&mut self, piece: Bytes) {
        if self.given_up {
            return;
        }
        self.rest = if self.rest.is_empty() { piece } else { [&self.rest[..], &piece[..]].concat().into() };
    }

    /// The next part, if it is complete.
    pub(super) fn next(&mut self) -> Option<Part> {
        if self.given_up || self.rest.is_empty() {
            return None;
        }
        let start = self.start.needle().len();
        match self.start.find(&self.rest) {
            Some(0) if start > 0 => match element(&self.rest[start..], &self.end) {
                Some((element, length)) => {
                    let _ = self.rest.split_to(start + length);
                    Some(Part::Element(element))
                }
                None if self.rest.len() > ELEMENT_MAX => {
                    self.given_up = true;
                    self.rest.clear();
                    Some(Part::Unfinished)
                }
                None => None,
            },
            Some(at) if at > 0 => Some(Part::Text(self.rest.split_to(at))),
            _ => {
                let text = self.rest.split_to(self.rest.len() - self.begun());
                (!text.is_empty()).then_some(Part::Text(text))
            }
        }
    }

    /// The rest at the end of the input.
    pub(super) fn end(&mut self) -> Option<Part> {
        let rest = std::mem::take(&mut self.rest);
        let start = self.start.needle();
        match rest.is_empty() {
            true => None,
            false if !start.is_empty() && rest.starts_with(start) => Some(Part::Unfinished),
            false => Some(Part::Text(rest)),
        }
    }

    /// How many bytes at the end may be the beginning of an element.
    fn begun(&self) -> usize {
        let start = self.start.needle();
        let most = start.len().saturating_sub(1).min(self.rest.len());
        (1..=most).rev().find(|length| self.rest.ends_with(&start[..*length])).unwrap_or(0)
    }
}

/// Parses an element after its start; `None`: it does not end here. Its length includes everything consumed. As in
/// Apache an unquoted name or value ends only with a blank, so an end directly after one is not recognised.
fn element(input: &[u8], end: &[u8]) -> Option<(Element, usize)> {
    let mut at = 0;
    let mut element = Element::default();
    loop {
        let byte = *input.get(at)?;
        if byte.is_ascii_whitespace() {
            element.name = lower(&input[..at]);
            break;
        }
        if ends_here(&input[at..], end)? {
            element.name = lower(&input[..at]);
            return Some((element, at + end.len()));
        }
        at += 1;
    }
    loop {
        at += blanks(&input[at..]);
        input.get(at)?;
        if ends_here(&input[at..], end)? {
            return Some((element, at + end.len()));
        }
        let (argument, length) = argument(&input[at..])?;
        element.arguments.push(argument);
        at += length;
    }
}

/// Whether the end is here; `None`: so far it matches.
fn ends_here(input: &[u8], end: &[u8]) -> Option<bool> {
    match input.len() < end.len() && end.starts_with(input) {
        true => None,
        false => Some(!end.is_empty() && input.starts_with(end)),
    }
}

fn argument(input: &[u8]) -> Option<(Argument, usize)> {
    if is_quote(*input.first()?) {
        let (value, length) = value(input)?;
        return Some((Argument { name: None, value: Some(value) }, length));
    }
    let name_end = input.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'=')?;
    let name = Some(lower(&input[..name_end]));
    let mut at = name_end + blanks(&input[name_end..]);
    if *input.get(at)? != b'=' {
        return Some((Argument { name, value: None }, at));
    }
    at += 1;
    at += blanks(&input[at..]);
    let (value, length) = value(&input[at..])?;
    Some((Argument { name, value: Some(value) }, at + length))
}

fn value(input: &[u8]) -> Option<(String, usize)> {
    let first = *input.first()?;
    if !is_quote(first) {
        let end = input.iter().position(u8::is_ascii_whitespace)?;
        return Some((http::text::from_bytes(&input[..end]).into_owned(), end + 1));
    }
    let mut value = Vec::new();
    let mut at = 1;
    loop {
        match *input.get(at)? {
            b'\\' if *input.get(at + 1)? == first => {
                value.push(first);
                at += 2;
            }
            byte if byte == first => return Some((http::text::from_bytes(&value).into_owned(), at + 1)),
            byte => {
                value.push(byte);
                at += 1;
            }
        }
    }
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

fn blanks(input: &[u8]) -> usize {
    input.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

fn lower(name: &[u8]) -> String {
    http::text::from_bytes(&name.to_ascii_lowercase()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(page: &str, piece: usize) -> Vec<Part> {
        let mut scanner = Scanner::new("<!--#", "-->");
        let mut parts: Vec<Part> = Vec::new();
        for piece in page.as_bytes().chunks(piece) {
            scanner.feed(Bytes::copy_from_slice(piece));
            parts.extend(std::iter::from_fn(|| scanner.next()));
        }
        parts.extend(scanner.end());
        // Texts in several pieces are joined.
        let mut whole: Vec<Part> = Vec::new();
        for part in parts {
            match (whole.last_mut(), part) {
                (Some(Part::Text(have)), Part::Text(more)) => *have = [&have[..], &more[..]].concat().into(),
                (_, part) => whole.push(part),
            }
        }
        whole
    }

    fn shown(page: &str, piece: usize) -> String {
        let show = |part: Part| match part {
            Part::Text(text) => String::from_utf8_lossy(&text).into_owned(),
            Part::Unfinished => "[unfinished]".into(),
            Part::Element(Element { name, arguments }) => {
                let argument = |one: Argument| {
                    format!(" {}={}", one.name.unwrap_or("?".into()), one.value.unwrap_or("none".into()))
                };
                format!("[{name}{}]", arguments.into_iter().map(argument).collect::<String>())
            }
        };
        parts(page, piece).into_iter().map(show).collect()
    }

    #[test]
    fn elements_as_apache_reads_them() {
        let cases = [
            ("plain <!-- comment --> <!--", "plain <!-- comment --> <!--"),
            ("a<!--#echo var=\"X\" -->b", "a[echo var=X]b"),
            ("<!--#ECHO VAR='X'-->", "[echo var=X]"),
            ("<!--#printenv-->z", "[printenv]z"),
            ("<!--#a-b-- c -->z", "[a-b-- c=none]z"),
            ("<!--#-->", "[]"),
            ("<!--# echo var=x -->", "[ echo=none var=x]"),
            ("<!--#echo var=X-->", "[unfinished]"),
            ("<!--#echo var=X --> <!--<!--#x-->", "[echo var=X] <!--[x]"),
            ("<!--#set var = \"a\" value = `b \\` \\c` -->", "[set var=a value=b ` \\c]"),
            ("<!--#echo \"X\" -->", "[echo ?=X]"),
            ("<!--#echo =X -->", "[echo =X]"),
            ("<!--#if expr=\"a --> b\" -->", "[if expr=a --> b]"),
            ("<!--#else -- -->", "[else --=none]"),
            ("x<!--#echo var=\"X", "x[unfinished]"),
        ];
        for (page, want) in cases {
            for piece in [1, 2, 3, 1000] {
                assert_eq!(shown(page, piece), want, "{page} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn unfinished_elements_are_given_up() {
        let page = format!("a<!--#echo var=\"{}\" -->b", "x".repeat(2 * ELEMENT_MAX));
        assert!(shown(&page, 1000) == "a[unfinished]");
    }
}
