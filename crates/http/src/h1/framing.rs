//! Where the body of a request ends (RFC 9112 section 6), and whether the connection may go on after it (section 9).
//!
//! Every request whose length two implementations could read differently is refused, because such requests allow
//! smuggling. Apache 2.4.71 accepts three of these (and closes the connection): Content-Length beside
//! Transfer-Encoding, Transfer-Encoding in HTTP/1.0, and codings other than `chunked` before a final `chunked`.

use crate::h1::head::{Head, HeadError, Version};
use crate::name::KnownField;
use crate::scan::{list, trim};

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// The body is this many bytes, fewer than 2^63; 0 if the client says so.
    Length(u64),
    /// The body comes in chunks; see [`Chunked`](crate::Chunked).
    Chunked,
}

impl Framing {
    /// The framing of the request with this head.
    ///
    /// # Errors
    /// The length is ambiguous or unknown: 400, or 501 for a transfer coding other than `chunked`. The connection must
    /// be closed after the response.
    pub fn of(head: &Head, buf: &[u8]) -> Result<Framing, HeadError> {
        let length = head.field(buf, KnownField::ContentLength);
        if head.has(buf, KnownField::TransferEncoding) {
            if head.version() == Version::Http10 {
                return Err(HeadError::EncodingInHttp10);
            }
            if length.is_some() {
                return Err(HeadError::LengthAndEncoding);
            }
            return check_codings(head, buf).map(|()| Framing::Chunked);
        }
        match length {
            None => Ok(Framing::None),
            Some(_) if head.values(buf, KnownField::ContentLength).nth(1).is_some() => Err(HeadError::BadContentLength),
            Some(value) => parse_length(value).map(Framing::Length).ok_or(HeadError::BadContentLength),
        }
    }

    /// May a body follow the head?
    #[must_use]
    pub fn has_body(self) -> bool {
        !matches!(self, Framing::None | Framing::Length(0))
    }
}

/// The client's wishes in its Connection field (RFC 9110 section 7.6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Persistence {
    /// `close`
    pub connection_close: bool,
    /// `keep-alive`
    pub connection_keep_alive: bool,
    /// `upgrade`; the protocols are in the Upgrade field.
    pub upgrade: bool,
}

impl Persistence {
    /// Reads the Connection fields of `head`.
    #[must_use]
    pub fn of(head: &Head, buf: &[u8]) -> Persistence {
        let mut wish = Persistence::default();
        for option in head.values(buf, KnownField::Connection).flat_map(list) {
            if option.eq_ignore_ascii_case(b"close") {
                wish.connection_close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                wish.connection_keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                wish.upgrade = true;
            }
        }
        wish
    }

    /// Does the client allow the connection to stay open after this request (RFC 9112 section 9.3)?
    #[must_use]
    pub fn allows(self, version: Version) -> bool {
        !self.connection_close && (version >= Version::Http11 || self.connection_keep_alive)
    }
}

/// `chunked` must be the last coding and the only one.
fn check_codings(head: &Head, buf: &[u8]) -> Result<(), HeadError> {
    let mut last = &b""[..];
    for coding in head.values(buf, KnownField::TransferEncoding).flat_map(|value| value.split(|&b| b == b',')).map(trim)
    {
        if last.eq_ignore_ascii_case(b"chunked") {
            return Err(HeadError::BadTransferEncoding);
        }
        if !last.is_empty() {
            return Err(HeadError::UnknownTransferCoding);
        }
        last = coding;
    }
    if last.eq_ignore_ascii_case(b"chunked") { Ok(()) } else { Err(HeadError::BadTransferEncoding) }
}

/// One decimal number below 2^63, as Apache's signed offsets allow; no sign, no list.
pub(crate) fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    let mut length = 0_u64;
    for byte in value {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length = length.checked_mul(10)?.checked_add(digit)?;
    }
    (length <= i64::MAX as u64).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::head::{Limits, Parse};

    fn framing(version: &str, fields: &str) -> Result<Framing, HeadError> {
        let request = format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        let mut head = Head::default();
        let parsed = Head::parse(request.as_bytes(), &Limits::default(), &mut head);
        assert_eq!(parsed, Ok(Parse::Complete { len: request.len() }), "{fields}");
        Framing::of(&head, request.as_bytes())
    }

    #[test]
    fn lengths() {
        let bad = Err(HeadError::BadContentLength);
        let table = [
            ("", Ok(Framing::None)),
            ("Content-Length: 3\r\n", Ok(Framing::Length(3))),
            ("Content-Length: 03 \r\n", Ok(Framing::Length(3))),
            ("content-length: 9223372036854775807\r\n", Ok(Framing::Length(i64::MAX as u64))),
            ("Content-Length: 9223372036854775808\r\n", bad),
            ("Content-Length: 99999999999999999999\r\n", bad),
            ("Content-Length: 3\r\nContent-Length: 3\r\n", bad),
            ("Content-Length: 3, 3\r\n", bad),
            ("Content-Length: +3\r\n", bad),
            ("Content-Length: -3\r\n", bad),
            ("Content-Length: 0x3\r\n", bad),
            ("Content-Length: 3a\r\n", bad),
            ("Content-Length:\r\n", bad),
        ];
        for (fields, expected) in table {
            assert_eq!(framing("1.1", fields), expected, "{fields}");
        }
    }

    #[test]
    fn transfer_encodings() {
        let (bad, unknown) = (Err(HeadError::BadTransferEncoding), Err(HeadError::UnknownTransferCoding));
        let table = [
            ("chunked", Ok(Framing::Chunked)),
            ("Chunked", Ok(Framing::Chunked)),
            (",chunked", Ok(Framing::Chunked)),
            ("chunked,", bad),
            ("chunked, chunked", bad),
            ("chunked\r\nTransfer-Encoding: chunked", bad),
            ("chunked, gzip", bad),
            ("gzip", bad),
            ("identity", bad),
            ("", bad),
            ("xchunked", bad),
            ("chunked;a=b", bad),
            ("gzip, chunked", unknown),
            ("gzip\r\nTransfer-Encoding: chunked", unknown),
        ];
        for (value, expected) in table {
            assert_eq!(framing("1.1", &format!("Transfer-Encoding: {value}\r\n")), expected, "{value}");
        }
        assert_eq!(framing("1.0", "Transfer-Encoding: chunked\r\n"), Err(HeadError::EncodingInHttp10));
        let both = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(framing("1.1", both), Err(HeadError::LengthAndEncoding));
    }

    #[test]
    fn persistence() {
        let table = [
            ("1.1", "", true),
            ("1.0", "", false),
            ("1.1", "close", false),
            ("1.1", "foo, Close", false),
            ("1.0", "Keep-Alive", true),
            ("1.0", "keep-alive, close", false),
            ("1.1", "foo", true),
        ];
        for (version, value, expected) in table {
            let request = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: {value}\r\n\r\n");
            let mut head = Head::default();
            Head::parse(request.as_bytes(), &Limits::default(), &mut head).unwrap();
            let wish = Persistence::of(&head, request.as_bytes());
            assert_eq!(wish.allows(head.version()), expected, "{version} {value}");
        }
    }
}
