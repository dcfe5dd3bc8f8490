//! Writing heads: of responses, and of the requests that a gateway makes.

use std::fmt;

use crate::date::HttpDate;
use crate::decimal::Decimal;
use crate::h1::head::Version;
use crate::scan::{is_field_value, is_token};
use crate::status;

/// A head being appended to a buffer: its first line, fields, and the empty line by [`end`](Self::end).
///
/// The version of a response is always HTTP/1.1, the server's own (RFC 9110 section 6.2), whatever the request had.
#[derive(Debug)]
pub struct HeadWriter<'o> {
    out: &'o mut Vec<u8>,
}

/// A field that must not be sent: its name is not a token, or its value holds a control character, which could inject
/// fields or responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadField;

impl fmt::Display for BadField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field has a malformed name or a control character in its value")
    }
}

impl std::error::Error for BadField {}

impl<'o> HeadWriter<'o> {
    /// Appends the status line with Apache's reason phrase. `status` has three digits.
    pub fn start(out: &'o mut Vec<u8>, status: u16) -> Self {
        let mut head = HeadWriter { out };
        head.status_code(status);
        head.out.extend_from_slice(status::reason(status).as_bytes());
        head.out.extend_from_slice(b"\r\n");
        head
    }

    /// Appends a status line with the script's own phrase.
    ///
    /// # Errors
    /// `phrase` holds CR, LF or NUL; nothing is written.
    pub fn start_with_phrase(out: &'o mut Vec<u8>, status: u16, phrase: &[u8]) -> Result<Self, BadField> {
        if memchr::memchr3(b'\r', b'\n', 0, phrase).is_some() {
            return Err(BadField);
        }
        let mut head = HeadWriter { out };
        head.status_code(status);
        head.out.extend_from_slice(phrase);
        head.out.extend_from_slice(b"\r\n");
        Ok(head)
    }

    /// Appends a request line.
    ///
    /// # Errors
    /// The method is not a token, or the target has a blank or a control character in it; nothing is written.
    pub fn start_request(
        out: &'o mut Vec<u8>,
        method: &[u8],
        target: &[u8],
        version: Version,
    ) -> Result<Self, BadField> {
        let is_method = !method.is_empty() && method.iter().copied().all(is_token);
        if !is_method || target.is_empty() || target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err(BadField);
        }
        for part in [method, b" ", target, b" ", version.as_str().as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
        Ok(HeadWriter { out })
    }

    /// Appends a field.
    ///
    /// # Errors
    /// See [`BadField`]; nothing is written.
    pub fn field(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), BadField> {
        let name = name.as_ref();
        if name.is_empty() || !name.iter().copied().all(is_token) || !is_field_value(value) {
            return Err(BadField);
        }
        self.raw_field(name, value);
        Ok(())
    }

    /// Appends a field whose value is a number, such as Content-Length. `name` must be a token.
    pub fn number(&mut self, name: &'static str, value: u64) {
        self.raw_field(name.as_bytes(), Decimal::of(value).as_bytes());
    }

    /// Appends a field whose value is a date, such as Date or Last-Modified. `name` must be a token.
    pub fn date(&mut self, name: &'static str, date: &HttpDate) {
        self.raw_field(name.as_bytes(), date);
    }

    /// Appends the empty line.
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    fn status_code(&mut self, status: u16) {
        debug_assert!((100..1000).contains(&status), "a status has three digits");
        let digit = |n: u16| b'0' + (n % 10) as u8;
        self.out.extend_from_slice(b"HTTP/1.1 ");
        self.out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status), b' ']);
    }

    fn raw_field(&mut self, name: &[u8], value: &[u8]) {
        self.out.reserve(name.len() + value.len() + 4);
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::http_date;

    #[test]
    fn writes_a_head() {
        let mut out = Vec::new();
        let mut head = HeadWriter::start(&mut out, 200);
        head.date("Date", &http_date(0));
        head.number("Content-Length", 0);
        head.number("X-Max", u64::MAX);
        head.field("X-Y", b"z").unwrap();
        head.end();
        let expected = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0\r\n\
                        X-Max: 18446744073709551615\r\nX-Y: z\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn refuses_what_would_split_the_response() {
        let mut out = Vec::new();
        assert!(HeadWriter::start_with_phrase(&mut out, 200, b"OK\r\nA: b").is_err());
        assert!(out.is_empty());
        let mut head = HeadWriter::start(&mut out, 418);
        for (name, value) in [
            ("A", &b"b\r\nC: d"[..]),
            ("A", b"b\nc"),
            ("A", b"b\0"),
            ("A", b"\x01"),
            ("A", b"b\x7f"),
            ("A:", b"b"),
            ("", b"b"),
        ] {
            assert_eq!(head.field(name, value), Err(BadField));
        }
        assert_eq!(out, b"HTTP/1.1 418 \r\n");
    }
}
