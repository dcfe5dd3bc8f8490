//! What the beginning of a page says about its charset.

use std::ops::Range;
use std::sync::LazyLock;

use conf::pattern::{Captures, Flags, Regex};

/// What was found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sniffed {
    /// The name of the charset.
    pub(super) charset: Option<String>,
    /// The length of the byte order mark.
    pub(super) mark: usize,
    /// Where the declarations stand that will be wrong in another charset.
    pub(super) declarations: Vec<Range<usize>>,
}

/// The marks at the beginning of a text, with what they mean.
const MARKS: [(&[u8], &str); 3] = [(b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le")];

fn regex(pattern: &str) -> Regex {
    #[expect(clippy::unwrap_used, reason = "a constant, which a test compiles")]
    Regex::new(pattern, Flags::ignoring_case()).unwrap()
}

/// The declaration of an XML document.
static XML: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^\s*<\?xml[^>]*?(?:encoding\s*=\s*["']([A-Za-z0-9_.:-]+)["'][^>]*)?\?>\s*"#));
/// An element that says what `Content-Type` would.
static META: LazyLock<Regex> = LazyLock::new(|| regex(r#"<meta\b[^>]*http-equiv[\s='"]*content-type[^>]*>"#));
/// The short form of HTML 5.
static SHORT: LazyLock<Regex> = LazyLock::new(|| regex(r#"<meta\s+charset\s*=\s*["']?([A-Za-z0-9_.:-]+)["']?\s*/?>"#));
static CHARSET: LazyLock<Regex> = LazyLock::new(|| regex("charset=([A-Za-z0-9_.:-]+)"));

/// The charset in a media type, or in the text of an element.
pub(super) fn charset_in(text: &[u8]) -> Option<String> {
    group(&CHARSET, text, 1).map(|(name, _)| name)
}

/// The text of a group of the first match, and where the match stands.
fn group(regex: &Regex, text: &[u8], group: usize) -> Option<(String, Range<usize>)> {
    let mut captures = Captures::default();
    // A page whose beginning takes too many steps says nothing.
    let whole = regex.captures_in(text, 0, &mut captures).ok().filter(|found| *found).and_then(|_| captures.span(0))?;
    let part = captures.span(group).unwrap_or(0..0);
    Some((String::from_utf8_lossy(&text[part]).into_owned(), whole))
}

/// Looks at the beginning of a page.
pub(super) fn sniff(text: &[u8]) -> Sniffed {
    let mark = MARKS.iter().find(|(mark, _)| text.starts_with(mark));
    let mut sniffed = Sniffed {
        charset: mark.map(|(_, name)| (*name).to_string()),
        mark: mark.map_or(0, |(mark, _)| mark.len()),
        declarations: Vec::new(),
    };
    let mark_length = sniffed.mark;
    let mut add = |name: String, place: Range<usize>| {
        let name = Some(name).filter(|name| !name.is_empty());
        sniffed.charset = sniffed.charset.take().or(name);
        sniffed.declarations.push(place);
    };
    if let Some((name, place)) = group(&XML, &text[mark_length..], 1) {
        // Without a name it is UTF-8 (XML 1.0, section 4.3.3).
        let name = if name.is_empty() { "utf-8".to_string() } else { name };
        add(name, place.start + mark_length..place.end + mark_length);
    }
    if let Some((_, place)) = group(&META, text, 0) {
        add(charset_in(&text[place.clone()]).unwrap_or_default(), place);
    }
    if let Some((name, place)) = group(&SHORT, text, 1) {
        add(name, place);
    }
    sniffed.declarations = joined(sniffed.declarations);
    sniffed
}

/// These places in order; those that overlap are one.
fn joined(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_by_key(|place| place.start);
    let mut all: Vec<Range<usize>> = Vec::with_capacity(places.len());
    for place in places {
        match all.last_mut().filter(|last| place.start < last.end) {
            Some(last) => last.end = last.end.max(place.end),
            None => all.push(place),
        }
    }
    all
}

/// Where the first of these elements begins.
pub(super) fn start_of(text: &[u8], elements: &[String]) -> Option<usize> {
    let is_one = |rest: &[u8]| {
        elements.iter().any(|name| {
            rest.get(..name.len()).is_some_and(|have| have.eq_ignore_ascii_case(name.as_bytes()))
                && rest.get(name.len()).is_none_or(|next| !next.is_ascii_alphanumeric())
        })
    };
    memchr::memchr_iter(b'<', text).find(|at| is_one(&text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_of_pages() {
        type Row = (&'static str, Option<&'static str>, &'static [(usize, usize)]);
        let table: &[Row] = &[
            ("<p>", None, &[]),
            // One within the other.
            ("<meta http-equiv=content-type <meta charset=latin1>x", Some("latin1"), &[(0, 51)]),
            ("\u{feff}<p>", Some("utf-8"), &[]),
            ("<?xml version='1.0'?><p>", Some("utf-8"), &[(0, 21)]),
            ("<?xml version='1.0' encoding='latin1'?>\n<p>", Some("latin1"), &[(0, 40)]),
            ("<META content='a; charset=x-y' http-equiv=\"Content-Type\"/>", Some("x-y"), &[(0, 58)]),
            ("<p><meta charset=koi8-r><meta name=charset>", Some("koi8-r"), &[(3, 24)]),
            ("\u{feff}<?xml encoding=\"x\"?><meta charset='y' />", Some("utf-8"), &[(3, 23), (23, 43)]),
        ];
        for (text, charset, declarations) in table {
            let sniffed = sniff(text.as_bytes());
            let places: Vec<_> = sniffed.declarations.iter().map(|place| (place.start, place.end)).collect();
            assert_eq!((sniffed.charset.as_deref(), &*places), (*charset, *declarations), "{text}");
        }
        assert_eq!(sniff(b"\xff\xfe<\0").charset.as_deref(), Some("utf-16le"));
        assert_eq!(charset_in(b"text/html; charset=iso-8859-1").as_deref(), Some("iso-8859-1"));
    }

    #[test]
    fn starts_of_pages() {
        let names = ["html".to_string(), "body".to_string()];
        assert_eq!(start_of(b"junk <htmlx><BODY a><html>", &names), Some(12));
        assert_eq!(start_of(b"junk < html", &names), None);
    }
}
