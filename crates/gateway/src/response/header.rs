//! The header that a script writes before its body (RFC 3875 section 6), read without I/O.
//!
//! As lenient and as strict as Apache: lines end with LF or CR LF, a CR anywhere else is dropped, a NUL ends a line's
//! text, white space counts after a value but not before it.

use std::borrow::Cow;

use http::text::from_bytes;

/// The longest line, in bytes without its end, as in Apache.
pub const LINE_MAX: usize = 8189;
/// The longest header, in bytes. Apache has no such limit; this is far more than any script needs, but too little for a
/// runaway script to fill the server's memory.
pub const HEADER_MAX: usize = 256 * 1024;
/// The most fields, for the same reason: the time it takes to look at them.
pub const FIELDS_MAX: usize = 4096;

/// A script's header. Fields that mean something to the server have a place of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHeader {
    /// `Status`: number and reason, as written.
    pub status: Option<String>,
    /// `Content-Type`
    pub content_type: Option<String>,
    /// `Location`
    pub location: Option<String>,
    /// `Content-Length`, which counts only for callers that trust it.
    pub content_length: Option<String>,
    /// `Last-Modified`
    pub last_modified: Option<String>,
    /// `ETag`
    pub etag: Option<String>,
    /// `Content-Range`
    pub content_range: Option<String>,
    /// All others in order.
    pub fields: Vec<(String, String)>,
}

impl ResponseHeader {
    /// Whether these are early hints (RFC 8297): the header of the response follows.
    pub fn is_interim(&self) -> bool {
        self.has_status("103")
    }

    /// Whether the script switches to another protocol (RFC 9110 section 15.2.2).
    pub fn switches(&self) -> bool {
        self.has_status("101")
    }

    fn has_status(&self, number: &str) -> bool {
        let status = self.status.as_deref().and_then(|text| text.trim_end().strip_prefix(number));
        status.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

/// Why a header is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This line has no colon.
    Malformed(String),
    /// A line without an end, or too many lines.
    TooLong,
}

/// Reads a header as it arrives.
#[derive(Debug, Default)]
pub struct Parser {
    /// Everything before this has been parsed.
    at: usize,
    lines: usize,
    /// A status line comes first, as in a whole response.
    has_status_line: bool,
    header: ResponseHeader,
}

impl Parser {
    /// For the header of a whole response, after its status line.
    #[must_use]
    pub fn with_status_line() -> Parser {
        Parser { has_status_line: true, ..Parser::default() }
    }

    /// Continues in `output`, which is everything the script has written so far. Returns the header's length at its
    /// end.
    pub fn advance(&mut self, output: &[u8]) -> Result<Option<usize>, Fault> {
        loop {
            let rest = &output[self.at..];
            let Some(end) = memchr::memchr(b'\n', rest) else {
                return if rest.len() > LINE_MAX { Err(Fault::TooLong) } else { Ok(None) };
            };
            let line = without_returns(&rest[..end]);
            if line.len() > LINE_MAX || self.at + end > HEADER_MAX || self.lines > FIELDS_MAX {
                return Err(Fault::TooLong);
            }
            self.at += end + 1;
            let text = line.split(|byte| *byte == 0).next().unwrap_or_default();
            if text.is_empty() {
                return Ok(Some(self.at));
            }
            if std::mem::take(&mut self.has_status_line) && text.starts_with(b"HTTP/") {
                let status = text.iter().position(|byte| *byte == b' ').map_or(&b""[..], |blank| &text[blank + 1..]);
                self.header.status = Some(from_bytes(status).into_owned());
                continue;
            }
            self.field(text)?;
            self.lines += 1;
        }
    }

    /// Whether there was a whole line.
    pub fn has_begun(&self) -> bool {
        self.lines > 0
    }

    /// How much was parsed, up to the end of a line.
    pub fn read(&self) -> usize {
        self.at
    }

    /// The parsed header.
    pub fn into_header(self) -> ResponseHeader {
        self.header
    }

    fn field(&mut self, line: &[u8]) -> Result<(), Fault> {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(Fault::Malformed(from_bytes(line).into_owned()));
        };
        let (name, value) = (from_bytes(&line[..colon]), from_bytes(&line[colon + 1..]));
        let value = value.trim_start_matches([' ', '\t', '\x0b', '\x0c']).to_string();
        let header = &mut self.header;
        let own: [(&str, &mut Option<String>); 7] = [
            ("Content-Type", &mut header.content_type),
            ("Status", &mut header.status),
            ("Location", &mut header.location),
            ("Content-Length", &mut header.content_length),
            ("Last-Modified", &mut header.last_modified),
            ("ETag", &mut header.etag),
            ("Content-Range", &mut header.content_range),
        ];
        match own.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(&name)) {
            Some((_, place)) => *place = Some(value),
            None => header.fields.push((name.into_owned(), value)),
        }
        Ok(())
    }
}

/// A line without the CRs in it. Most have one at their end, or none.
fn without_returns(line: &[u8]) -> Cow<'_, [u8]> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match memchr::memchr(b'\r', line) {
        None => Cow::Borrowed(line),
        Some(_) => line.iter().copied().filter(|byte| *byte != b'\r').collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `text` whole, and byte by byte; both results must be the same.
    fn read(text: &[u8]) -> (Result<Option<usize>, Fault>, ResponseHeader) {
        let mut whole = Parser::default();
        let result = whole.advance(text);
        let mut slow = Parser::default();
        let again = (0..=text.len()).map(|end| slow.advance(&text[..end])).find(|step| *step != Ok(None));
        assert_eq!(again.unwrap_or(Ok(None)), result);
        assert_eq!(slow.header, whole.header);
        (result, whole.into_header())
    }

    #[test]
    fn headers_end_with_an_empty_line() {
        for (text, want) in [
            (&b"A: 1\n\nbody"[..], Some(6)),
            (b"A: 1\r\n\r\nbody", Some(8)),
            (b"A: 1\n\r\nbody", Some(7)),
            (b"\nbody", Some(1)),
            (b"\0x\nbody", Some(3)),
            (b"A: 1\n", None),
            (b"A: 1", None),
            (b"", None),
        ] {
            assert_eq!(read(text).0, Ok(want), "{text:?}");
        }
    }

    #[test]
    fn fields_with_a_meaning() {
        let (_, header) = read(
            b"status: 404 Gone \ncontent-TYPE:\t text/x\nLocation:/x\nETag: \"e\"\nLast-Modified: d\nContent-Length: 3\n\
              X-A:1 \nX-A: a\rb\n: x\nX-B: a\0b\nX-E:\nSet-Cookie: a=1\n\n",
        );
        let text = |text: &str| Some(text.to_string());
        assert_eq!((header.status, header.content_type), (text("404 Gone "), text("text/x")));
        assert_eq!((header.location, header.etag, header.last_modified), (text("/x"), text("\"e\""), text("d")));
        assert_eq!(header.content_length, text("3"));
        let fields: Vec<_> = header.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(fields, [("X-A", "1 "), ("X-A", "ab"), ("", "x"), ("X-B", "a"), ("X-E", ""), ("Set-Cookie", "a=1")]);
    }

    #[test]
    fn malformed_headers() {
        for (text, want) in [
            (&b"no header here\n"[..], "no header here"),
            (b"A: 1\n  two: \0\nx\n", "x"),
            (b"X\0A: 1\n", "X"),
            (b"<html>\n", "<html>"),
        ] {
            assert_eq!(read(text).0, Err(Fault::Malformed(want.into())), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_without_end() {
        let line = |length: usize| [b"A: ", &vec![b'a'; length - 3][..], b"\n\n"].concat();
        assert_eq!(read(&line(LINE_MAX)).0, Ok(Some(LINE_MAX + 2)));
        assert_eq!(read(&line(LINE_MAX + 1)).0, Err(Fault::TooLong));
        let mut parser = Parser::default();
        assert_eq!(parser.advance(&b"A: 1\n".repeat(FIELDS_MAX + 2)), Err(Fault::TooLong));
        assert_eq!(Parser::default().advance(&line(8000).repeat(40)[..]), Ok(Some(8002)));
        let long = [b"A: ", &[b'a'; 8000][..], b"\n"].concat().repeat(HEADER_MAX / 8000 + 1);
        assert_eq!(Parser::default().advance(&long), Err(Fault::TooLong));
    }
}
