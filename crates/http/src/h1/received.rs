//! The head of a response, as a gateway receives it from the server behind it, and where its body ends.
//!
//! The parser is that of requests, as lenient about line ends, folds and bytes as Apache: a server behind us was
//! chosen by the administrator. It is strict where leniency would let two readers see two different responses: a
//! `Content-Length` that is no number, or two that differ, and transfer codings that we did not ask for.

use std::borrow::Cow;
use std::fmt;

use crate::h1::framing::parse_length;
use crate::h1::head::parse::{self, StartLine};
use crate::h1::head::{Head, HeadError, Limits, Parse, Version};
use crate::name::{KnownField, Name};
use crate::scan::{list, trim};

/// How large the head of a response may be. As in Apache, a line has at most 8 KB.
const LIMITS: Limits = Limits { line: 8190, fields: FIELDS_MAX, field_size: 8190, strict: false };
/// The most fields of a head.
const FIELDS_MAX: usize = 1000;
/// The most bytes of a head, so that one without end is refused.
const HEAD_MAX: usize = 256 * 1024;

/// A received response head. Like [`Head`], it keeps ranges into the buffer that was parsed.
#[derive(Debug, Default)]
pub struct ResponseHead {
    head: Head,
}

/// Why a response was refused: the server behind us is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadResponse {
    /// Its head is malformed.
    Head(HeadError),
    /// Its head has no end.
    TooLong,
    /// Its `Content-Length` is no number, or there are two different ones.
    Length,
    /// It has a transfer coding other than `chunked`.
    Coding,
}

impl fmt::Display for BadResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadResponse::Head(HeadError::LineTooLong) => "the status line is too long",
            BadResponse::Head(HeadError::FieldTooLong) => "a field is longer than 8190 bytes",
            BadResponse::Head(HeadError::TooManyFields) => "it has too many fields",
            BadResponse::Head(error) => error.reason(),
            BadResponse::TooLong => "its head is too long",
            BadResponse::Length => "its Content-Length is malformed, or given twice",
            BadResponse::Coding => "it has a transfer coding other than chunked",
        })
    }
}

impl std::error::Error for BadResponse {}

/// Where the body of a response ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// There is none.
    None,
    /// After this many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// With the connection.
    Close,
}

impl ResponseHead {
    /// Parses the head at the start of `buf`. After [`Parse::Partial`], the next call continues where this one stopped.
    ///
    /// # Errors
    /// The head is malformed or too long. The connection is of no further use.
    pub fn parse(&mut self, buf: &[u8]) -> Result<Parse, BadResponse> {
        match parse::parse(buf, &LIMITS, &mut self.head, StartLine::Status) {
            Ok(Parse::Partial) if buf.len() > HEAD_MAX => Err(BadResponse::TooLong),
            other => other.map_err(BadResponse::Head),
        }
    }

    /// Forgets what was parsed, and keeps the memory.
    pub fn clear(&mut self) {
        self.head.clear();
    }

    /// The status, from 100 to 999.
    #[must_use]
    pub fn status(&self, buf: &[u8]) -> u16 {
        self.head.method(buf).iter().fold(0, |all, digit| all * 10 + u16::from(digit - b'0'))
    }

    /// The status with its reason, as received.
    #[must_use]
    pub fn reason<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.head.target(buf)
    }

    /// The version of the server behind us.
    #[must_use]
    pub fn version(&self) -> Version {
        self.head.version()
    }

    /// All fields in order of arrival, as name and value.
    pub fn fields<'h>(&'h self, buf: &'h [u8]) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
        self.head.fields(buf)
    }

    /// All fields in order of arrival: which known name it has, if any, its name, and its value.
    pub fn named_fields<'h>(&'h self, buf: &'h [u8]) -> impl Iterator<Item = (Option<KnownField>, &'h [u8], &'h [u8])> {
        self.head.named_fields(buf)
    }

    /// The value of the first field called `name`.
    #[must_use]
    pub fn field<'h, 'n>(&'h self, buf: &'h [u8], name: impl Into<Name<'n>>) -> Option<&'h [u8]> {
        self.head.field(buf, name)
    }

    /// The values of all fields called `name`, joined by `, `.
    #[must_use]
    pub fn combined<'h, 'n>(&'h self, buf: &'h [u8], name: impl Into<Name<'n>>) -> Option<Cow<'h, [u8]>> {
        self.head.combined(buf, name)
    }

    /// Whether one of the options of `Connection` is this one.
    #[must_use]
    pub fn has_connection_option(&self, buf: &[u8], option: &[u8]) -> bool {
        self.head.values(buf, KnownField::Connection).flat_map(list).any(|one| one.eq_ignore_ascii_case(option))
    }

    /// Whether the server lets the connection stay open after this response (RFC 9112 section 9.3). A response whose
    /// length is given twice is the last one (section 6.3), and so is one that has no body and announces one: its bytes may
    /// come later.
    #[must_use]
    pub fn keeps_connection(&self, buf: &[u8]) -> bool {
        let is_double = self.head.has(buf, KnownField::TransferEncoding)
            && (self.version() == Version::Http10 || self.head.has(buf, KnownField::ContentLength));
        let announces = self.length(buf).is_ok_and(|length| length.is_some_and(|length| length > 0));
        let is_coded = self.head.has(buf, KnownField::TransferEncoding);
        let belies = match self.status(buf) {
            204 => announces || is_coded,
            304 => is_coded,
            _ => false,
        };
        !(is_double || belies)
            && match self.version() {
                Version::Http10 => self.has_connection_option(buf, b"keep-alive"),
                _ => !self.has_connection_option(buf, b"close"),
            }
    }

    /// Where the body of this response ends. `to_head`: the request's method was `HEAD`.
    ///
    /// # Errors
    /// Nobody can tell.
    pub fn body_end(&self, buf: &[u8], to_head: bool) -> Result<BodyEnd, BadResponse> {
        let length = self.length(buf)?;
        let is_coded = self.head.has(buf, KnownField::TransferEncoding);
        if is_coded {
            let mut codings = self.head.values(buf, KnownField::TransferEncoding).flat_map(list).map(trim);
            if !codings.next().is_some_and(|one| one.eq_ignore_ascii_case(b"chunked")) || codings.next().is_some() {
                return Err(BadResponse::Coding);
            }
        }
        Ok(match self.status(buf) {
            100..200 | 204 | 304 => BodyEnd::None,
            _ if to_head => BodyEnd::None,
            _ if is_coded => BodyEnd::Chunked,
            _ => length.map_or(BodyEnd::Close, BodyEnd::Length),
        })
    }

    /// The length that the response announces.
    fn length(&self, buf: &[u8]) -> Result<Option<u64>, BadResponse> {
        let mut values = self.head.values(buf, KnownField::ContentLength).flat_map(list).map(trim);
        let Some(first) = values.next() else {
            return match self.head.has(buf, KnownField::ContentLength) {
                true => Err(BadResponse::Length),
                false => Ok(None),
            };
        };
        let length = parse_length(first).ok_or(BadResponse::Length)?;
        match values.all(|other| parse_length(other) == Some(length)) {
            true => Ok(Some(length)),
            false => Err(BadResponse::Length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &[u8]) -> Result<ResponseHead, BadResponse> {
        let mut head = ResponseHead::default();
        match head.parse(text)? {
            Parse::Complete { len } => assert_eq!(len, text.len()),
            Parse::Partial => panic!("{:?} is a whole head", String::from_utf8_lossy(text)),
        }
        Ok(head)
    }

    #[test]
    fn status_lines() {
        let good: [(&[u8], u16, &[u8]); 6] = [
            (b"HTTP/1.1 200 OK\r\n\r\n", 200, b"OK"),
            (b"HTTP/1.0 404 Not Here \xe9\r\n\r\n", 404, b"Not Here \xe9"),
            (b"HTTP/1.1 200\r\n\r\n", 200, b""),
            (b"HTTP/1.1 999 \r\n\r\n", 999, b""),
            (b"HTTP/1.7 100 a\tb\n\n", 100, b"a\tb"),
            (b"HTTP/1.1 200  two\r\nHost: a\r\nHost: b\r\n\r\n", 200, b" two"),
        ];
        for (text, status, reason) in good {
            let head = parsed(text).expect("a head");
            assert_eq!((head.status(text), head.reason(text)), (status, reason));
            for cut in 0..text.len() {
                assert_eq!(ResponseHead::default().parse(&text[..cut]), Ok(Parse::Partial), "{cut} bytes");
            }
        }
        let bad: [&[u8]; 9] = [
            b"\r\nHTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/2.0 200 OK\r\n\r\n",
            b"HTTP/1.1 99 OK\r\n\r\n",
            b"HTTP/1.1 2000 OK\r\n\r\n",
            b"HTTP/1.1 20x OK\r\n\r\n",
            b"HTTP/1.1  200 OK\r\n\r\n",
            b"http/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 O\0K\r\n\r\n",
            b"<html>\r\n\r\n",
        ];
        for text in bad {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(parsed(text).err(), Some(BadResponse::Head(HeadError::BadStatusLine)), "{shown:?}");
        }
    }

    #[test]
    fn where_bodies_end() {
        let table: [(&str, Result<BodyEnd, BadResponse>, bool); 17] = [
            ("HTTP/1.1 200 x\r\nContent-Length: 5\r\n", Ok(BodyEnd::Length(5)), true),
            ("HTTP/1.1 200 x\r\nContent-Length: 5\r\nConnection: a, Close\r\n", Ok(BodyEnd::Length(5)), false),
            ("HTTP/1.1 200 x\r\nContent-Length: 5\r\nContent-Length: 5, 5\r\n", Ok(BodyEnd::Length(5)), true),
            ("HTTP/1.1 200 x\r\nContent-Length: 5\r\nContent-Length: 6\r\n", Err(BadResponse::Length), true),
            ("HTTP/1.1 200 x\r\nContent-Length: +5\r\n", Err(BadResponse::Length), true),
            ("HTTP/1.1 200 x\r\nContent-Length:\r\n", Err(BadResponse::Length), true),
            ("HTTP/1.1 200 x\r\n", Ok(BodyEnd::Close), true),
            ("HTTP/1.0 200 x\r\nContent-Length: 0\r\n", Ok(BodyEnd::Length(0)), false),
            ("HTTP/1.0 200 x\r\nContent-Length: 0\r\nConnection: keep-alive\r\n", Ok(BodyEnd::Length(0)), true),
            ("HTTP/1.1 200 x\r\nTransfer-Encoding: Chunked\r\n", Ok(BodyEnd::Chunked), true),
            ("HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", Ok(BodyEnd::Chunked), false),
            ("HTTP/1.1 200 x\r\nTransfer-Encoding: gzip, chunked\r\n", Err(BadResponse::Coding), true),
            ("HTTP/1.1 200 x\r\nTransfer-Encoding: chunked, chunked\r\n", Err(BadResponse::Coding), true),
            ("HTTP/1.1 304 x\r\nContent-Length: 5\r\n", Ok(BodyEnd::None), true),
            ("HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n", Ok(BodyEnd::None), false),
            ("HTTP/1.1 204 x\r\nContent-Length: 5\r\n", Ok(BodyEnd::None), false),
            ("HTTP/1.1 204 x\r\nContent-Length: 0\r\n", Ok(BodyEnd::None), true),
        ];
        for (text, end, keeps) in table {
            let text = format!("{text}\r\n").into_bytes();
            let head = parsed(&text).expect("a head");
            assert_eq!(head.body_end(&text, false), end, "{}", String::from_utf8_lossy(&text));
            assert_eq!(head.keeps_connection(&text), keeps, "{}", String::from_utf8_lossy(&text));
            if end.is_ok() {
                assert_eq!(head.body_end(&text, true), Ok(BodyEnd::None));
            }
        }
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &b"a: b\r\n".repeat(FIELDS_MAX + 1)].concat();
        assert_eq!(ResponseHead::default().parse(&endless), Err(BadResponse::Head(HeadError::TooManyFields)));
        let field = [&b"a: "[..], &[b'x'; 4000], b"\r\n"].concat();
        let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &field.repeat(HEAD_MAX / 4000 + 1)].concat();
        assert_eq!(ResponseHead::default().parse(&endless), Err(BadResponse::TooLong));
    }
}
