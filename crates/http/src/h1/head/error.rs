//! The errors of a head.

use std::fmt;

/// Why a head or its framing was refused. All of these are the sender's fault, and each one requires closing the
/// connection. The texts speak of requests; those of responses are in [`BadResponse`](crate::h1::received::BadResponse).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadError {
    /// The request line is longer than `LimitRequestLine`.
    LineTooLong,
    /// A field is longer than `LimitRequestFieldSize`.
    FieldTooLong,
    /// More fields than `LimitRequestFields`.
    TooManyFields,
    /// More than ten empty lines before the request line.
    TooManyBlankLines,
    /// The method is not a token.
    BadMethod,
    /// The request line is not `METHOD SP target SP HTTP/d.d`.
    BadRequestLine,
    /// A request line without a protocol version (HTTP/0.9).
    NoVersion,
    /// The target is in none of the forms of RFC 9112 section 3.2, or holds control characters.
    BadTarget,
    /// HTTP/2.0 or later in an HTTP/1 request line.
    UnsupportedVersion,
    /// A line ends with LF without CR, or a CR does not end a line.
    BadLineEnd,
    /// A field line without a colon, with an empty name, blanks before the colon, or a name that is not a token.
    BadFieldName,
    /// A control character in a field value.
    BadFieldValue,
    /// A continuation line that continues nothing or is empty.
    BadFold,
    /// An HTTP/1.1 request without a Host field, or with an empty one.
    NoHost,
    /// More than one Host field.
    SeveralHosts,
    /// A Host that is no host name or address with an optional port.
    BadHost,
    /// Content-Length is not one decimal number below 2^63.
    BadContentLength,
    /// Both Content-Length and Transfer-Encoding.
    LengthAndEncoding,
    /// Transfer-Encoding in an HTTP/1.0 request.
    EncodingInHttp10,
    /// Transfer-Encoding does not end with `chunked`, or names it twice.
    BadTransferEncoding,
    /// A transfer coding other than `chunked`.
    UnknownTransferCoding,
    /// The status line of a response is not `HTTP/1.d SP status SP reason`.
    BadStatusLine,
}

impl HeadError {
    /// The status of the response.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            HeadError::LineTooLong => 414,
            HeadError::UnknownTransferCoding => 501,
            HeadError::UnsupportedVersion => 505,
            _ => 400,
        }
    }

    /// A clause for the error log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            HeadError::LineTooLong => "the request line is longer than LimitRequestLine",
            HeadError::FieldTooLong => "a header field is longer than LimitRequestFieldSize",
            HeadError::TooManyFields => "more header fields than LimitRequestFields",
            HeadError::TooManyBlankLines => "too many empty lines before the request line",
            HeadError::BadMethod => "the method is not a token",
            HeadError::BadRequestLine => "the request line is malformed",
            HeadError::NoVersion => "the request line has no protocol version",
            HeadError::BadTarget => "the request target is malformed",
            HeadError::UnsupportedVersion => "the protocol version is not HTTP/1",
            HeadError::BadLineEnd => "a line does not end with CR LF",
            HeadError::BadFieldName => "a header field name is malformed",
            HeadError::BadFieldValue => "a header field value holds a control character",
            HeadError::BadFold => "a continuation line is misplaced",
            HeadError::NoHost => "an HTTP/1.1 request without a host",
            HeadError::SeveralHosts => "more than one Host field",
            HeadError::BadHost => "the host name or port is malformed",
            HeadError::BadContentLength => "Content-Length is malformed or given twice",
            HeadError::LengthAndEncoding => "both Content-Length and Transfer-Encoding",
            HeadError::EncodingInHttp10 => "Transfer-Encoding in an HTTP/1.0 request",
            HeadError::BadTransferEncoding => "Transfer-Encoding does not end with a single chunked",
            HeadError::UnknownTransferCoding => "a transfer coding other than chunked",
            HeadError::BadStatusLine => "the status line is malformed",
        }
    }

    /// The sentence that Apache adds to its error page; most errors have none.
    #[must_use]
    pub const fn note(self) -> &'static str {
        match self {
            HeadError::FieldTooLong => "Size of a request header field exceeds server limit.",
            HeadError::TooManyFields => "The number of request header fields exceeds this server's limit.",
            _ => "",
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for HeadError {}
